"""The record codec against aiokafka's compiled one, side by side: `python -m bench.codec`.

Every ratio is the median of rounds in which both sides ran one after the other. Time is the
processor's: waiting for a busy machine counts for neither side. aiokafka's codec is called bare,
without the client around it, and reads without a look at the CRC; so do we where it is compared.
The pure source is measured in a process of its own, which `TIDELOG_PURE=1` makes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

from aiokafka.record import default_records as aiokafka_records

from bench.measuring import Row, row, show, with_ratio
from tidelog.records import COMPILED
from tidelog.records.batch import check_batch
from tidelog.records.builder import BatchBuilder
from tidelog.records.decoder import decode_records

NOW_MS: Final = 1_700_000_000_000
#: A batch is about 1 MiB: what a busy producer sends and a fetch brings.
BATCH_BYTES: Final = 1_000_000
SIZES: Final = (100, 1_000)
PURE_VARIABLE: Final = "TIDELOG_PURE"

Work = Callable[[], object]


def rounds(
    ours: Work, theirs: Work, *, records: int, repeat: int
) -> tuple[list[float], list[float]]:
    """Records a second of processor time on both sides, round by round.

    The outcome of a round is let go of when the next is there, as readers do it. Where nothing is
    held, Python gives its memory back after each round, and the kernel's zeroing of new pages is
    measured: as much as the decoding itself on some virtual machines.
    """
    speeds: tuple[list[float], list[float]] = ([], [])
    held = [ours(), theirs()]
    for _ in range(repeat):
        for side, work in enumerate((ours, theirs)):
            began = time.thread_time()
            held[side] = work()
            speeds[side].append(records / (time.thread_time() - began))
    return speeds


def aiokafka_batch(values: Sequence[bytes | None], timestamps: Sequence[int]) -> bytes:
    """What aiokafka's codec makes of values, one append each."""
    builder = aiokafka_records.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    append = builder.append
    for offset, (value, timestamp) in enumerate(zip(values, timestamps, strict=True)):
        append(offset, timestamp, None, value, [])
    return bytes(builder.build())


