"""A disk that keeps some space back, so that a full one can be emptied by the node itself.

The composition root puts it around the disk of a node's data directory. When others have filled
the volume to the last byte, a delete can't be announced in the journal, nor a topic be struck from
the metadata, nor a stop leave its marker. Then the file that holds the space back is cut by a
slice, and what failed is tried once more. The invariant: only what asks to be `relieved` takes of
it; records, caches and evidence are written to the `plain` disk.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from tidelog_runtime.disk import NO_SPACE, Disk, File, Lock, WholeVolumeSync

#: The file that holds the space.
RESERVE: Final = "reserve"
#: Enough for the journal to begin anew once, and for many thousands of its lines.
RESERVE_BYTES: Final = 16 << 20
#: Of a small volume no more than this part.
_PART_OF_VOLUME: Final = 64
#: It is given up in so many parts: whoever fills the disk takes each that is not used at once.
_SLICES: Final = 16

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class ReservingDisk:
    """Implements `Disk`, `WholeVolumeSync` and `KeepsReserve` on another disk.

    Calls may come from several threads, as those of any disk.
    """

    def __init__(self, disk: Disk, reserve_bytes: int = RESERVE_BYTES) -> None:
        self.plain = disk
        self.on_given_up: Callable[[OSError], object] = _tell_nobody
        self._wanted = min(reserve_bytes, disk.total_bytes() // _PART_OF_VOLUME)
        self._slice = max(self._wanted // _SLICES, 1)
        self._lock = threading.Lock()
        #: How much the file holds; None while nobody has looked.
        self._held: int | None = None
        self._has_complained = False

    # --- the reserve ---------------------------------------------------------------------------

    def refill_reserve(self) -> bool:
        """Hold the space back, if it isn't already; False while the disk has too little for that.

        It needs twice as much: what was given up a moment ago is not to be taken back unused.
        """
        with self._lock:
            held = self._held_bytes()
            if held >= self._wanted:
                return True
            if self.plain.free_bytes() < 2 * self._wanted:
                return False
            try:
                self.plain.allocate(RESERVE, self._wanted)
            except OSError as error:
                if error.errno in NO_SPACE:
                    # A quota: nobody knew.
                    self._cut_to(held)
                    return False
                self._held = None
                self._complain(error)
                return True
            self._held = self._wanted
            return True

    def _complain(self, error: OSError) -> None:
        """Say it once. It is no fault of the disk's that records would suffer from."""
        if not self._has_complained:
            self._has_complained = True
            logger.warning(
                "no space can be kept back for deletes while the disk is full: %s", error
            )

    def relieved(self, action: Callable[[], _Result]) -> _Result:
        """What the action returns, given of the reserve where the disk has no space for it."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno not in NO_SPACE or not self._give_up_slice():
                    raise
                self.on_given_up(error)

    def _give_up_slice(self) -> bool:
        """Whether there was one."""
        with self._lock:
            held = self._held_bytes()
            if not held:
                return False
            self._cut_to(max(held - self._slice, 0))
            return True

    def _held_bytes(self) -> int:
        if self._held is None:
            self._held = 0
            with contextlib.suppress(OSError), contextlib.closing(self.plain.open(RESERVE)) as file:
                if file.size > self._wanted:
                    # It comes from a larger volume.
                    file.truncate(self._wanted)
                self._held = file.size
        return self._held

    def _cut_to(self, size: int) -> None:
        try:
            with contextlib.closing(self.plain.open(RESERVE)) as file:
                file.truncate(min(size, file.size))
                self._held = file.size
        except OSError:
            # Somebody removed it, or there is no descriptor for a part of it.
            with contextlib.suppress(OSError):
                self.plain.remove(RESERVE)
            self._held = 0

    # --- the port ------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file, whose appends are not relieved by themselves."""
        return self.relieved(partial(self.plain.open, path, create=create))

    def allocate(self, path: str, size: int) -> None:
        """Give a file so much space."""
        self.relieved(partial(self.plain.allocate, path, size))

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return self.plain.read_bytes(path)

    def exists(self, path: str) -> bool:
        """Whether the name is there."""
        return self.plain.exists(path)

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        return self.plain.list_directory(path)

    def make_directory(self, path: str) -> None:
        """Create a folder with its parents."""
        self.relieved(partial(self.plain.make_directory, path))

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces."""
        self.relieved(partial(self.plain.rename, old, new))

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.relieved(partial(self.plain.remove, path))

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all it holds."""
        self.relieved(partial(self.plain.remove_tree, path))

    def sync_directory(self, path: str) -> None:
        """Make the names in this folder durable."""
        self.plain.sync_directory(path)

    def replace(self, path: str, content: bytes) -> None:
        """Atomic and durable."""
        self.relieved(partial(self.plain.replace, path, content))

    def free_bytes(self) -> int:
        """What may still be written."""
        return self.plain.free_bytes()

    def total_bytes(self) -> int:
        """The size of the volume."""
        return self.plain.total_bytes()

    def acquire_lock(self, path: str) -> Lock:
        """Take the lock, or say who has it."""
        return self.relieved(partial(self.plain.acquire_lock, path))

    def owns_volume(self) -> bool:
        """Whether the data directory is the root of its own mount."""
        return isinstance(self.plain, WholeVolumeSync) and self.plain.owns_volume()

    def sync_volume(self) -> None:
        """Make everything durable at once; only where `owns_volume` says so."""
        assert isinstance(self.plain, WholeVolumeSync)
        self.plain.sync_volume()


def _tell_nobody(_error: OSError) -> None:
    """Until somebody wants to know."""
