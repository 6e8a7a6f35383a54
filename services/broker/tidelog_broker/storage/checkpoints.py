"""The small files of a data directory: its identity, its clean marker, its watermarks.

The data directory writes them, each atomically and durably. The identity is written once. The
marker is written last in a clean stop and deleted before anything else happens at the next start,
so that its presence proves that all else is as it was left. Watermarks may lag and never lead. Both
say how far the journal was durable when they were written: what can't be read of it now is damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from tidelog.model import PartitionId, TopicId
from tidelog_broker.storage.frames import DamagedFile, seal, unseal
from tidelog_broker.storage.journal import JournalMark
from tidelog_broker.storage.log_state import CleanState

_IDENTITY: Final = b"TLid"
_CLEAN: Final = b"TLcl"
_WATERMARKS: Final = b"TLwm"
_VERSION: Final = 1
_CLEAN_VERSION: Final = 3
_WATERMARKS_VERSION: Final = 2

#: Ends with the number of lines of leader epochs that follow it.
_CLEAN_LINE: Final = struct.Struct(">16sIqqqqqqqI")
_EPOCH_LINE: Final = struct.Struct(">iq")
_WATERMARK_LINE: Final = struct.Struct(">16sIqq")
#: How a payload begins: the number and the durable end of the journal, the number of lines.
_HEAD: Final = struct.Struct(">QqI")
STORAGE_UUID_BYTES: Final = 16


def encode_identity(storage_uuid: bytes) -> bytes:
    """The content of the identity file."""
    assert len(storage_uuid) == STORAGE_UUID_BYTES, storage_uuid
    return seal(_IDENTITY, _VERSION, storage_uuid)


def decode_identity(content: bytes, path: str) -> bytes:
    """The storage uuid."""
    payload = bytes(unseal(content, _IDENTITY, _VERSION, path))
    if len(payload) != STORAGE_UUID_BYTES:
        raise DamagedFile(f"{path} holds {len(payload)} bytes instead of a storage uuid")
    return payload


def encode_clean_marker(
    journal: JournalMark, states: Iterable[tuple[PartitionId, CleanState]]
) -> bytes:
    """The content of the clean marker."""
    count = 0
    parts = []
    for key, state in states:
        count += 1
        parts.append(
            _CLEAN_LINE.pack(
                key.topic_id,
                key.partition,
                state.log_end,
                state.size_bytes,
                state.active_base,
                state.active_size,
                state.first_append_ms,
                state.last_append_ms,
                state.uncached_bytes,
                len(state.epochs),
            )
        )
        parts += [_EPOCH_LINE.pack(*line) for line in state.epochs]
    return seal(_CLEAN, _CLEAN_VERSION, _HEAD.pack(*journal, count) + b"".join(parts))


def decode_clean_marker(
    content: bytes, path: str
) -> tuple[JournalMark, dict[PartitionId, CleanState]]:
    """The end of the journal, and what each log looked like when the broker stopped."""
    payload = unseal(content, _CLEAN, _CLEAN_VERSION, path)
    states = {}
    try:
        *journal, count = _HEAD.unpack_from(payload)
        position = _HEAD.size
        for _ in range(count):
            topic_id, partition, *numbers, lines = _CLEAN_LINE.unpack_from(payload, position)
            position += _CLEAN_LINE.size
            end = position + lines * _EPOCH_LINE.size
            epochs = tuple(_EPOCH_LINE.iter_unpack(payload[position:end]))
            states[PartitionId(TopicId(topic_id), partition)] = CleanState(*(*numbers, epochs))
            position = end
    except struct.error as error:
        raise DamagedFile(f"{path} ends within a line", cause=str(error)) from None
    if position != len(payload):
        raise DamagedFile(f"{path} goes on behind its last line")
    return JournalMark(*journal), states


def encode_watermarks(journal: JournalMark, marks: Iterable[tuple[PartitionId, int, int]]) -> bytes:
    """The content of the watermarks file: (partition, high watermark, log start)."""
    lines = [
        _WATERMARK_LINE.pack(key.topic_id, key.partition, high_watermark, log_start)
        for key, high_watermark, log_start in marks
    ]
    head = _HEAD.pack(*journal, len(lines))
    return seal(_WATERMARKS, _WATERMARKS_VERSION, head + b"".join(lines))


def decode_watermarks(
    content: bytes, path: str
) -> tuple[JournalMark, dict[PartitionId, tuple[int, int]]]:
    """How far the journal was durable, and (high watermark, log start) by partition."""
    payload = unseal(content, _WATERMARKS, _WATERMARKS_VERSION, path)
    if len(payload) < _HEAD.size:
        raise DamagedFile(f"{path} ends before its first line")
    *journal, count = _HEAD.unpack_from(payload)
    lines = payload[_HEAD.size :]
    if len(lines) != count * _WATERMARK_LINE.size:
        raise DamagedFile(f"{path} holds {len(lines)} bytes where {count} lines were written")
    return JournalMark(*journal), {
        PartitionId(TopicId(topic_id), partition): (high_watermark, log_start)
        for topic_id, partition, high_watermark, log_start in _WATERMARK_LINE.iter_unpack(lines)
    }
