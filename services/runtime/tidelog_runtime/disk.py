"""The disk as the services need it: a port whose one hard lesson is that a write is not a sync.

Storage code holds one `Disk` per data directory and never touches `os`. Real files, a simulated
disk that tears what was not synced, and a layer that forgets unsynced bytes on SIGKILL all
implement it. Paths are relative to the data directory, with "/" between their parts. Every call
is synchronous; the `sync` ones are slow and may run in a thread while the event loop appends to
the same file. Every failure is an OSError with its errno (ENOSPC, EIO, ...).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar, runtime_checkable

from tidelog.errors import TidelogError

Buffer = bytes | bytearray | memoryview
_Result = TypeVar("_Result")

#: The volume has no space, or the user no more of it.
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class AlreadyLocked(TidelogError):
    """Another process uses this data directory."""

    def __init__(self, path: str, holder: str) -> None:
        self.path = path
        self.holder = holder
        super().__init__(
            f"The data directory is locked by {holder} (lock file {path})",
            hint="Stop that process, or give this one a data directory of its own",
        )


class File(Protocol):
    """An open file: grows at its end, can be cut, is durable only after `sync`."""

    @property
    def size(self) -> int:
        """Bytes in the file, synced or not."""

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end without joining them; the position where they begin.

        All or nothing: on an error, also after a short write, the file is cut back to where it
        was and the OSError is raised.
        """

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes; as volatile as an append until the next sync."""

    def sync(self) -> None:
        """Make everything appended or cut before this call durable (fdatasync). Thread-safe."""

    def forget_cache(self, position: int) -> None:
        """Let reads from `position` on come from the medium; `sync` first.

        After a sync that failed the system may hold for clean, and show to later processes, what
        never reached the disk: no further sync would write it.
        """

    def close(self) -> None:
        """Give the descriptor back. Syncs nothing; closing twice does no harm."""


class Lock(Protocol):
    """A data directory held by this process."""

    def is_in_place(self) -> bool:
        """False once the lock's file was removed, or the directory, or another took its place."""

    def release(self) -> None:
        """Let another process have it."""


class Disk(Protocol):
    """One data directory."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file; FileNotFoundError unless `create`.

        The name of a created file is durable only after `sync_directory` of its folder.
        """

    def allocate(self, path: str, size: int) -> None:
        """Have a file of this size, made if need be, take its space now and not as it is written.

        Neither its content nor its name is promised anything.
        """

    def read_bytes(self, path: str) -> bytes:
        """The whole content of a (small) file."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder of this name is there."""

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted; FileNotFoundError when it is not there."""

    def make_directory(self, path: str) -> None:
        """Create a folder with its parents; no error when it exists."""

    def rename(self, old: str, new: str) -> None:
        """Atomic, replaces what stands there; durable after `sync_directory`."""

    def remove(self, path: str) -> None:
        """Remove a file; FileNotFoundError when it is not there."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all it holds; FileNotFoundError when it is not there."""

    def sync_directory(self, path: str) -> None:
        """Make the names in this folder durable: those created, renamed and removed."""

    def replace(self, path: str, content: bytes) -> None:
        """Atomic and durable: write `path`.tmp, sync it, rename it, sync its folder."""

    def free_bytes(self) -> int:
        """What may still be written."""

    def total_bytes(self) -> int:
        """The size of the volume."""

    def acquire_lock(self, path: str) -> Lock:
        """One process a data directory; AlreadyLocked names the holder's process id."""


@runtime_checkable
class WholeVolumeSync(Protocol):
    """What a disk adds that has its volume to itself: one call that makes all of it durable.

    With many dirty files this is an order of magnitude cheaper than syncing each. A disk without
    it simply lacks the method; one that shares its volume with others answers False to
    `owns_volume`.
    """

    def owns_volume(self) -> bool:
        """Whether the data directory is the root of its own mount."""

    def sync_volume(self) -> None:
        """Make every file, cut and name on the volume durable (syncfs). Thread-safe."""


@runtime_checkable
class KeepsReserve(Protocol):
    """What a disk adds that keeps space back for deletes and metadata; see `reserving_disk`."""

    #: Called with what the disk said when some of the space was given up: it is full.
    on_given_up: Callable[[OSError], object]

    @property
    def plain(self) -> Disk:
        """The same disk, without the reserve."""

    def relieved(self, action: Callable[[], _Result]) -> _Result:
        """What the action returns, given of the reserve where the disk has no space for it."""

    def refill_reserve(self) -> bool:
        """Keep the space back again, now that the disk has some; False while it has too little."""


def plain(disk: Disk) -> Disk:
    """The disk for records, and for what can be made from them: it takes of no reserve."""
    return disk.plain if isinstance(disk, KeepsReserve) else disk


def relieved(disk: Disk, action: Callable[[], _Result]) -> _Result:
    """Do what has to be possible on a full disk too. It is tried again, so once must be as often.

    Files don't take of a reserve by themselves; of what a disk does by its own calls, all does.
    """
    return disk.relieved(action) if isinstance(disk, KeepsReserve) else action()
