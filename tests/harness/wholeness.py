"""Reads a topic whole in four ways and compares every record with what was sent.

`tools/read_whole.py` runs it over a million records of each compression. Records are sent as
columns and compared as columns: what comes by iteration is gathered into columns first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from tidelog import AsyncConsumer, Consumer, ConsumerRecord, Producer

FIRST_TIMESTAMP: Final = 1_700_000_000_000
COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
SLICE: Final = 50_000
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def sent(start: int, stop: int) -> dict[str, Any]:
    """The records of these offsets as columns: nulls and headers among them."""
    numbers = range(start, stop)
    return {
        "timestamp": pa.array([FIRST_TIMESTAMP + number for number in numbers], pa.int64()),
        "key": pa.array(
            [None if number % 5 == 0 else b"key %d" % (number % 97) for number in numbers],
            pa.binary(),
        ),
        "value": pa.array(
            [None if number % 31 == 0 else b"value %d" % number for number in numbers], pa.binary()
        ),
        "headers": pa.array(
            [
                [{"key": "number", "value": b"%d" % number}, {"key": "none", "value": None}]
                if number % 7 == 0
                else []
                for number in numbers
            ],
            _HEADERS,
        ),
    }


def send_all(address: str, topic: str, records: int, compression: Any) -> None:
    """Sends them to the first partition, in order."""
    with Producer(address, compression=compression) as producer:
        for start in range(0, records, SLICE):
            columns = sent(start, min(start + SLICE, records))
            producer.send_columns(topic, partition=0, **columns)


class Whole:
    """Takes what was read, slice by slice, and compares."""

    def __init__(self, records: int) -> None:
        self._records = records
        self.offset = 0

    def take(self, rows: dict[str, Any]) -> None:
        """The next rows, as columns."""
        stop = self.offset + len(rows["offset"])
        wanted = sent(self.offset, stop) | {"offset": pa.array(range(self.offset, stop))}
        for name, column in wanted.items():
            assert rows[name].equals(column), f"{name} of {self.offset} to {stop}"
        self.offset = stop

    def take_table(self, table: pa.Table) -> None:
        """The next rows, as they were read in columns."""
        columns = {name: table[name].combine_chunks() for name in COLUMNS}
        self.take(
            {
                "offset": columns["offset"].cast(pa.int64()),
                "timestamp": columns["timestamp"].cast(_MILLISECONDS).cast(pa.int64()),
                "key": columns["key"].cast(pa.binary()),
                "value": columns["value"].cast(pa.binary()),
                "headers": pa.array(columns["headers"].to_pylist(), _HEADERS),
            }
        )

    def take_records(self, records: Iterable[ConsumerRecord[bytes, bytes]]) -> None:
        """The next records."""
        found = [
            (
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                [{"key": name, "value": value} for name, value in record.headers],
            )
            for record in records
        ]
        offsets, timestamps, keys, values, headers = zip(*found, strict=True)
        self.take(
            {
                "offset": pa.array(offsets, pa.int64()),
                "timestamp": pa.array(timestamps, pa.int64()),
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "headers": pa.array(headers, _HEADERS),
            }
        )

    def done(self) -> None:
        """Nothing may be missing."""
        assert self.offset == self._records, f"{self.offset} of {self._records} records came"


def read_in_thread(address: str, topic: str, records: int) -> None:
    """By iteration, then by columns."""
    with Consumer(address) as consumer:
        consumer.assign(topic, start="earliest", until="end")
        whole, gathered = Whole(records), []
        for record in consumer:
            gathered.append(record)
            if len(gathered) == SLICE:
                whole.take_records(gathered)
                gathered.clear()
        if gathered:
            whole.take_records(gathered)
        whole.done()
        consumer.assign(topic, start="earliest", until="end")
        whole = Whole(records)
        while (table := consumer.read_arrow(columns=COLUMNS)).num_rows:
            whole.take_table(table)
        whole.done()


async def _read_on_loop(address: str, topic: str, records: int) -> None:
    async with AsyncConsumer(address) as consumer:
        await consumer.assign(topic, start="earliest", until="end")
        whole, gathered = Whole(records), []
        async for record in consumer:
            gathered.append(record)
            if len(gathered) == SLICE:
                whole.take_records(gathered)
                gathered.clear()
        if gathered:
            whole.take_records(gathered)
        whole.done()
        await consumer.assign(topic, start="earliest", until="end")
        whole = Whole(records)
        while (table := await consumer.read_arrow(columns=COLUMNS)).num_rows:
            whole.take_table(table)
        whole.done()


def read_on_loop(address: str, topic: str, records: int) -> None:
    """The same from asyncio."""
    asyncio.run(_read_on_loop(address, topic, records))
