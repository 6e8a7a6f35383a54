"""Disks that stall, fail or fill up when a test says so: the real one with a hand on its valve."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence

from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.adapters.local_file import LocalFile
from tidelog_runtime.disk import Buffer, File


class FaultyFile:
    """A log file, whose syncs and appends the test may spoil."""

    def __init__(self, file: LocalFile, path: str, disk: FaultyDisk) -> None:
        self._file = file
        self._path = path
        self._disk = disk

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._file.size

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write, if there is space and the test lets it."""
        self._disk.before_append()
        return self._file.append(parts)

    def read(self, position: int, length: int) -> bytes:
        """Read; nothing spoils that."""
        return self._file.read(position, length)

    def truncate(self, size: int) -> None:
        """Cut."""
        self._file.truncate(size)

    def sync(self) -> None:
        """Sync, when the test lets it; or fail."""
        self._disk.before_sync(self._path)
        self._file.sync()

    def forget_cache(self, position: int) -> None:
        """Read from the medium."""
        self._file.forget_cache(position)

    def close(self) -> None:
        """Close."""
        self._file.close()


class FaultyDisk(LocalDisk):
    """See the module. Only files of the logs themselves (`*.log` of topics) are spoilt."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self._may_sync = threading.Event()
        self._may_sync.set()
        self._may_remove = threading.Event()
        self._may_remove.set()
        self._failing: set[str] = set()
        self.is_full = False
        #: Which append fails from now on: 1 for the next, 0 for none.
        self.failing_append = 0
        #: Whether the free space can't be asked for.
        self.is_unreadable = False
        #: The folders whose removal has begun.
        self.removals: list[str] = []

    def stall(self) -> None:
        """From now on syncs of logs do not return."""
        self._may_sync.clear()

    def stall_removals(self) -> None:
        """From now on no folder is removed."""
        self._may_remove.clear()

    def go_on(self) -> None:
        """Syncs and removals return again."""
        self._may_sync.set()
        self._may_remove.set()

    def fail_syncs_below(self, folder: str) -> None:
        """Syncs of files below a folder fail with EIO, and so do removals of folders."""
        self._failing.add(folder)

    def before_append(self) -> None:
        """Raises EIO for the append that is to fail, ENOSPC while the disk is full."""
        if self.failing_append:
            self.failing_append -= 1
            if not self.failing_append:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def before_sync(self, path: str) -> None:
        """Waits, or raises, as the test has said."""
        if any(path.startswith(folder) for folder in self._failing):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._may_sync.wait()

    def open(self, path: str, *, create: bool = False) -> File:  # type: ignore[override] # wrapped
        """Open a file."""
        file = super().open(path, create=create)
        spoilt = path.startswith("topics/") and path.endswith(".log")
        return FaultyFile(file, path, self) if spoilt else file

    def remove_tree(self, path: str) -> None:
        """Remove a folder, when the test lets it; or fail."""
        self.removals.append(path)
        if any(path.startswith(folder) for folder in self._failing):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._may_remove.wait()
        super().remove_tree(path)

    def free_bytes(self) -> int:
        """Nothing while it is full."""
        if self.is_unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 0 if self.is_full else super().free_bytes()
