"""Record batches into Arrow columns without an object for each record.

`columns.decode_columns` comes here once NumPy and pyarrow are known to be there. The way: find
where each record begins (`chain`), decode each number of all records at once, byte by byte with a
mask for what goes on, then hand keys and values to Arrow as views into the batch. Invariant: the
batches of one call lie in one buffer (`Block`), so that many small batches cost as little as one
large one, and what is malformed is a `CorruptMessage`, as in `decoder`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import CorruptMessage
from tidelog.records.batch import LOG_APPEND_TIME_BIT, BatchHeader
from tidelog.records.binary_column import binary_column
from tidelog.records.chain import equal_records, walk_records
from tidelog.records.column_numbers import (
    Bytes,
    Numbers,
    RecordNumbers,
    as_numbers,
    joined,
    read_run,
    read_scattered,
)
from tidelog.records.header_column import HEADERS_TYPE, headers_column
from tidelog.records.plain_arrays import of_numbers
from tidelog.records.regular_block import RegularBlock, regular_block
from tidelog.records.source import BatchBody, BatchSource

#: Runs shorter than this are walked record by record, that many at a time.
_SHORTEST_RUN: Final = 16
_WALKED_AT_ONCE: Final = 256
#: Runs from here on are worth being decoded apart.
_LONG_RUN: Final = 512
_FEW_PIECES: Final = 2
#: Of several batches, those of so many records each are looked at one by one.
_LARGE_BATCH: Final = 256

_LARGEST_TIMESTAMP_MS: Final = (2**63 - 1) // 1000

TIMESTAMP_TYPE: Final = pa.timestamp("us", "UTC")
SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP_TYPE, nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("headers", HEADERS_TYPE, nullable=False),
    ]
)


class Block:
    """The records of several batches in one buffer, and what the numbers of each say."""

    __slots__ = ("append_time", "data", "numbers", "octets")

    def __init__(self, bodies: list[BatchBody], data: bytes, starts: list[range | Numbers]) -> None:
        self.data = data
        self.octets: Bytes = np.frombuffer(self.data, np.uint8)
        self.numbers = joined([self._read(piece) for piece in starts])
        self.append_time: npt.NDArray[np.bool_] | None = None
        self._place([body.header for body in bodies])

    def _read(self, starts: range | Numbers) -> RecordNumbers:
        if isinstance(starts, range):
            numbers = read_run(self.data, starts)
            if numbers is not None:
                return numbers
            starts = as_numbers(starts)
        return read_scattered(self.octets, starts)

    def _place(self, headers: list[BatchHeader]) -> None:
        """Deltas into offsets and timestamps, by the headers of the batches."""
        offset, timestamp = self.numbers.offset, self.numbers.timestamp
        counts = np.array([header.record_count for header in headers], np.int64)
        ends = np.cumsum(counts)
        rising = offset[1:] > offset[:-1]
        rising[ends[:-1] - 1] = True  # from one batch to the next the deltas begin anew
        within = np.all(offset[ends - 1] <= [header.last_offset_delta for header in headers])
        if not within or offset[ends - counts].min() < 0 or not rising.all():
            raise CorruptMessage("the offset of a record does not follow the one before it")
        appended = [header.attributes & LOG_APPEND_TIME_BIT != 0 for header in headers]
        bases = [
            header.max_timestamp if stamped else header.base_timestamp
            for header, stamped in zip(headers, appended, strict=True)
        ]
        if any(appended):
            self.append_time = np.repeat(appended, counts)
            timestamp[self.append_time] = 0
        if len(headers) == 1:
            offset += headers[0].base_offset
            timestamp += bases[0]
        else:
            offset += np.repeat([header.base_offset for header in headers], counts)
            timestamp += np.repeat(np.array(bases, np.int64), counts)

    def keep(self, start_offset: int, end_offset: int) -> None:
        """Leave out the records outside of a range of offsets."""
        offset = self.numbers.offset
        wanted = (offset >= start_offset) & (offset < end_offset)
        self.numbers = self.numbers.chosen(wanted)
        if self.append_time is not None:
            self.append_time = self.append_time[wanted]

    def key(self) -> Any:
        """The column of keys."""
        numbers = self.numbers
        return binary_column(self.data, self.octets, numbers.key_start, numbers.key_bytes)

    def value(self) -> Any:
        """The column of values."""
        numbers = self.numbers
        return binary_column(self.data, self.octets, numbers.value_start, numbers.value_bytes)

    def offset(self) -> Any:
        """The column of offsets."""
        return of_numbers(self.numbers.offset, pa.int64())

    def milliseconds(self) -> Numbers:
        """The timestamps."""
        return self.numbers.timestamp

    def timestamp_type(self) -> Any:
        """The column that says whose clock a timestamp is of."""
        stamped = (
            np.zeros(len(self.numbers.offset)) if self.append_time is None else self.append_time
        )
        return of_numbers(stamped.astype(np.int32), pa.int32())

    def headers(self) -> Any:
        """The column of headers."""
        return headers_column(self.data, self.numbers.header_start, self.numbers.stop)


def decode_bodies(
    source: BatchSource, bodies: list[BatchBody], names: tuple[str, ...], end_offset: int
) -> Any:
    """A record batch of the named columns; the batch that is malformed is the one named."""
    if not bodies:
        schema = _schema(names)
        empty = [pa.nulls(0, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(empty, schema=schema)
    first, last = bodies[0].header, bodies[-1].header
    try:
        is_cut = first.base_offset < source.start_offset or last.last_offset >= end_offset
        regular = None
        if not is_cut and _are_large(bodies):
            regular = regular_block(bodies, _record_starts)
        if regular is None:
            block = Block(bodies, *_in_one_buffer(bodies))
            if is_cut:
                block.keep(source.start_offset, end_offset)
        arrays = [_column(regular or block, name) for name in names]
    except (IndexError, UnicodeDecodeError, CorruptMessage) as error:
        if len(bodies) > 1:
            for body in bodies:
                decode_bodies(source, [body], names, end_offset)
        raise source.corrupt(first, f"a record in it is malformed ({error})") from error
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(names))


def _are_large(bodies: list[BatchBody]) -> bool:
    """Whether it costs less to look at each batch than at each record."""
    records = sum(int(body.header.record_count) for body in bodies)
    return len(bodies) == 1 or records >= len(bodies) * _LARGE_BATCH


def _column(block: Block | RegularBlock, name: str) -> Any:
    """One column of `SCHEMA` as an Arrow array."""
    if name == "timestamp":
        return _timestamps(block.milliseconds())
    return getattr(block, name)()


@cache
def _schema(names: tuple[str, ...]) -> Any:
    return pa.schema([SCHEMA.field(name) for name in names])


def _in_one_buffer(bodies: list[BatchBody]) -> tuple[bytes, list[range | Numbers]]:
    """One buffer that holds the records of all bodies, and where in it each record begins.

    Long runs of records of one size stay ranges, all that lies between them is gathered.
    """
    data = bodies[0].data
    shifts = [0] * len(bodies)
    if any(body.data is not data for body in bodies):
        data = b"".join([memoryview(body.data)[body.start : body.end] for body in bodies])
        ends = accumulate(body.end - body.start for body in bodies)
        shifts = [end - body.end for end, body in zip(ends, bodies, strict=True)]
    starts: list[range | Numbers] = []
    short: list[range | Numbers] = []
    for body, shift in zip(bodies, shifts, strict=True):
        for piece in _record_starts(body):
            if isinstance(piece, range):
                moved: range | Numbers = range(piece.start + shift, piece.stop + shift, piece.step)
            else:
                moved = piece + shift
            short.append(moved)
            if isinstance(moved, range) and len(moved) >= _LONG_RUN:
                starts += [*_gathered(short[:-1]), moved]
                short = []
    return data, starts + _gathered(short)


def _gathered(short: list[range | Numbers]) -> list[range | Numbers]:
    """Many short pieces as one; a piece or two cost less as they are."""
    if len(short) <= _FEW_PIECES:
        return short
    arrays = [as_numbers(piece) if isinstance(piece, range) else piece for piece in short]
    return [np.concatenate(arrays)]


def _record_starts(body: BatchBody) -> Iterator[range | Numbers]:
    """Where each record of a batch begins; they fill it to its last byte."""
    position, left = body.start, body.header.record_count
    while left:
        count, size = equal_records(body.data, position, body.end, left)
        if count >= min(_SHORTEST_RUN, left):
            yield range(position, position + count * size, size)
            position += count * size
        else:
            count = min(left, _WALKED_AT_ONCE)
            walked: list[int] = []
            position = walk_records(body.data, position, body.end, count, walked)
            yield np.array(walked, np.int64)
        left -= count
    if position != body.end:
        raise CorruptMessage(f"{body.end - position} bytes follow the last record")


def _timestamps(milliseconds: Numbers) -> Any:
    lowest, highest = milliseconds.min(initial=0), milliseconds.max(initial=0)
    if max(-int(lowest), int(highest)) > _LARGEST_TIMESTAMP_MS:
        raise CorruptMessage("a timestamp lies beyond what microseconds can say")
    return of_numbers(milliseconds * 1000, TIMESTAMP_TYPE)
