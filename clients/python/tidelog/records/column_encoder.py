"""Arrow columns into record batches without an object for each record.

`columns.encode_columns` comes here with `Rows`. The way: compute the width of every number of
every record, prefix-sum them into places, scatter the numbers into one buffer, and let Arrow join
numbers, keys and values element by element in C++. Invariant: each batch is, byte for byte, what
`BatchBuilder` makes of the same records; it may end a little earlier, never later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import InvalidRecord
from tidelog.records import few_rows
from tidelog.records.batch import HEADER_BYTES, SMALLEST_RECORD_BYTES, LooseBatch
from tidelog.records.builder import ZERO
from tidelog.records.column_numbers import Bytes, Numbers
from tidelog.records.compression import Compression, compress
from tidelog.records.plain_arrays import of_bytes
from tidelog.records.regular_rows import regular_records, regular_values
from tidelog.records.rows import LARGE_BINARY, Rows

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Rows are encoded in windows of about this many bytes, which bounds what lies beside the result.
_WINDOW_BYTES: Final = 16 * 1024 * 1024
_NO_HEADERS: Final = 0
_NO_ATTRIBUTES: Final = 0
_NULL_LENGTH: Final = 1
#: Rows laid out alike are written together, unless that changes too often to be worth it.
_FEW_LAYOUTS: Final = 8
_ROWS_A_LAYOUT: Final = 256
_NOTHING: Final = of_bytes([b""], pa.binary()).cast(LARGE_BINARY)[0]


def encode_rows(
    rows: Rows, limit_bytes: int, compression: Compression, level: int | None
) -> Iterator[LooseBatch]:
    """The batches of all rows, in order."""
    if rows.count == 0:
        raise InvalidRecord("A batch needs a record; the columns are empty")
    if rows.count <= few_rows.FEW_ROWS and rows.tail is None:
        yield from few_rows.few_batches(rows, limit_bytes, compression, level)
        return
    encoder = ColumnEncoder(rows)
    for cuts in encoder.windows(limit_bytes):
        for start, stop, records in encoder.batches(cuts):
            pieces = records
            if compression is not Compression.NONE:
                pieces = [compress(compression, b"".join(records), level)]
            timestamp = rows.timestamp[start:stop]
            yield LooseBatch(
                pieces,
                attributes=int(compression),
                record_count=stop - start,
                base_timestamp=int(timestamp[0]),
                max_timestamp=int(timestamp.max()),
            )


class ColumnEncoder:
    """The lengths inside the records of all rows, and the records of a window of them."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        #: The values as a table, where the rows differ in nothing else.
        self.regular = None
        if rows.key is None and rows.tail is None and rows.timestamp.min() == rows.timestamp.max():
            self.regular = regular_values(rows.value)
        value_bytes = lengths(rows.value)
        self.value_length = _zigzag(value_bytes)
        self.payload_bytes = _widths(self.value_length) + np.maximum(value_bytes, 0) + 2
        self.key_length = None
        if rows.key is not None:
            key_bytes = lengths(rows.key)
            self.key_length = _zigzag(key_bytes)
            self.payload_bytes += _widths(self.key_length) + np.maximum(key_bytes, 0) - 1
        if rows.tail is not None:
            self.payload_bytes += lengths(rows.tail) - 1

    def windows(self, limit_bytes: int) -> Iterator[list[int]]:
        """Where the batches begin and end, as many at a time as are encoded together.

        Widths that depend on a record's place in its batch are taken as the largest they can be.
        """
        timestamp, count = self.rows.timestamp, self.rows.count
        most = max(1, min(count, limit_bytes // SMALLEST_RECORD_BYTES))
        span = timestamp.max() - timestamp.min()
        widest = np.sum(_widths(np.array([span << 1])) + _widths(np.array([most << 1])))
        length = 1 + widest + self.payload_bytes
        size = np.cumsum(length + _widths(length << 1))
        room = limit_bytes - HEADER_BYTES
        cuts, window_end = [0], _WINDOW_BYTES
        while cuts[-1] < count:
            before = int(size[cuts[-1] - 1]) if cuts[-1] else 0
            stop = max(int(np.searchsorted(size, before + room, side="right")), cuts[-1] + 1)
            cuts.append(stop)
            if size[stop - 1] > window_end or stop == count:
                yield cuts
                cuts, window_end = [stop], int(size[stop - 1]) + _WINDOW_BYTES

    def batches(self, cuts: list[int]) -> Iterator[tuple[int, int, list[Buffer]]]:
        """The rows of each batch of a window, and their records in pieces."""
        if self.regular is not None:
            for start, stop in pairwise(cuts):
                yield start, stop, [regular_records(self.regular[start:stop])]
            return
        joined = self._joined(cuts)
        records = memoryview(joined.buffers()[2])
        ends = np.frombuffer(joined.buffers()[1], np.int64)
        for start, stop in pairwise(cuts):
            first, last = int(ends[start - cuts[0]]), int(ends[stop - cuts[0]])
            if self.rows.tail is None:
                # The count of headers, zero, was written before the next record: put it behind.
                yield start, stop, [records[first + 1 : last], ZERO]
            else:
                yield start, stop, [records[first:last]]

    def _joined(self, cuts: list[int]) -> Any:
        """The records of a window as an array, one record in each row."""
        rows, first, last = self.rows, cuts[0], cuts[-1]
        window = slice(first, last)
        batch_start = np.repeat(np.array(cuts[:-1], np.int64), np.diff(cuts))
        timestamp = _zigzag(rows.timestamp[window] - rows.timestamp[batch_start])
        offset = (np.arange(first, last, dtype=np.int64) - batch_start) << 1
        length = 1 + _widths(timestamp) + _widths(offset) + self.payload_bytes[window]
        head: list[Numbers | int] = [length << 1, _NO_ATTRIBUTES, timestamp, offset]
        if rows.tail is None:
            head.insert(0, _NO_HEADERS)
        value_length = self.value_length[window]
        count = last - first
        if rows.key is None or self.key_length is None:
            columns = [_varint_column([*head, _NULL_LENGTH, value_length], count)]
        else:
            columns = [
                _varint_column([*head, self.key_length[window]], count),
                rows.key.slice(first, count),
                _varint_column([value_length], count),
            ]
        columns.append(rows.value.slice(first, count))
        if rows.tail is not None:
            columns.append(rows.tail.slice(first, count))
        return pc.binary_join_element_wise(
            *columns, _NOTHING, null_handling="replace", null_replacement=""
        )


def lengths(column: Any) -> Numbers:
    """The bytes of each row of a large binary array; -1 for a null."""
    count = len(column)
    places = np.frombuffer(column.buffers()[1], np.int64, count + 1, column.offset * 8)
    sizes: Numbers = np.diff(places)
    if column.null_count:
        sizes[np.asarray(column.is_null())] = -1
    return sizes


def _zigzag(number: Numbers) -> Numbers:
    return (number << 1) ^ (number >> 63)


def _widths(number: Numbers) -> Numbers | int:
    """How many bytes each varint takes, for numbers with their zigzag; one number if all alike."""
    narrowest, widest = (max(1, -(-int(n).bit_length() // 7)) for n in (number.min(), number.max()))
    if narrowest == widest:
        return narrowest
    width = np.full(len(number), narrowest, np.int64)
    for step in range(narrowest, widest):
        width += number >= 1 << (7 * step)
    return width


def _varint_column(fields: Sequence[Numbers | int], count: int) -> Any:
    """A large binary array with these varints, one after the other, in each row.

    A field is a column of numbers with their zigzag, or a byte that is the same in each row.
    """
    widths = [1 if isinstance(field, int) else _widths(field) for field in fields]
    places = np.zeros(count + 1, np.int64)
    np.cumsum(np.broadcast_to(sum(widths), count), out=places[1:])
    octets = np.zeros(int(places[-1]), np.uint8)
    changes = [np.flatnonzero(np.diff(width)) + 1 for width in widths if not isinstance(width, int)]
    cuts = np.unique(np.concatenate([np.array([0, count]), *changes])).tolist()
    if len(cuts) <= _FEW_LAYOUTS + count // _ROWS_A_LAYOUT:
        for first, last in pairwise(cuts):
            rows = slice(first, last)
            room = octets[places[first] : places[last]].reshape(last - first, -1)
            some = [field if isinstance(field, int) else field[rows] for field in fields]
            _fill(room, some, [w if isinstance(w, int) else int(w[first]) for w in widths])
    else:
        place = places[:-1].copy()
        for field, width in zip(fields, widths, strict=True):
            _scatter(octets, place, field, np.broadcast_to(width, count))
            place += width
    buffers = [None, pa.py_buffer(places), pa.py_buffer(octets)]
    return pa.Array.from_buffers(LARGE_BINARY, count, buffers)


def _fill(room: Bytes, fields: Sequence[Numbers | int], widths: list[int]) -> None:
    """Write the varints of rows that are all laid out alike, column by column."""
    at = 0
    for field, width in zip(fields, widths, strict=True):
        for index in range(width):
            octet = field if isinstance(field, int) else (field >> (7 * index)).astype(np.uint8)
            room[:, at] = octet if index == width - 1 else octet | np.uint8(128)
            at += 1


def _scatter(octets: Bytes, place: Numbers, field: Numbers | int, width: Numbers) -> None:
    """Write varints of any widths at their places."""
    if isinstance(field, int):
        octets[place] = field
        return
    for index in range(int(width.max())):
        rows = np.flatnonzero(width > index)
        octet = (field[rows] >> (7 * index)).astype(np.uint8) & 127
        octet |= (width[rows] > index + 1).astype(np.uint8) << 7
        octets[place[rows] + index] = octet
