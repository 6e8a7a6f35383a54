"""A disk that keeps some space back, so that a full one can be emptied by the node itself.

The composition root puts it around the disk of a node's data directory. When others have filled
the volume to the last byte, a delete can't be announced in the journal, nor a topic be struck from
the metadata, nor a stop leave its marker. Then the file that holds the space back is removed, and
what failed is tried once more. The invariant: records never take of it, since the files that they
are appended to are opened by `open_bulk`, whose errors are the disk's own.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from tidelog_runtime.disk import NO_SPACE, Buffer, Disk, File, Lock, WholeVolumeSync

#: The file that holds the space.
RESERVE: Final = "reserve"
#: Enough for the journal to begin anew once, and for many thousands of its lines.
RESERVE_BYTES: Final = 16 << 20
#: Of a small volume no more than this part.
_PART_OF_VOLUME: Final = 64

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class ReservingDisk:
    """Implements `Disk`, `WholeVolumeSync` and `KeepsReserve` on another disk.

    Calls may come from several threads, as those of any disk.
    """

    def __init__(self, disk: Disk, reserve_bytes: int = RESERVE_BYTES) -> None:
        self._disk = disk
        self._reserve_bytes = min(reserve_bytes, disk.total_bytes() // _PART_OF_VOLUME)
        self._is_filled = False
        self.on_given_up: Callable[[OSError], object] = _tell_nobody

    # --- the reserve ---------------------------------------------------------------------------

    def refill_reserve(self) -> None:
        """Hold the space back, if it isn't already; while there is little, the next call tries.

        With twice as much: what was given up a moment ago is not to be taken back unused.
        """
        if self._is_filled or self._disk.free_bytes() < 2 * self._reserve_bytes:
            return
        try:
            self._disk.allocate(RESERVE, self._reserve_bytes)
            self._is_filled = True
        except OSError as error:
            if error.errno not in NO_SPACE:
                # Not worth a fault, nor a line each second: some file systems can't do it.
                self._is_filled = True
                logger.warning(
                    "no space can be kept back for deletes while the disk is full: %s", error
                )
            self._remove_reserve()

    def _remove_reserve(self) -> bool:
        with contextlib.suppress(OSError):
            self._disk.remove(RESERVE)
            return True
        return False

    def relieved(self, action: Callable[[], _Result]) -> _Result:
        """What the action returns, given the reserve where the disk has no space for it."""
        try:
            return action()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            if self._remove_reserve():
                self._is_filled = False
                self.on_given_up(error)
            # Also where there was none to remove: another thread may have done it just now.
            return action()

    # --- the port ------------------------------------------------------------------------------

    def open_bulk(self, path: str, *, create: bool = False) -> File:
        """Open a file whose appends may not take of the reserve."""
        return self._disk.open(path, create=create)

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file."""
        opened = self.relieved(partial(self._disk.open, path, create=create))
        return _RelievedFile(opened, self)

    def allocate(self, path: str, size: int) -> None:
        """Give a file so much space."""
        self.relieved(partial(self._disk.allocate, path, size))

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return self._disk.read_bytes(path)

    def exists(self, path: str) -> bool:
        """Whether the name is there."""
        return self._disk.exists(path)

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        return self._disk.list_directory(path)

    def make_directory(self, path: str) -> None:
        """Create a folder with its parents."""
        self.relieved(partial(self._disk.make_directory, path))

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces."""
        self.relieved(partial(self._disk.rename, old, new))

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.relieved(partial(self._disk.remove, path))

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all it holds."""
        self.relieved(partial(self._disk.remove_tree, path))

    def sync_directory(self, path: str) -> None:
        """Make the names in this folder durable."""
        self._disk.sync_directory(path)

    def replace(self, path: str, content: bytes) -> None:
        """Atomic and durable."""
        self.relieved(partial(self._disk.replace, path, content))

    def free_bytes(self) -> int:
        """What may still be written."""
        return self._disk.free_bytes()

    def total_bytes(self) -> int:
        """The size of the volume."""
        return self._disk.total_bytes()

    def acquire_lock(self, path: str) -> Lock:
        """Take the lock, or say who has it."""
        return self.relieved(partial(self._disk.acquire_lock, path))

    def owns_volume(self) -> bool:
        """Whether the data directory is the root of its own mount."""
        return isinstance(self._disk, WholeVolumeSync) and self._disk.owns_volume()

    def sync_volume(self) -> None:
        """Make everything durable at once; only where `owns_volume` says so."""
        assert isinstance(self._disk, WholeVolumeSync)
        self._disk.sync_volume()


def _tell_nobody(_error: OSError) -> None:
    """Until somebody wants to know."""


class _RelievedFile:
    """A file whose appends may take of the reserve."""

    __slots__ = ("_disk", "_file", "sync")

    def __init__(self, file: File, disk: ReservingDisk) -> None:
        self._file = file
        self._disk = disk
        #: The file's own, so that whoever makes syncs knows it for what it is.
        self.sync = file.sync

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._file.size

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end, or nothing."""
        return self._disk.relieved(partial(self._file.append, parts))

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`."""
        return self._file.read(position, length)

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        self._file.truncate(size)

    def forget_cache(self, position: int) -> None:
        """Let reads come from the medium."""
        self._file.forget_cache(position)

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()
