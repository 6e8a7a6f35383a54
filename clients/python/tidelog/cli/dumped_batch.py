"""One batch of a segment file, and its lines in the words of kafka-dump-log.

`dump_log` walks files with `batches_of_file`, which holds one batch at a time, however large the
file. A batch whose checksum is wrong is shown as invalid, and its records are not opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidelog.cli.formatting import TIMESTAMP_TYPES, payload_as_json
from tidelog.errors import TidelogError
from tidelog.records.batch import (
    HEADER_BYTES,
    SEQUENCE_MASK,
    BatchHeader,
    check_batch,
    read_header,
)
from tidelog.records.compression import Compression
from tidelog.records.decoder import decode_records
from tidelog.records.record import Record

#: Where a record's line begins.
INDENT: Final = "|"


class DumpedBatch:
    """A batch with its bytes and where they lie."""

    def __init__(self, content: bytes, position: int) -> None:
        self.content = content
        self.position = position
        self.header = BatchHeader(content, 0)
        self.why_invalid = self._why_invalid()

    @property
    def is_valid(self) -> bool:
        """Whether the header makes sense and the checksum is right."""
        return not self.why_invalid

    def _why_invalid(self) -> str:
        try:
            check_batch(self.content, exact=True)
        except TidelogError as error:
            return error.message
        return ""

    def records(self) -> list[Record]:
        """The records of a valid batch; none of one that is not, and none of a marker."""
        return decode_records(self.content, "", 0) if self.is_valid else []

    def line(self) -> str:
        """The batch's line."""
        header = self.header
        return (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"
            f" count: {header.record_count} baseSequence: {header.base_sequence}"
            f" lastSequence: {header.last_sequence} producerId: {header.producer_id}"
            f" producerEpoch: {header.producer_epoch}"
            f" partitionLeaderEpoch: {header.leader_epoch}"
            f" isTransactional: {_word(header.is_transactional)}"
            f" isControl: {_word(header.is_control)} deleteHorizonMs: OptionalLong.empty"
            f" position: {self.position}"
            f" {TIMESTAMP_TYPES[header.timestamp_type]}: {header.max_timestamp}"
            f" size: {header.size} magic: {header.magic}"
            f" compresscodec: {_codec(header)} crc: {header.crc} isvalid: {_word(self.is_valid)}"
        )

    def record_line(self, record: Record, *, with_data: bool, with_metadata: bool) -> bytes:
        """A record's line, without its end; keys and values as the bytes they are."""
        line = INDENT.encode()
        if with_metadata:
            names = ",".join(name for name, _ in record.headers)
            line += (
                f" offset: {record.offset}"
                f" {TIMESTAMP_TYPES[record.timestamp_type]}: {record.timestamp}"
                f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
                f" sequence: {self._sequence(record)} headerKeys: [{names}]"
            ).encode()
        if with_data and record.key is not None:
            line += b" key: " + record.key
        if with_data and record.value is not None:
            line += b" payload: " + record.value
        return line

    def as_json(self, *, with_records: bool, with_data: bool) -> dict[str, object]:
        """The same for a program."""
        header = self.header
        shown: dict[str, object] = {
            "position": self.position,
            "size": header.size,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "count": header.record_count,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "leader_epoch": header.leader_epoch,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "timestamp_type": TIMESTAMP_TYPES[header.timestamp_type],
            "max_timestamp": header.max_timestamp,
            "compression": _codec(header),
            "crc": header.crc,
            "is_valid": self.is_valid,
        }
        if not self.is_valid:
            shown["why_invalid"] = self.why_invalid
        if with_records:
            shown["records"] = [
                self._record_as_json(record, with_data=with_data) for record in self.records()
            ]
        return shown

    def _record_as_json(self, record: Record, *, with_data: bool) -> dict[str, object]:
        data = {**payload_as_json("key", record.key), **payload_as_json("value", record.value)}
        return {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key_size": _size(record.key),
            "value_size": _size(record.value),
            "sequence": self._sequence(record),
            "header_names": [name for name, _ in record.headers],
            **(data if with_data else {}),
        }

    def _sequence(self, record: Record) -> int:
        header = self.header
        if header.base_sequence < 0:
            return -1
        return (header.base_sequence + record.offset - header.base_offset) & SEQUENCE_MASK


def batches_of_file(file: Path, bytes_max: int | None) -> Iterator[DumpedBatch]:
    """The batches of a segment from its beginning, until one is not whole."""
    with file.open("rb") as opened:
        end = min(file.stat().st_size, bytes_max or 2**63)
        position = 0
        while end - position >= HEADER_BYTES:
            beginning = opened.read(HEADER_BYTES)
            try:
                size = read_header(beginning).size
            except TidelogError:
                return
            if position + size > end:
                return
            yield DumpedBatch(beginning + opened.read(size - HEADER_BYTES), position)
            position += size


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _size(payload: bytes | None) -> int:
    return -1 if payload is None else len(payload)


def _codec(header: BatchHeader) -> str:
    try:
        return Compression(header.compression).name.lower()
    except ValueError:
        return f"unknown({header.compression})"
