"""The open log files of one data directory, at most so many at a time.

Segments ask here for their file and ask again when it was closed under them, so that ten thousand
replicas fit the usual descriptor limits. Which one goes is decided by second chance: cheap on the
append path (one flag) and close enough to least recently used. A file that a thread is syncing is
pinned: its descriptor must not be given to another file meanwhile.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import Final

from tidelog_runtime.disk import Disk, File

#: The process or the system has no descriptor left: nothing was tried, and it can be tried again.
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})


class OpenFile:
    """A slot for one file; `file` is None once it was closed."""

    __slots__ = ("doomed", "file", "pins", "used")

    def __init__(self, file: File) -> None:
        self.file: File | None = file
        self.used = True
        self.pins = 0
        #: To be closed as soon as nobody pins it.
        self.doomed = False


class OpenFiles:
    """Opens files and closes those that were not used for longest."""

    def __init__(self, disk: Disk, limit: int) -> None:
        self._disk = disk
        self._limit = max(limit, 1)
        self._ring: deque[OpenFile] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """Open the file, closing another when there are too many."""
        while len(self._ring) >= self._limit and self._close_one():
            pass
        slot = OpenFile(self._disk.open(path, create=create))
        self._ring.append(slot)
        return slot

    def _close_one(self) -> bool:
        """Close the next one that may go; False when all are pinned."""
        # Two rounds: the first may only take everybody's second chance away.
        for _ in range(2 * len(self._ring)):
            slot = self._ring.popleft()
            if slot.file is None:
                return True
            if slot.used or slot.pins:
                slot.used = False
                self._ring.append(slot)
                continue
            slot.file.close()
            slot.file = None
            return True
        return False

    def pin(self, slot: OpenFile) -> None:
        """Keep the file open until `unpin`."""
        slot.pins += 1

    def unpin(self, slot: OpenFile) -> None:
        """The counterpart of `pin`; closes what was discarded meanwhile."""
        slot.pins -= 1
        if slot.doomed and not slot.pins:
            self.discard(slot)
        # A large sync may have had more files open than there should be.
        while len(self._ring) > self._limit and self._close_one():
            pass

    def discard(self, slot: OpenFile) -> None:
        """Close the file for good, now or when its last pin goes."""
        if slot.pins:
            slot.doomed = True
            return
        if slot.file is not None:
            slot.file.close()
            slot.file = None
            self._ring.remove(slot)

    def close_all(self) -> None:
        """Close everything, at the end of a data directory's life."""
        for slot in self._ring:
            if slot.file is not None:
                slot.file.close()
                slot.file = None
        self._ring.clear()
