"""Record batches into `Record` objects: what a consumer does with every fetched byte.

The consumer calls `decode_records` on what it fetched; `columns` is the way without an object for
each record. Invariant: whatever the bytes, the outcome is records or a `TidelogError` that names
topic, partition and offsets, in memory bounded by what arrived and `limit_bytes`. Compiled by
mypyc; `varint` says why both twins agree on every number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptMessage
from tidelog.records.batch import LOG_APPEND_TIME_BIT
from tidelog.records.loading import COMPILED
from tidelog.records.record import NO_HEADERS, Headers, Record
from tidelog.records.runs import append_by_runs
from tidelog.records.source import DECOMPRESSED_LIMIT_BYTES, BatchBody, BatchSource
from tidelog.records.varint import TWO_BYTES, finish_varint, read_varint

#: The zigzag varint of -1, the length of what is None.
NULL_LENGTH: Final = 1

#: Masks for timestamp deltas: the broker's own time has none.
ALL_BITS: Final = -1
NO_BITS: Final = 0

if TYPE_CHECKING:
    from mypy_extensions import i64
    from typing_extensions import Buffer


def decode_records(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    start_offset: int = 0,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    check_crc: bool = True,
) -> list[Record]:
    """The records of the batches that follow each other in `buffer`, from `start_offset` on.

    Control batches hold no records of a user and are left out. `limit_bytes` bounds what the
    records of one batch may take once decompressed. Raises `CorruptMessage`, `MessageTooLarge`
    or `UnsupportedCompression`.
    """
    source = BatchSource(
        topic, partition, start_offset=start_offset, limit_bytes=limit_bytes, check_crc=check_crc
    )
    whole = buffer if isinstance(buffer, bytes) else bytes(buffer)
    records: list[Record] = []
    position = 0
    while position < len(whole):
        position += _append_batch(records, source, whole, position)
    return records


def decode_batch(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    position: int = 0,
    start_offset: int = 0,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    check_crc: bool = True,
) -> list[Record]:
    """The records of the one batch at `position`; in all else as `decode_records`."""
    source = BatchSource(
        topic, partition, start_offset=start_offset, limit_bytes=limit_bytes, check_crc=check_crc
    )
    records: list[Record] = []
    whole = buffer if isinstance(buffer, bytes) else bytes(buffer)
    _append_batch(records, source, whole, position)
    return records


def _append_batch(records: list[Record], source: BatchSource, buffer: bytes, position: int) -> int:
    """Append the wanted records of the batch at `position`; return the batch's size."""
    header = source.header(buffer, position)
    if source.is_wanted(header):
        body = source.body(buffer, position, header)
        try:
            if COMPILED:
                append_records(records, body, header.record_count)
            else:
                append_by_runs(records, body, append_records)
        except (IndexError, UnicodeDecodeError, CorruptMessage) as error:
            raise source.corrupt(header, f"a record in it is malformed ({error})") from error
        if body.start != body.end:
            raise source.corrupt(header, f"{body.end - body.start} bytes follow the last record")
    return header.size


# The hot loop, in one piece because a call costs as much as a record: varints of one and two bytes
# are read in place, longer ones by `finish_varint`. A length that lies leads past `stop` or the
# buffer (`IndexError`); as each is followed by a read before the next is added, a position cannot
# wrap around.
def append_records(records: list[Record], body: BatchBody, count: i64) -> None:  # noqa: PLR0912, PLR0915
    """Append the next `count` records of a batch, without those below the first wanted offset."""
    header, buffer, position, end = body.header, body.data, body.start, body.end
    base_offset, last_delta = header.base_offset, header.last_offset_delta
    base_timestamp, timestamp_mask = header.base_timestamp, ALL_BITS
    if header.attributes & LOG_APPEND_TIME_BIT:
        base_timestamp, timestamp_mask = header.max_timestamp, NO_BITS
    previous, origin, wanted_offset = body.previous_delta, body.origin, body.wanted_offset
    for _ in range(count):
        number: i64 = buffer[position]
        position += 1
        if number > 127:
            number += (buffer[position] << 7) - 128
            position += 1
            if number >= TWO_BYTES:
                number, position = finish_varint(buffer, position, number)
        stop = position + (number >> 1)
        if stop > end or number & 1:
            raise CorruptMessage("its length is not possible")
        timestamp: i64 = buffer[position + 1]  # byte 0 holds attributes, which mean nothing yet
        position += 2
        if timestamp > 127:
            timestamp, position = finish_varint(buffer, position, timestamp)
        timestamp = base_timestamp + (((timestamp >> 1) ^ -(timestamp & 1)) & timestamp_mask)
        number = buffer[position]
        position += 1
        if number > 127:
            number += (buffer[position] << 7) - 128
            position += 1
            if number >= TWO_BYTES:
                number, position = finish_varint(buffer, position, number)
        delta = number >> 1
        if not previous < delta <= last_delta or number & 1:
            raise CorruptMessage("its offset does not follow the one before it")
        previous = delta
        key: bytes | None = None
        number = buffer[position]
        position += 1
        if number != NULL_LENGTH:
            key, position = _read_bytes(buffer, position, number)
        value: bytes | None = None
        number = buffer[position]
        position += 1
        if number > 127:
            number += (buffer[position] << 7) - 128
            position += 1
            if number >= TWO_BYTES:
                number, position = finish_varint(buffer, position, number)
        if not number & 1:
            value = buffer[position : position + (number >> 1)]
            position += number >> 1
        headers, position = NO_HEADERS, position + 1
        if buffer[position - 1]:
            headers, position = read_headers(buffer, position - 1, stop)
        if position != stop:
            raise CorruptMessage("its fields and its length disagree")
        if base_offset + delta >= wanted_offset:
            records.append(Record(origin, base_offset + delta, timestamp, key, value, headers))
    body.start, body.previous_delta = position, previous


def _read_bytes(buffer: bytes, position: i64, first: i64) -> tuple[bytes | None, i64]:
    """The bytes whose length begins with the byte `first`; None for any negative length."""
    if first > 127:
        first, position = finish_varint(buffer, position, first)
    if first & 1:
        return None, position
    stop = position + (first >> 1)
    return buffer[position:stop], stop


def read_headers(buffer: bytes, position: i64, stop: i64) -> tuple[Headers, i64]:
    """The headers of one record, which ends at `stop`."""
    headers: list[tuple[str, bytes | None]] = []
    count, position = read_varint(buffer, position)
    if count < 0 or count > stop - position:
        raise CorruptMessage(f"{count} headers cannot lie in {stop - position} bytes")
    for _ in range(count):
        name, position = _read_bytes(buffer, position + 1, buffer[position])
        if name is None or position > stop:
            raise CorruptMessage("a header has no name, or one longer than the record")
        value, position = _read_bytes(buffer, position + 1, buffer[position])
        headers.append((name.decode(), value))
    return tuple(headers), position
