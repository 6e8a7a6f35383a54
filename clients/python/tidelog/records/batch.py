"""The header of a record batch: all that a broker ever looks at.

Brokers call `check_batch` once for each batch they receive or recover, `assigned_prefix` to place
it in the log, `batch_headers` to walk a log or a fetch response. Invariant: nothing here reads,
copies or decompresses the records behind the header; the work is per batch, whatever its size.

The layout is Kafka's RecordBatch v2, big-endian:

    position  bytes  field
    0         8      base offset              \\  outside the CRC:
    8         4      length, from byte 12 on   | the broker assigns them
    12        4      leader epoch             /
    16        1      magic, always 2
    17        4      CRC32C of all from byte 21 on
    21        2      attributes: bits 0-2 compression, 3 log append time, 4 transactional, 5 control
    23        4      last offset delta
    27        8      base timestamp
    35        8      max timestamp
    43        8      producer id
    51        2      producer epoch
    53        4      base sequence
    57        4      record count
    61               records, compressed as one block when the attributes say so
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompression,
)
from tidelog.records.crc import crc32c
from tidelog.records.loading import COMPILED

if TYPE_CHECKING:
    from mypy_extensions import i64
    from typing_extensions import Buffer

HEADER_BYTES: Final = 61
MAGIC: Final = 2

#: Where the assigned prefix ends, and where the bytes that the CRC covers begin.
PREFIX_BYTES: Final = 16
CRC_POSITION: Final = 17
CHECKED_POSITION: Final = 21

COMPRESSION_MASK: Final = 0b0000_0111
LOG_APPEND_TIME_BIT: Final = 0b0000_1000
TRANSACTIONAL_BIT: Final = 0b0001_0000
CONTROL_BIT: Final = 0b0010_0000
KNOWN_ATTRIBUTES: Final = 0b0011_1111
LAST_COMPRESSION: Final = 4

SEQUENCE_MASK: Final = 0x7FFF_FFFF
#: length, attributes, timestamp delta, offset delta, key length, value length, header count
SMALLEST_RECORD_BYTES: Final = 7
#: Timestamps and offsets stay below this, so that adding a delta never leaves 64 bits.
LARGEST_NUMBER: Final = 2**62

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
UNCHECKED: Final = struct.Struct(">qiibI")
CHECKED: Final = struct.Struct(">hiqqqhii")
PREFIX: Final = struct.Struct(">qii")
#: The prefix, the magic and the last offset delta: what tells whether batches are in order.
PLACE: Final = struct.Struct(">qiib6xi")
CRC: Final = struct.Struct(">I")
PRODUCER: Final = struct.Struct(">qhi")
PRODUCER_POSITION: Final = 43
#: Id, epoch and sequence of a batch that no idempotent producer wrote.
NO_PRODUCER: Final = (-1, -1, -1)
ATTRIBUTES: Final = struct.Struct(">h")
TIMESTAMP: Final = struct.Struct(">q")
MAX_TIMESTAMP_POSITION: Final = 35

#: The length counts what follows it: the rest of the header at least.
_SMALLEST_LENGTH: Final = HEADER_BYTES - 12
LARGEST_LENGTH: Final = 2**31 - 1
#: So many bytes are copied in less time than two views of them are made.
_COPIED_BYTES_MAX: Final = 4 << 10


class BatchHeader:
    """The 61 bytes before the records, as numbers."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(self, buffer: Buffer, position: int) -> None:
        if COMPILED and isinstance(buffer, bytes):
            # Compiled, byte by byte is several times faster than making a tuple of numbers.
            self.base_offset: i64 = _signed(buffer, position, 8)
            self.batch_length: i64 = _signed(buffer, position + 8, 4)
            self.leader_epoch: i64 = _signed(buffer, position + 12, 4)
            self.magic: i64 = _signed(buffer, position + 16, 1)
            self.crc: i64 = _signed(buffer, position + 17, 4) & 0xFFFF_FFFF
            self.attributes: i64 = _signed(buffer, position + 21, 2)
            self.last_offset_delta: i64 = _signed(buffer, position + 23, 4)
            self.base_timestamp: i64 = _signed(buffer, position + 27, 8)
            self.max_timestamp: i64 = _signed(buffer, position + 35, 8)
            self.producer_id: i64 = _signed(buffer, position + 43, 8)
            self.producer_epoch: i64 = _signed(buffer, position + 51, 2)
            self.base_sequence: i64 = _signed(buffer, position + 53, 4)
            self.record_count: i64 = _signed(buffer, position + 57, 4)
            return
        fields = HEADER.unpack_from(buffer, position)
        self.base_offset = fields[0]
        self.batch_length = fields[1]
        self.leader_epoch = fields[2]
        self.magic = fields[3]
        self.crc = fields[4]
        self.attributes = fields[5]
        self.last_offset_delta = fields[6]
        self.base_timestamp = fields[7]
        self.max_timestamp = fields[8]
        self.producer_id = fields[9]
        self.producer_epoch = fields[10]
        self.base_sequence = fields[11]
        self.record_count = fields[12]

    def __repr__(self) -> str:
        return (
            f"BatchHeader(base_offset={self.base_offset}, last_offset={self.last_offset}, "
            f"size={self.size}, leader_epoch={self.leader_epoch}, "
            f"attributes={self.attributes:#x}, record_count={self.record_count}, "
            f"producer_id={self.producer_id}, producer_epoch={self.producer_epoch}, "
            f"base_sequence={self.base_sequence})"
        )

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header and records."""
        return 12 + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset that the record after this batch gets."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's sequence of the last record; after 2**31 - 1 comes 0. -1 without one."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def compression(self) -> int:
        """The number of the compression; `tidelog.records.compression` names them."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """0: the producer's clock (create time); 1: the broker's (log append time)."""
        return 1 if self.attributes & LOG_APPEND_TIME_BIT else 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker of a transaction, and no records of a user."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id >= 0


def _signed(content: bytes, position: i64, size: i64) -> i64:
    """The number in so many bytes."""
    number: i64 = content[position]
    if number > 127:
        number -= 256
    for place in range(position + 1, position + size):
        number = number * 256 + content[place]
    return number


def buffer_bytes(buffer: Buffer) -> int:
    """How many bytes a buffer holds."""
    if isinstance(buffer, bytes):
        return len(buffer)
    return memoryview(buffer).nbytes


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position: of magic 2 and with a possible length, nothing else is checked."""
    available = buffer_bytes(buffer) - position
    if position < 0 or available < HEADER_BYTES:
        raise CorruptMessage(
            f"A batch header takes {HEADER_BYTES} bytes; at position {position} there are "
            f"{max(available, 0)}"
        )
    header = BatchHeader(buffer, position)
    if header.magic != MAGIC:
        raise CorruptMessage(f"The batch at position {position} has magic {header.magic}, not 2")
    if header.batch_length < _SMALLEST_LENGTH:
        raise CorruptMessage(
            f"The batch at position {position} claims a length of {header.batch_length} bytes; "
            f"its header alone takes {_SMALLEST_LENGTH}"
        )
    return header


