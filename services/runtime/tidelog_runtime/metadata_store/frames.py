"""The bytes of the embedded store's log: framed, checksummed, each frame evidence for the last.

    file    = magic "TIDEMETA" | version u32 | frame*          the first frame is a snapshot
    frame   = magic "\\xf1TLM" | payload length u32 | crc32 u32 | durable position u64 | payload
    payload = kind u8 | ...        the crc is that of everything behind it

    snapshot (1)  revision u64 | items u32 | item*
    changes (2)   batches u32 | (revision u64 | events u32 | event*)*
    mark (3)      nothing: it is there for its durable position

A frame says how much of the file was certainly on the disk when it was written. That tells a torn
tail, which a crash may leave, from damage to what had been promised.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog_runtime.metadata_store.interface import Deleted, Event, EventBatch, Item, LeaseId

FILE_HEADER: Final = b"TIDEMETA" + struct.pack(">I", 1)
FRAME_MAGIC: Final = b"\xf1TLM"
_FRAME: Final = struct.Struct(">4sIIQ")
_CHECKED: Final = struct.Struct(">Q")
FRAME_HEADER_BYTES: Final = _FRAME.size

SNAPSHOT: Final = 1
CHANGES: Final = 2
MARK: Final = 3

_COUNT: Final = struct.Struct(">I")
_BATCH: Final = struct.Struct(">QI")
_PUT: Final = struct.Struct(">BHIQQQ")
_DELETE: Final = struct.Struct(">BH")
_IS_PUT: Final = 1
_IS_DELETE: Final = 2


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame whose checksum is right."""

    position: int
    end: int
    durable_position: int
    kind: int
    body: memoryview


def encode_frame(kind: int, body: bytes, durable_position: int) -> bytes:
    """One frame, ready to be appended."""
    payload = bytes((kind,)) + body
    checksum = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(durable_position)))
    return _FRAME.pack(FRAME_MAGIC, len(payload), checksum, durable_position) + payload


def read_frame(content: memoryview, position: int) -> Frame | None:
    """The frame at this position, or None where there is no whole and undamaged one."""
    begin = position + FRAME_HEADER_BYTES
    if begin > len(content):
        return None
    magic, length, checksum, durable_position = _FRAME.unpack_from(content, position)
    if magic != FRAME_MAGIC or not 1 <= length <= len(content) - begin:
        return None
    payload = content[begin : begin + length]
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(durable_position))) != checksum:
        return None
    return Frame(position, begin + length, durable_position, payload[0], payload[1:])


def encode_snapshot(revision: int, items: Sequence[Item]) -> bytes:
    """The body of a snapshot frame."""
    parts = [_BATCH.pack(revision, len(items))]
    for item in items:
        _encode_event(item, parts)
    return b"".join(parts)


def decode_snapshot(body: memoryview) -> tuple[int, list[Item]]:
    """Revision and items of a snapshot frame."""
    reader = _Reader(body)
    revision, count = reader.take(_BATCH)
    items = [event for event in reader.events(count, revision) if isinstance(event, Item)]
    return revision, items


def encode_changes(batches: Sequence[EventBatch]) -> bytes:
    """The body of a changes frame."""
    parts = [_COUNT.pack(len(batches))]
    for batch in batches:
        parts.append(_BATCH.pack(batch.revision, len(batch.events)))
        for event in batch.events:
            _encode_event(event, parts)
    return b"".join(parts)


def decode_changes(body: memoryview) -> Iterable[EventBatch]:
    """The batches of a changes frame."""
    reader = _Reader(body)
    (batches,) = reader.take(_COUNT)
    for _ in range(batches):
        revision, count = reader.take(_BATCH)
        yield EventBatch(revision, tuple(reader.events(count, revision)))


def _encode_event(event: Event, parts: list[bytes]) -> None:
    key = event.key.encode()
    if isinstance(event, Deleted):
        parts += (_DELETE.pack(_IS_DELETE, len(key)), key)
        return
    header = _PUT.pack(
        _IS_PUT,
        len(key),
        len(event.value),
        event.create_revision,
        event.mod_revision,
        event.lease_id,
    )
    parts += (header, key, event.value)


class _Reader:
    """Reads values off a body one after the other."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._position = 0

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._body, self._position)
        self._position += layout.size
        return values

    def events(self, count: int, revision: int) -> Iterable[Event]:
        for _ in range(count):
            if self._body[self._position] == _IS_DELETE:
                _, key_bytes = self.take(_DELETE)
                yield Deleted(self._text(key_bytes), revision)
            else:
                _, key_bytes, value_bytes, created, modified, lease = self.take(_PUT)
                key = self._text(key_bytes)
                yield Item(key, self._bytes(value_bytes), created, modified, LeaseId(lease))

    def _text(self, length: int) -> str:
        return str(self._bytes(length), "utf-8")

    def _bytes(self, length: int) -> bytes:
        self._position += length
        return bytes(self._body[self._position - length : self._position])
