"""Records into a record batch: the first thing that happens to what a producer sends.

The producer's accumulator appends to a `BatchBuilder` for each partition and builds the batch when
it is full or its time has come. Invariant: `size` is what `build` returns without compression, to
the byte, and a record is either wholly in the batch or not at all. Compiled by mypyc.

A record is kept as pieces (its numbers from tables, its key and value as they came), joined once
a batch: each payload is copied when it must be, and no number is formatted twice. Each piece has
its price, so where records follow each other that differ in number and value alone, all that is the
same before the number is one piece, with the end of the record before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidRecord, InvalidTimestamp
from tidelog.records.batch import (
    CHECKED_POSITION,
    CONTROL_BIT,
    CRC,
    CRC_POSITION,
    HEADER_BYTES,
    LARGEST_NUMBER,
    PRODUCER,
    PRODUCER_POSITION,
    TRANSACTIONAL_BIT,
    LooseBatch,
)
from tidelog.records.compression import Compression, compress
from tidelog.records.crc import crc32c
from tidelog.records.varint import TABLE_SIZE, VARINTS, varint

if TYPE_CHECKING:
    from mypy_extensions import i64
    from typing_extensions import Buffer

DEFAULT_LIMIT_BYTES: Final = 1024 * 1024
NULL: Final = b"\x01"
ZERO: Final = b"\0"
NULL_KEY_AND_VALUE: Final = NULL + NULL

#: What a record begins with: its length and its attributes.
LENGTH_AND_ATTRIBUTES: Final[list[bytes]] = [encoded + ZERO for encoded in VARINTS]
#: What stands before the value of a record that has no key.
NULL_KEY_AND_LENGTH: Final[list[bytes]] = [NULL + encoded for encoded in VARINTS]


class BatchBuilder:
    """Collects the records of one batch, up to `limit_bytes` before compression.

    The first record always fits: whether it is too large is for the topic to say.
    """

    __slots__ = (
        "_beginning",
        "_head",
        "_number_bytes",
        "_pieces",
        "_record_bytes",
        "_tail",
        "_timestamp_delta",
        "_timestamp_ms",
        "_value_bytes",
        "base_timestamp",
        "count",
        "limit_bytes",
        "max_timestamp",
        "size",
    )

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._pieces: list[bytes] = []
        #: The headers of the last record, which are not yet among the pieces.
        self._tail: bytes = b""
        #: The last record of `append` without key and headers: the bytes of its value (-1 for
        #: none such), of its number and of itself, its time, and what it begins with.
        self._value_bytes: i64 = -1
        self._number_bytes: i64 = 0
        self._record_bytes: i64 = 0
        self._timestamp_ms: i64 = 0
        self._head: bytes = b""
        self._timestamp_delta: bytes = b""
        #: What comes before the number of a record alike; empty until there is one.
        self._beginning: bytes = b""
        #: Records so far, and bytes that the batch takes with them before compression.
        self.count: i64 = 0
        self.size: i64 = HEADER_BYTES
        self.limit_bytes: i64 = limit_bytes
        self.base_timestamp: i64 = 0
        self.max_timestamp: i64 = 0

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp_ms: i64,
    ) -> bool:
        """Add a record; False, and nothing added, when the batch has no room for it."""
        offset_delta = varint(self.count)
        if (
            isinstance(value, bytes)
            and len(value) == self._value_bytes
            and timestamp_ms == self._timestamp_ms
            and len(offset_delta) == self._number_bytes
            and key is None
            and not headers
        ):
            return self._append_alike(value, offset_delta)
        timestamp_delta = self._delta_of(timestamp_ms)
        length: i64 = 1 + len(timestamp_delta) + len(offset_delta)
        value_bytes: i64 = 0 if value is None else _length(value, "value")
        if key is not None:
            key_length = varint(_length(key, "key"))
            value_length = NULL if value is None else varint(value_bytes)
            length += len(key_length) + len(key)
        elif value is None:
            value_length = NULL_KEY_AND_VALUE
        else:
            value_length = _null_key_and_length(value_bytes)
        tail = encoded_headers(headers) if headers else ZERO
        length += len(value_length) + value_bytes + len(tail)
        head = _head(length)
        size = self.size + length - 1 + len(head)
        if size > self.limit_bytes and self.count:
            return False
        # Not before the record stands: whoever is interrupted leaves none to be like.
        self._value_bytes = -1
        record_bytes = size - self.size
        pieces = self._pieces
        pieces.append(self._tail)
        pieces.append(head)
        pieces.append(timestamp_delta)
        pieces.append(offset_delta)
        if key is not None:
            pieces.append(key_length)
            pieces.append(key)
        pieces.append(value_length)
        if value is not None:
            pieces.append(value)
        self._tail = tail
        self._add(1, size, timestamp_ms)
        if key is None and value is not None and not headers:
            self._number_bytes, self._record_bytes = len(offset_delta), record_bytes
            self._timestamp_ms = timestamp_ms
            self._head, self._timestamp_delta, self._beginning = head, timestamp_delta, b""
            self._value_bytes = value_bytes
        return True

    def _append_alike(self, value: bytes, offset_delta: bytes) -> bool:
        """`append` for a record that differs from the one before in number and value alone."""
        size = self.size + self._record_bytes
        if size > self.limit_bytes:
            return False
        if not self._beginning:
            self._beginning = ZERO + self._head + self._timestamp_delta
        pieces = self._pieces
        pieces.append(self._beginning)
        pieces.append(offset_delta)
        pieces.append(_null_key_and_length(self._value_bytes))
        pieces.append(value)
        self.count += 1
        self.size = size
        return True

    def extend(
        self,
        values: Sequence[bytes | None],
        timestamp_ms: int,
        *,
        keys: Sequence[bytes | None] | None = None,
        timestamps: Sequence[int] | None = None,
        start: int = 0,
    ) -> int:
        """Add the records `values[start:]` while there is room; return how many were added.

        `keys` and `timestamps` belong to the values one by one; without `timestamps` all records
        carry `timestamp_ms`.
        """
        if keys is None and timestamps is None:
            return self._extend_values(values, timestamp_ms, start)
        _check_same_length(values, keys, "keys")
        _check_same_length(values, timestamps, "timestamps")
        for index in range(start, len(values)):
            key = None if keys is None else keys[index]
            timestamp = timestamp_ms if timestamps is None else timestamps[index]
            if not self.append(values[index], key, (), timestamp):
                return index - start
        return len(values) - start

    def _extend_values(self, values: Sequence[bytes | None], timestamp_ms: i64, start: i64) -> int:
        """The way of values alone: `append` without what does not depend on the value."""
        items = values if isinstance(values, list) else list(values)
        timestamp_delta = self._delta_of(timestamp_ms)
        pieces, count, size, limit_bytes = self._pieces, self.count, self.size, self.limit_bytes
        same_bytes: i64 = 2 + len(timestamp_delta)  # attributes and the count of headers, zero
        # Of the last record: the bytes of its value, of its number and of itself.
        value_bytes: i64 = -1
        number_bytes: i64 = 0
        record_bytes: i64 = 0
        head, lengths, beginning, tail = b"", b"", b"", self._tail
        for index in range(start, len(items)):
            value = items[index]
            offset_delta = varint(count)
            is_alike = (
                isinstance(value, bytes)
                and len(value) == value_bytes
                and len(offset_delta) == number_bytes
            )
            if not is_alike:
                number_bytes = len(offset_delta)
                length: i64 = same_bytes + number_bytes
                if value is None:
                    value_bytes, lengths = -1, NULL_KEY_AND_VALUE
                else:
                    value_bytes = _length(value, "value")
                    lengths = _null_key_and_length(value_bytes)
                    length += value_bytes
                length += len(lengths)
                head, beginning = _head(length), b""
                record_bytes = length - 1 + len(head)
            if size + record_bytes > limit_bytes and count:
                break
            size += record_bytes
            count += 1
            if is_alike:
                if not beginning:
                    beginning = ZERO + head + timestamp_delta
                pieces.append(beginning)
            else:
                pieces.append(tail)
                pieces.append(head)
                pieces.append(timestamp_delta)
                tail = ZERO
            pieces.append(offset_delta)
            pieces.append(lengths)
            if value is not None:
                pieces.append(value)
        self._tail = tail
        added = count - self.count
        if added:
            self._add(added, size, timestamp_ms)
        return added

    def build(
        self,
        compression: Compression = Compression.NONE,
        *,
        level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
    ) -> bytes:
        """The whole batch, with base offset 0 and leader epoch -1; the builder stays as it is.

        Raises `InvalidRecord` when there are no records and `MessageTooLarge` beyond 2 GiB.
        """
        attributes = TRANSACTIONAL_BIT if transactional else 0
        attributes |= CONTROL_BIT if control else 0
        loose = self.loose(compression, level, attributes)
        return b"".join(loose.sealed((producer_id, producer_epoch, base_sequence)))

    def loose(
        self, compression: Compression, level: int | None = None, attributes: int = 0
    ) -> LooseBatch:
        """The records without a header.

        Raises `InvalidRecord` when there are none, or when an interrupt (Ctrl-C, say) came while
        one was added, and left half of it.
        """
        if self.count == 0:
            raise InvalidRecord("A batch needs a record; nothing was appended")
        self._pieces.append(self._tail)
        self._tail, self._value_bytes = b"", -1
        plain = b"".join(self._pieces)
        if len(plain) != self.size - HEADER_BYTES:
            raise InvalidRecord(
                "A record of the same batch was cut off while it was added, by an interrupt",
                hint="None of the batch is written: send its records again",
            )
        records = compress(compression, plain, level)
        return LooseBatch(
            [records],
            attributes=attributes | int(compression),
            record_count=self.count,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
        )

    def _delta_of(self, timestamp_ms: i64) -> bytes:
        if timestamp_ms < 0 or timestamp_ms >= LARGEST_NUMBER:
            raise InvalidTimestamp(
                f"The timestamp {timestamp_ms} is not possible; milliseconds since 1970 are meant"
            )
        return varint(timestamp_ms - self.base_timestamp) if self.count else ZERO

    def _add(self, records: i64, size: i64, timestamp_ms: i64) -> None:
        if self.count == 0:
            self.base_timestamp = timestamp_ms
        self.max_timestamp = max(self.max_timestamp, timestamp_ms)
        self.count += records
        self.size = size


def set_producer(batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """The batch under another producer identity: what renumbering after a failure needs."""
    view = memoryview(batch)
    renewed = bytearray(view[:HEADER_BYTES])
    PRODUCER.pack_into(renewed, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    records = view[HEADER_BYTES:]
    checksum = crc32c(records, crc32c(memoryview(renewed)[CHECKED_POSITION:]))
    CRC.pack_into(renewed, CRC_POSITION, checksum)
    return b"".join((renewed, records))


def _head(length: i64) -> bytes:
    """A record's length and its attributes."""
    if length < TABLE_SIZE:
        return LENGTH_AND_ATTRIBUTES[length]
    return varint(length) + ZERO


def _null_key_and_length(length: i64) -> bytes:
    """A key that is None and the length of the value behind it."""
    if length < TABLE_SIZE:
        return NULL_KEY_AND_LENGTH[length]
    return NULL + varint(length)


def _length(payload: bytes, name: str) -> i64:
    if not isinstance(payload, bytes):
        raise TypeError(f"A {name} must be bytes or None, not {type(payload).__name__}")
    return len(payload)


def _check_same_length(
    values: Sequence[bytes | None], others: Sequence[object] | None, name: str
) -> None:
    if others is not None and len(others) != len(values):
        raise InvalidRecord(f"There are {len(values)} values and {len(others)} {name}")


def encoded_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    pieces = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        pieces += [varint(len(encoded)), encoded]
        if value is None:
            pieces.append(NULL)
        else:
            pieces += [varint(_length(value, "header's value")), value]
    return b"".join(pieces)