def check_batch(
    buffer: Buffer,
    position: int = 0,
    *,
    limit_bytes: int | None = None,
    exact: bool = False,
    from_producer: bool = False,
    check_crc: bool = True,
) -> BatchHeader:
    """Check the batch at a position against its header and its CRC; return the header.

    `exact`: the batch must end where the buffer ends. `limit_bytes`: `MessageTooLarge` above it.
    `from_producer`: also refuse what a producer may not send (markers, gaps between offsets, the
    broker's timestamps, half a producer identity). Raises `CorruptMessage`, `InvalidRecord`,
    `InvalidTimestamp`, `MessageTooLarge` or `UnsupportedCompression`.
    """
    header = read_header(buffer, position)
    size = header.size
    if limit_bytes is not None and size > limit_bytes:
        raise MessageTooLarge(f"The batch takes {size} bytes; the limit is {limit_bytes}")
    available = buffer_bytes(buffer) - position
    if size > available or (exact and size < available):
        raise CorruptMessage(
            f"The batch at position {position} claims {size} bytes; there are {available}"
        )
    _check_fields(header)
    if check_crc:
        _check_crc(buffer, position, header)
    if from_producer:
        _check_producer_rules(header)
    return header


def _check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    start, stop = position + CHECKED_POSITION, position + header.size
    if isinstance(buffer, bytes) and stop - start <= _COPIED_BYTES_MAX:
        checksum = crc32c(buffer[start:stop])
    else:
        checksum = crc32c(memoryview(buffer)[start:stop])
    if checksum != header.crc:
        raise CorruptMessage(
            f"The batch at position {position} (base offset {header.base_offset}, {header.size} "
            f"bytes) has CRC32C {checksum:#010x}; its header says {header.crc:#010x}"
        )