class Case:
    """Values of one size, or of half of it to half more: each piece of work on both sides."""

    def __init__(self, size: int, *, varied: bool = False) -> None:
        self.count = BATCH_BYTES // size
        self.name = f"{size // 2}-{size * 3 // 2} B" if varied else f"{size} B"
        sizes = [
            size // 2 + index * 7_919 % size if varied else size for index in range(self.count)
        ]
        self.values: list[bytes | None] = [bytes(each) for each in sizes]
        self.timestamps = [NOW_MS + index // 100 for index in range(self.count)]
        self.batch = aiokafka_batch(self.values, self.timestamps)

    def encode(self) -> bytes:
        """A list of values into a batch."""
        builder = BatchBuilder(1 << 30)
        builder.extend(self.values, NOW_MS)
        return builder.build()

    def encode_theirs(self) -> bytes:
        """The same with aiokafka, at one timestamp."""
        builder = aiokafka_records.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
        append = builder.append
        for offset, value in enumerate(self.values):
            append(offset, NOW_MS, None, value, [])
        return bytes(builder.build())

    def append(self) -> bytes:
        """One call for each value, as a producer's `send` makes it."""
        builder = BatchBuilder(1 << 30)
        append = builder.append
        for value in self.values:
            append(value, None, (), NOW_MS)
        return builder.build()

    def check(self) -> object:
        """The broker's look at a batch, its CRC included."""
        return check_batch(self.batch, exact=True, from_producer=True)

    def check_theirs(self) -> object:
        """aiokafka's look at the CRC alone."""
        return aiokafka_records.DefaultRecordBatch(self.batch).validate_crc()

    def decode(self) -> object:
        """A batch into record objects with all fields."""
        return decode_records(self.batch, "t", 0, check_crc=False)

    def views_theirs(self) -> None:
        """aiokafka's iteration over its views."""
        for _ in aiokafka_records.DefaultRecordBatch(self.batch):
            pass


class ColumnCase(Case):
    """The same batch as columns; the other side makes lists of aiokafka's records, then arrays."""

    def __init__(self, size: int, *, varied: bool = False) -> None:
        super().__init__(size, varied=varied)
        import pyarrow as pa  # noqa: PLC0415 - the other benches do without it

        self.arrow = pa
        self.value_column = pa.array(self.values, pa.binary())
        self.key_column = pa.nulls(self.count, pa.binary())
        self.timestamp_column = pa.array(self.timestamps, pa.int64())

    def decode_columns(self) -> Any:
        """Key, value, offset and timestamp as Arrow columns."""
        from tidelog.records.columns import decode_columns  # noqa: PLC0415 - as above

        return decode_columns(self.batch, check_crc=False)

    def decode_lists(self) -> list[Any]:
        """aiokafka's records, four lists, four arrays."""
        pa = self.arrow
        keys, values, offsets, timestamps = [], [], [], []
        for record in aiokafka_records.DefaultRecordBatch(self.batch):
            keys.append(record.key)
            values.append(record.value)
            offsets.append(record.offset)
            timestamps.append(record.timestamp)
        binary, number = pa.binary(), pa.int64()
        return [
            pa.array(keys, binary),
            pa.array(values, binary),
            pa.array(offsets, number),
            pa.array(timestamps, number),
        ]

    def encode_columns(self) -> list[bytes]:
        """Arrow columns into a batch."""
        from tidelog.records.columns import encode_columns  # noqa: PLC0415 - as above

        return encode_columns(
            self.value_column,
            key=self.key_column,
            timestamp=self.timestamp_column,
            limit_bytes=1 << 30,
        )

    def encode_lists(self) -> bytes:
        """Arrow columns into lists, each row into aiokafka's builder."""
        builder = aiokafka_records.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
        append = builder.append
        columns = (self.timestamp_column, self.key_column, self.value_column)
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        for offset, (timestamp, key, value) in enumerate(rows):
            append(offset, timestamp, key, value, [])
        return bytes(builder.build())


def measure(repeat: int) -> list[Row]:
    """The rows of the twin that this process uses."""
    twin = "compiled" if COMPILED else "pure"
    rows: list[Row] = []
    for size, varied in product(SIZES, (False, True)):
        case = ColumnCase(size, varied=varied)
        for name, ours, other, theirs in (
            ("encode a list of values", case.encode, "aiokafka's append", case.encode_theirs),
            ("append values one by one", case.append, "aiokafka's append", case.encode_theirs),
            ("decode into records", case.decode, "aiokafka's views", case.views_theirs),
            ("check a batch", case.check, "aiokafka's CRC", case.check_theirs),
            ("decode into columns", case.decode_columns, "C, lists, arrays", case.decode_lists),
            ("encode columns", case.encode_columns, "lists, C", case.encode_lists),
        ):
            speeds, base = rounds(ours, theirs, records=case.count, repeat=repeat)
            label = f"{name}, {case.name}, {twin}"
            rows.append(with_ratio(row(label, "records/s", speeds), other, speeds, base))
    return rows


def run(repeat: int) -> list[Row]:
    """The rows of the twin in use and, where that is the compiled one, of the pure source too."""
    rows = measure(repeat)
    if COMPILED:
        command = [sys.executable, "-m", "bench.codec", "--json", "--repeat", str(repeat)]
        environment = {**os.environ, PURE_VARIABLE: "1"}
        seen = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        rows += json.loads(seen.stdout)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.codec", description=__doc__)
    parser.add_argument("--repeat", type=int, default=31, help="rounds of each row (default 31)")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    arguments = parser.parse_args()
    rows = run(arguments.repeat)
    print(json.dumps(rows) if arguments.json else show(rows))


if __name__ == "__main__":
    main()
