"""A partition's batches on their way to a reader: checked, decompressed, and named when broken.

`decoder` and `columns` open every batch through a `BatchSource`. Invariant: each error that
leaves it names topic, partition and offsets, so that a reader can report the batch and skip it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptMessage, MessageTooLarge, TidelogError, UnsupportedCompression
from tidelog.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    SMALLEST_RECORD_BYTES,
    BatchHeader,
    check_batch,
)
from tidelog.records.compression import Compression, decompress
from tidelog.records.record import Origin

if TYPE_CHECKING:
    from mypy_extensions import i64

#: What the records of one batch may take once decompressed, unless the caller says otherwise.
DECOMPRESSED_LIMIT_BYTES: Final = 128 * 1024 * 1024


class BatchBody:
    """The records of one batch as bytes: they lie in `data` from `start` to `end`.

    `previous_delta` is the offset delta of the record before `start`: a reader that takes the
    records in several steps moves both on. Records below `wanted_offset` are for nobody.
    """

    __slots__ = ("data", "end", "header", "origin", "previous_delta", "start", "wanted_offset")

    def __init__(self, source: BatchSource, header: BatchHeader, data: bytes) -> None:
        self.origin: Origin = Origin(
            source.topic, source.partition, header.leader_epoch, header.timestamp_type
        )
        self.wanted_offset: i64 = source.start_offset
        self.header: BatchHeader = header
        self.data: bytes = data
        self.start: i64 = 0
        self.end: i64 = len(data)
        self.previous_delta: i64 = -1


class BatchSource:
    """Opens the batches of one partition; `topic` is empty where it is not known."""

    __slots__ = ("check_crc", "limit_bytes", "partition", "start_offset", "topic")

    def __init__(
        self, topic: str, partition: int, *, start_offset: int, limit_bytes: int, check_crc: bool
    ) -> None:
        self.topic: str = topic
        self.partition: int = partition
        self.start_offset: int = start_offset
        self.limit_bytes: int = limit_bytes
        self.check_crc: bool = check_crc

    def header(self, buffer: bytes, position: int) -> BatchHeader:
        """The header at `position`, checked with its whole batch."""
        try:
            return check_batch(buffer, position, check_crc=self.check_crc)
        except (CorruptMessage, UnsupportedCompression) as error:
            raise self._named(error, self._claimed(buffer, position)) from error

    def is_wanted(self, header: BatchHeader) -> bool:
        """Whether the batch holds records of a user from the start offset on."""
        return header.attributes & CONTROL_BIT == 0 and header.next_offset > self.start_offset

    def body(self, buffer: bytes, position: int, header: BatchHeader) -> BatchBody:
        """The records of the batch at `position`, decompressed."""
        start, end = position + HEADER_BYTES, position + header.size
        number = header.attributes & COMPRESSION_MASK
        if number == 0:
            body = BatchBody(self, header, buffer)
            body.start, body.end = start, end
        else:
            try:
                codec = Compression.from_number(number)
                data = decompress(codec, memoryview(buffer)[start:end], self.limit_bytes)
            except (CorruptMessage, MessageTooLarge, UnsupportedCompression) as error:
                raise self._named(error, header) from error
            body = BatchBody(self, header, data)
        if header.record_count * SMALLEST_RECORD_BYTES > body.end - body.start:
            raise self.corrupt(
                header,
                f"{header.record_count} records cannot lie in {body.end - body.start} bytes",
            )
        return body

    def corrupt(self, header: BatchHeader, why: str) -> CorruptMessage:
        """The error for a batch whose inside is not what it should be."""
        return CorruptMessage(f"{self._place(header)}: {why}")

    def _named(self, error: TidelogError, header: BatchHeader | None) -> TidelogError:
        return type(error)(f"{self._place(header)}: {error.message}", cause=error.cause)

    def _place(self, header: BatchHeader | None) -> str:
        place = f"Topic {self.topic!r}, partition {self.partition}"
        if header is None:
            return f"{place}, at an offset that cannot be read"
        return f"{place}, offsets {header.base_offset} to {header.last_offset}"

    @staticmethod
    def _claimed(buffer: bytes, position: int) -> BatchHeader | None:
        if len(buffer) - position < HEADER_BYTES:
            return None
        return BatchHeader(buffer, position)
