"""Ranges of a log that are damaged on this disk: kept as they are, refused to every reader.

Recovery finds and notes them, the log obeys them. Only what was known to be durable can be
damaged; above that a bad batch is a torn tail and is simply not there.
"""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.errors import LogCorrupt, UnsupportedVersion
from tidelog_broker.storage import names
from tidelog_broker.storage.frames import DamagedFile, seal, unseal
from tidelog_broker.storage.segment import LOG, DamagedBytes, Segment
from tidelog_runtime.disk import Disk

_MAGIC: Final = b"TLdm"
_VERSION: Final = 1
_LINE: Final = struct.Struct(">qqqqq")

logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """Whose log it is, and where."""

    topic: str
    partition: int
    folder: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def fields(self, **more: object) -> dict[str, dict[str, object]]:
        """What a line of the broker's own log says for machines."""
        return {"fields": {"topic": self.topic, "partition": self.partition, **more}}


class DamagedRange(NamedTuple):
    """Offsets that cannot be served, and the bytes of a segment where they were, if any."""

    start_offset: int
    end_offset: int
    segment_base: int
    position: int
    end_position: int


def write(disk: Disk, folder: str, ranges: Iterable[DamagedRange]) -> None:
    """Remember the ranges durably, or that there are none any more."""
    path = f"{folder}/{names.DAMAGED}"
    content = b"".join(_LINE.pack(*damaged) for damaged in ranges)
    if content:
        disk.replace(path, seal(_MAGIC, _VERSION, content))
    elif disk.exists(path):
        disk.remove(path)


def read(disk: Disk, folder: str) -> list[DamagedRange]:
    """The ranges found before; raises DamagedFile when the note of them can't be read itself."""
    path = f"{folder}/{names.DAMAGED}"
    if not disk.exists(path):
        return []
    try:
        payload = unseal(disk.read_bytes(path), _MAGIC, _VERSION, path)
    except UnsupportedVersion as error:
        raise DamagedFile(error.message, hint=error.hint) from error
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise DamagedFile(f"{path} can't be read", cause=str(error)) from error
    whole = len(payload) - len(payload) % _LINE.size
    return [DamagedRange(*fields) for fields in _LINE.iter_unpack(payload[:whole])]


def say(place: Place, found: Iterable[DamagedRange]) -> None:
    """A line for each range, when it is found: an operator has to know, and to look."""
    for damaged in found:
        where = f"nothing is left of them in {place.folder}"
        if damaged.end_position > damaged.position:
            path = f"{names.stem(place.folder, damaged.segment_base)}{LOG}"
            where = f"bytes {damaged.position} to {damaged.end_position - 1} of {path}"
        logger.error(
            "%s is damaged on this disk: its offsets %d to %d can't be read (%s); the other records"
            " are served, and writes are taken. Readers go on behind them when they are told to"
            " skip; what was lost has to come from a copy. Look after the disk",
            place,
            damaged.start_offset,
            damaged.end_offset - 1,
            where,
            extra=place.fields(
                first_offset=damaged.start_offset, last_offset=damaged.end_offset - 1
            ),
        )


def keep_unreadable(disk: Disk, place: Place, error: DamagedFile) -> None:
    """Keep a copy of the note, and say so. It stays until a new one is there to replace it."""
    path = f"{place.folder}/{names.DAMAGED}"
    copy = path + names.UNREADABLE
    try:
        disk.replace(copy, disk.read_bytes(path))
        fate = f"It is kept as {copy}"
    except OSError as refusal:
        fate = f"No copy of it can be kept ({refusal})"
    logger.error(
        "the note of what is damaged in %s can't be read: %s %s, and the log is read as a whole to"
        " find anew what is damaged. Look after the disk",
        place,
        error,
        fate,
        extra=place.fields(file=path),
    )


def mark(segment: Segment, damaged: DamagedRange) -> None:
    """Let walks through the segment jump over the damaged bytes."""
    if damaged.end_position > damaged.position:
        segment.damage.append(DamagedBytes(damaged.position, damaged.end_position))


def refuse(label: str, damaged: DamagedRange) -> LogCorrupt:
    """The error for a read inside a damaged range."""
    error = LogCorrupt(
        f"Offsets {damaged.start_offset} to {damaged.end_offset - 1} of {label} are damaged on "
        "this broker's disk",
        hint=f"Read on from offset {damaged.end_offset}, or from another replica",
    )
    error.next_offset = damaged.end_offset
    return error


def met(label: str, found: LogCorrupt, segment_end: int) -> LogCorrupt:
    """The error for damage that nobody knew of before a read: nothing says where it ends.

    The next segment is the first place that is sure to be whole batches again.
    """
    error = LogCorrupt(
        f"{label} is damaged on this broker's disk: {found.message}",
        cause=found.cause,
        hint=f"Read on from offset {segment_end}, behind this segment, or from another replica",
    )
    error.next_offset = segment_end
    return error
