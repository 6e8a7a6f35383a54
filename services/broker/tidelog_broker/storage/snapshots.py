"""Producer-state snapshots of one log: files named by the offset their state belongs to.

Written every few megabytes, at every roll and at a clean stop; read by recovery, by truncation
and at the first append after a start. They are caches with a checksum and are not synced: one
that was torn is skipped for an older one, and more of the log is replayed. Only when the log
before one is dropped it has to be durable. The two newest stay, and those at a segment's
beginning, so that a truncation need not replay the whole log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from tidelog.errors import UnsupportedVersion
from tidelog_broker.storage import names
from tidelog_broker.storage.frames import DamagedFile
from tidelog_broker.storage.producer_state import ProducerStates
from tidelog_runtime.disk import Disk

SNAPSHOT: Final = ".snapshot"
_NEWEST_KEPT: Final = 2


def write_unsynced(disk: Disk, path: str, content: bytes) -> None:
    """Replace a cache file: whole or not at all when the process dies, anything in a power cut."""
    temporary = path + names.TEMPORARY
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.append([content])
    finally:
        file.close()
    disk.rename(temporary, path)


def offsets(file_names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among these names, ascending."""
    found = (names.offset_of(name, SNAPSHOT) for name in file_names)
    return sorted(offset for offset in found if offset is not None)


def write(disk: Disk, folder: str, offset: int, producers: ProducerStates) -> None:
    """Keep this state for the log that ends at `offset`."""
    path = names.stem(folder, offset) + SNAPSHOT
    if disk.exists(path):
        # It may be the one that is durable for want of the log before it.
        disk.replace(path, producers.encode())
    else:
        write_unsynced(disk, path, producers.encode())


def sync(disk: Disk, folder: str, offset: int) -> None:
    """Make one durable that is no cache any more, since the log it came from is about to go."""
    file = disk.open(names.stem(folder, offset) + SNAPSHOT)
    try:
        file.sync()
    finally:
        file.close()


def newest(
    disk: Disk, folder: str, *, file_names: Iterable[str], up_to: int, limit: int
) -> tuple[int, ProducerStates] | None:
    """The newest readable snapshot at or below an offset; those of no use are removed.

    At most `limit` producers of it are known from now on.
    """
    for offset in reversed(offsets(file_names)):
        path = names.stem(folder, offset) + SNAPSHOT
        if offset > up_to:
            continue
        try:
            return offset, ProducerStates.decode(disk.read_bytes(path), path, limit)
        except (DamagedFile, UnsupportedVersion):
            disk.remove(path)
    return None


def remove_above(disk: Disk, folder: str, offset: int) -> bool:
    """The log ends at `offset` now: what is known of later offsets is wrong. Whether any was."""
    wrong = [found for found in offsets(disk.list_directory(folder)) if found > offset]
    for found in wrong:
        disk.remove(names.stem(folder, found) + SNAPSHOT)
    return bool(wrong)


def remove_superfluous(disk: Disk, folder: str, segment_bases: Iterable[int]) -> None:
    """Keep the two newest and those where a live segment begins."""
    keep = set(segment_bases)
    for offset in offsets(disk.list_directory(folder))[:-_NEWEST_KEPT]:
        if offset not in keep:
            with contextlib.suppress(FileNotFoundError):
                disk.remove(names.stem(folder, offset) + SNAPSHOT)
