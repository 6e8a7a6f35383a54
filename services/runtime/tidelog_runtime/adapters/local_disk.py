"""The Disk port on the files of the operating system.

The composition root gives one to each data directory. Its files are `local_file.LocalFile`.
Descriptors close on exec and nothing is buffered in the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil

from tidelog_runtime.adapters.local_file import LocalFile
from tidelog_runtime.disk import AlreadyLocked


class LocalLock:
    """An flock on a file that names its holder; the kernel releases it with the process."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def is_in_place(self) -> bool:
        """Whether the file of that name is still the one that is locked."""
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(found, os.fstat(self._descriptor))

    def release(self) -> None:
        """Close the lock file, and with it the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LocalDisk:
    """A data directory on a file system; created when it is not there."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.fspath(root)
        os.makedirs(self._root, exist_ok=True)

    def _absolute(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        """Open for reading and appending."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LocalFile(os.open(self._absolute(path), flags, 0o640))

    def allocate(self, path: str, size: int) -> None:
        """Take the space of a file of this size; the system writes nothing for that."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT
        descriptor = os.open(self._absolute(path), flags, 0o640)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        with open(self._absolute(path), "rb") as file:
            return file.read()

    def exists(self, path: str) -> bool:
        """Whether the name is there."""
        return os.path.exists(self._absolute(path))

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(os.listdir(self._absolute(path)))

    def make_directory(self, path: str) -> None:
        """Create a folder with its parents."""
        os.makedirs(self._absolute(path), mode=0o750, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces."""
        os.replace(self._absolute(old), self._absolute(new))

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self._absolute(path))

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all it holds."""
        shutil.rmtree(self._absolute(path))

    def sync_directory(self, path: str) -> None:
        """Make the names in this folder durable."""
        descriptor = os.open(self._absolute(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, path: str, content: bytes) -> None:
        """Atomic and durable."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append([content])
            file.sync()
        except OSError:
            # On a full disk what is left of it would keep space from others.
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_directory(path.rpartition("/")[0])

    def free_bytes(self) -> int:
        """What an unprivileged process may still write."""
        volume = os.statvfs(self._root)
        return volume.f_bavail * volume.f_frsize

    def total_bytes(self) -> int:
        """The size of the volume."""
        volume = os.statvfs(self._root)
        return volume.f_blocks * volume.f_frsize

    def owns_volume(self) -> bool:
        """Whether the data directory is the root of its own mount."""
        return os.path.ismount(self._root)

    def sync_volume(self) -> None:
        """syncfs(2), which Python does not offer; ctypes lets other threads run meanwhile."""
        descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            library = ctypes.CDLL(None, use_errno=True)
            if library.syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), self._root)
        finally:
            os.close(descriptor)

    def acquire_lock(self, path: str) -> LocalLock:
        """Take the lock, or say who has it."""
        absolute = self._absolute(path)
        descriptor = os.open(absolute, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            named = f"process {holder}" if holder else "another process"
            raise AlreadyLocked(absolute, named) from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except OSError:
            # A full disk: the caller may make room, and asks again then.
            os.close(descriptor)
            raise
        return LocalLock(descriptor, absolute)