def _check_fields(header: BatchHeader) -> None:
    if header.record_count < 1 or header.last_offset_delta < header.record_count - 1:
        raise CorruptMessage(
            f"A batch of {header.record_count} records cannot have the last offset delta "
            f"{header.last_offset_delta}"
        )
    if header.attributes & ~KNOWN_ATTRIBUTES:
        raise CorruptMessage(f"The attributes {header.attributes:#06x} have unknown bits")
    if header.attributes & COMPRESSION_MASK > LAST_COMPRESSION:
        raise UnsupportedCompression(
            f"The attributes name compression {header.attributes & COMPRESSION_MASK}; "
            f"the last known one is {LAST_COMPRESSION} (zstd)"
        )
    if not 0 <= header.base_offset < LARGEST_NUMBER:
        raise CorruptMessage(f"The base offset {header.base_offset} is not possible")
    if not (
        -LARGEST_NUMBER <= header.base_timestamp < LARGEST_NUMBER
        and -LARGEST_NUMBER <= header.max_timestamp < LARGEST_NUMBER
    ):
        raise CorruptMessage(
            f"The timestamps {header.base_timestamp} and {header.max_timestamp} are not possible"
        )
    _check_producer_identity(header)


def _check_producer_identity(header: BatchHeader) -> None:
    producer_id, epoch = header.producer_id, header.producer_epoch
    sequence = header.base_sequence
    if producer_id >= 0:
        sane = epoch >= 0 and (sequence >= 0 or (sequence == -1 and header.is_control))
    else:
        sane = producer_id == -1 and epoch == -1 and sequence == -1
        sane = sane and not header.is_transactional
    if not sane:
        raise CorruptMessage(
            f"Producer id {producer_id}, epoch {epoch} and base sequence {sequence} do not belong "
            f"together (attributes {header.attributes:#x})"
        )


def _check_producer_rules(header: BatchHeader) -> None:
    if header.attributes & CONTROL_BIT:
        raise InvalidRecord("A producer sent a control batch; only coordinators write these")
    if header.attributes & LOG_APPEND_TIME_BIT:
        raise InvalidTimestamp("A producer sent a batch marked as stamped by the broker")
    if header.max_timestamp < header.base_timestamp:
        raise InvalidTimestamp(
            f"The max timestamp {header.max_timestamp} of the batch is below its base timestamp "
            f"{header.base_timestamp}"
        )
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(
            f"A producer's batch of {header.record_count} records must end at offset delta "
            f"{header.record_count - 1}, not {header.last_offset_delta}"
        )
    body_bytes = header.size - HEADER_BYTES
    if (
        not header.attributes & COMPRESSION_MASK
        and header.record_count * SMALLEST_RECORD_BYTES > body_bytes
    ):
        raise CorruptMessage(f"{header.record_count} records cannot fit in {body_bytes} bytes")


def batch_headers(
    buffer: Buffer, start: int = 0, end: int | None = None, *, whole: bool = False
) -> Iterator[BatchHeader]:
    """The headers of the batches that follow each other from `start` to `end`.

    The next one's position is this one's plus its `size`. An incomplete batch at the end is left
    out, since a response may be cut there; `whole=True` raises `CorruptMessage` for it instead.
    """
    position = start
    stop = buffer_bytes(buffer) if end is None else end
    while stop - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        if header.size > stop - position:
            break
        yield header
        position += header.size
    if whole and position != stop:
        raise CorruptMessage(
            f"The last {stop - position} bytes, from position {position} on, are not a whole batch"
        )


def offset_after(batches: bytes) -> int:
    """The offset after the last of some whole batches; only their lengths are looked at.

    Raises `CorruptMessage` where they are none.
    """
    position: i64 = 0
    last: i64 = 0
    end: i64 = len(batches)
    while position + HEADER_BYTES <= end:
        last = position
        length: i64 = batches[position + 8]
        for at in range(position + 9, position + 12):
            length = (length << 8) | batches[at]
        position += 12 + length
    return read_header(batches, last).next_offset


