"""What a caller gives as columns, brought into the one form that `column_encoder` works on.

Invariant: behind `Rows` there are only columns of one length, of known types and with possible
values; whatever is not is refused here, with the column's name and the first bad row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.errors import InvalidRecord, InvalidTimestamp
from tidelog.records.batch import LARGEST_NUMBER
from tidelog.records.builder import ZERO, encoded_headers
from tidelog.records.column_numbers import Numbers

#: The one type of keys and values inside: its places have 64 bits.
LARGE_BINARY: Final = pa.large_binary()
_UNITS_IN_MILLISECOND: Final = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}


class Rows:
    """The rows to encode: values and keys as large binary, timestamps in milliseconds.

    `key` is None where no row has one; `tail` holds each row's headers as they are written, None
    where no row has any.
    """

    def __init__(self, value: Any, *, timestamp: Any, key: Any = None, headers: Any = None) -> None:
        self.value = payload_column(value, "value")
        self.count = len(self.value)
        self.key = None if key is None else self._as_long(payload_column(key, "key"), "keys")
        if self.key is not None and self.key.null_count == self.count:
            self.key = None
        self.timestamp = self._timestamps(timestamp)
        self.tail = None if headers is None else self._tails(headers)

    def _as_long(self, column: Any, name: str) -> Any:
        if len(column) != self.count:
            raise InvalidRecord(f"There are {self.count} values and {len(column)} {name}")
        return column

    def _timestamps(self, timestamp: Any) -> Numbers:
        if isinstance(timestamp, int):
            return np.full(self.count, _possible(timestamp), np.int64)
        milliseconds: Numbers = self._as_long(timestamp_column(timestamp), "timestamps")
        return milliseconds

    def _tails(self, headers: Any) -> Any | None:
        if isinstance(headers, pa.Array | pa.ChunkedArray):
            headers = headers.to_pylist()
        if not isinstance(headers, Sequence):
            raise InvalidRecord(f"The headers are no column but {type(headers).__name__}")
        self._as_long(headers, "rows of headers")
        tails = [_tail(row, index) if row else ZERO for index, row in enumerate(headers)]
        if all(tail is ZERO for tail in tails):
            return None
        return pa.array(tails, LARGE_BINARY)


def timestamp_column(column: Any) -> Numbers:
    """The milliseconds of each row; refuses what is no time that a record can have."""
    array = _arrow(column, "timestamp")
    if len(array) == 0:
        return np.empty(0, np.int64)
    milliseconds = _milliseconds(array)
    bad = np.flatnonzero((milliseconds < 0) | (milliseconds >= LARGEST_NUMBER))
    if bad.size:
        raise InvalidTimestamp(
            f"The timestamp {milliseconds[bad[0]]} in row {bad[0]} is not possible; "
            "milliseconds since 1970 are meant"
        )
    return milliseconds


def _possible(timestamp: int) -> int:
    if not 0 <= timestamp < LARGEST_NUMBER:
        raise InvalidTimestamp(
            f"The timestamp {timestamp} is not possible; milliseconds since 1970 are meant"
        )
    return timestamp


def _arrow(column: Any, name: str) -> Any:
    """Any column as one Arrow array."""
    if isinstance(column, str | bytes):
        raise InvalidRecord(f"The {name} column is one {type(column).__name__}, not many")
    try:
        if isinstance(column, pa.ChunkedArray):
            return pa.concat_arrays([pa.nulls(0, column.type), *column.chunks])
        return column if isinstance(column, pa.Array) else pa.array(column)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        cause = str(error)
        raise InvalidRecord(f"The {name} column is none that Arrow takes", cause=cause) from error


def payload_column(column: Any, name: str) -> Any:
    """Keys or values as one array of large binary."""
    if isinstance(column, pa.ChunkedArray):
        parts = [payload_column(chunk, name) for chunk in column.chunks]
        return pa.concat_arrays([pa.nulls(0, LARGE_BINARY), *parts])
    array = _arrow(column, name)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return payload_column(array.dictionary_decode(), name)
    if pa.types.is_null(kind) or len(array) == 0:
        return pa.nulls(len(array), LARGE_BINARY)
    if pa.types.is_fixed_size_binary(kind) or "view" in str(kind):
        array = array.cast(pa.binary() if "string" not in str(kind) else pa.string())
    elif not any(test(kind) for test in _BYTES_OR_TEXT):
        raise InvalidRecord(
            f"The {name} column has the type {kind}", hint="Bytes or text are needed, or nulls"
        )
    return array.cast(LARGE_BINARY)


_BYTES_OR_TEXT: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_string,
    pa.types.is_large_string,
)


def _milliseconds(array: Any) -> Numbers:
    if array.null_count:
        row = array.is_null().index(True).as_py()
        raise InvalidTimestamp(f"The timestamp in row {row} is null")
    kind = array.type
    if pa.types.is_timestamp(kind):
        numbers: Numbers = np.asarray(array.cast(pa.int64()))
        units = _UNITS_IN_MILLISECOND[kind.unit]
        return numbers // units if units else numbers * 1_000
    if pa.types.is_integer(kind):
        try:
            return np.asarray(array.cast(pa.int64()))
        except pa.ArrowInvalid as error:
            raise InvalidTimestamp(
                f"The timestamp column of the type {kind} has numbers that are no times",
                cause=str(error),
                hint="Milliseconds since 1970 are meant",
            ) from error
    raise InvalidTimestamp(
        f"The timestamp column has the type {kind}",
        hint="Milliseconds as integers or Arrow timestamps are needed",
    )


def _tail(row: Sequence[Any], index: int) -> bytes:
    """The headers of one row as a record carries them."""
    problem = f"The headers in row {index} are no pairs of a name and bytes"
    try:
        pairs = [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in row]
    except TypeError as error:
        raise InvalidRecord(problem, cause=str(error)) from error
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidRecord(problem)
        if pair[1] is not None and not isinstance(pair[1], bytes):
            raise InvalidRecord(f"The header {pair[0]!r} in row {index} is neither bytes nor null")
    return encoded_headers(pairs)