def batches_in_order(batches: bytes, offset: i64, *, end: i64, epoch_max: i64) -> tuple[i64, i64]:
    """How many of these bytes are whole batches of a log without gaps, and the offset behind them.

    The first begins at `offset`, each other one where the one before it ends, none reaches beyond
    `end`, and none has a leader epoch above `epoch_max`. No CRC covers that.
    """
    position: i64 = 0
    next_offset: i64 = offset
    stop: i64 = buffer_bytes(batches)
    while position + HEADER_BYTES <= stop:
        if COMPILED:
            base_offset: i64 = _signed(batches, position, 8)
            length: i64 = _signed(batches, position + 8, 4)
            leader_epoch: i64 = _signed(batches, position + 12, 4)
            magic: i64 = batches[position + 16]
            last_delta: i64 = _signed(batches, position + 23, 4)
        else:
            fields = PLACE.unpack_from(batches, position)
            base_offset, length, leader_epoch, magic, last_delta = fields
        following: i64 = position + 12 + length
        if magic != MAGIC or length < _SMALLEST_LENGTH or following > stop or last_delta < 0:
            break
        if (
            base_offset != next_offset
            or last_delta >= end - base_offset
            or leader_epoch > epoch_max
        ):
            break
        position, next_offset = following, base_offset + last_delta + 1
    return position, next_offset


def assigned_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of the batch as the log keeps it; the rest follows from byte 16 on."""
    return PREFIX.pack(base_offset, header.batch_length, leader_epoch)


def with_log_append_time(batch: Buffer, header: BatchHeader, timestamp_ms: int) -> bytes:
    """The 61 bytes to put in the place of the batch's header, so that every record in it counts
    as written at `timestamp_ms`. The records stay as they are, compressed or not.
    """
    view = memoryview(batch)
    renewed = bytearray(view[:HEADER_BYTES])
    ATTRIBUTES.pack_into(renewed, CHECKED_POSITION, header.attributes | LOG_APPEND_TIME_BIT)
    TIMESTAMP.pack_into(renewed, MAX_TIMESTAMP_POSITION, timestamp_ms)
    checksum = crc32c(memoryview(renewed)[CHECKED_POSITION:])
    CRC.pack_into(renewed, CRC_POSITION, crc32c(view[HEADER_BYTES : header.size], checksum))
    return bytes(renewed)


class LooseBatch:
    """Records that have no header yet, since whose they are is not known yet.

    They may come in pieces: nothing is joined before the batch goes to the wire.
    """

    __slots__ = ("attributes", "base_timestamp", "max_timestamp", "record_count", "records", "size")

    def __init__(
        self,
        records: Sequence[Buffer],
        *,
        attributes: int,
        record_count: int,
        base_timestamp: int,
        max_timestamp: int,
    ) -> None:
        self.records: Sequence[Buffer] = records
        self.attributes: i64 = attributes
        self.record_count: i64 = record_count
        self.base_timestamp: i64 = base_timestamp
        self.max_timestamp: i64 = max_timestamp
        #: Bytes of the whole batch, with its header.
        self.size: i64 = HEADER_BYTES + sum([buffer_bytes(piece) for piece in records])

    def sealed(self, producer: tuple[int, int, int]) -> list[Buffer]:
        """The whole batch in pieces: a header with its CRC, and the records behind it.

        `producer` is id, epoch and base sequence. Base offset 0 and leader epoch -1 wait for the
        broker. Raises `MessageTooLarge` when four bytes cannot hold the length.
        """
        length = self.size - 12
        if length > LARGEST_LENGTH:
            raise MessageTooLarge(f"A batch of {length} bytes is beyond what its header can say")
        checked = CHECKED.pack(
            self.attributes,
            self.record_count - 1,
            self.base_timestamp,
            self.max_timestamp,
            *producer,
            self.record_count,
        )
        checksum = crc32c(checked)
        for piece in self.records:
            checksum = crc32c(piece, checksum)
        return [UNCHECKED.pack(0, length, -1, MAGIC, checksum) + checked, *self.records]
