"""The Disk port on real files that forgets: for a real process, SIGKILL is a power cut.

Bytes that were not synced live in the memory of this process alone and go with it, cuts likewise.
Names are the file system's and are kept; the simulated disk is the one that loses names.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tidelog_runtime.adapters.local_disk import LocalDisk, LocalLock
from tidelog_runtime.adapters.local_file import LocalFile
from tidelog_runtime.disk import Buffer


class _Content:
    """One file: so many of its durable bytes still count, and what comes behind them."""

    def __init__(self, file: LocalFile) -> None:
        self.file = file
        self.kept = file.size
        self.tail = bytearray()
        self.data_lock = threading.Lock()
        #: Held by a sync and by a cut; appends go on meanwhile.
        self.sync_lock = threading.Lock()

    def append(self, parts: Sequence[Buffer]) -> int:
        with self.data_lock:
            position = self.kept + len(self.tail)
            for part in parts:
                self.tail += part
            return position

    def read(self, position: int, length: int) -> bytes:
        with self.data_lock:
            durable = b""
            if position < self.kept:
                durable = self.file.read(position, min(length, self.kept - position))
            begin = max(position - self.kept, 0)
            return durable + bytes(self.tail[begin : begin + length - len(durable)])

    def truncate(self, size: int) -> None:
        with self.sync_lock, self.data_lock:
            del self.tail[max(size - self.kept, 0) :]
            self.kept = min(self.kept, size)

    def sync(self) -> None:
        with self.sync_lock:
            with self.data_lock:
                tail = bytes(self.tail)
            if self.file.size > self.kept:
                self.file.truncate(self.kept)
            self.file.append([tail])
            self.file.sync()
            with self.data_lock:
                self.kept += len(tail)
                del self.tail[: len(tail)]


class VolatileFile:
    """An open file of a volatile disk."""

    def __init__(self, content: _Content) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """Bytes in the file, synced or not."""
        return self._content.kept + len(self._content.tail)

    def append(self, parts: Sequence[Buffer]) -> int:
        """Into memory."""
        return self._content.append(parts)

    def read(self, position: int, length: int) -> bytes:
        """From disk and memory."""
        return self._content.read(position, length)

    def truncate(self, size: int) -> None:
        """In memory."""
        self._content.truncate(size)

    def sync(self) -> None:
        """To disk."""
        self._content.sync()

    def forget_cache(self, position: int) -> None:
        """What was synced lies in the file already; only that is shown to the next process."""

    def close(self) -> None:
        """The content stays in memory, as it would in the page cache."""


class VolatileDisk:
    """A data directory whose unsynced bytes die with the process."""

    def __init__(self, root: str) -> None:
        self._disk = LocalDisk(root)
        self._contents: dict[str, _Content] = {}

    def open(self, path: str, *, create: bool = False) -> VolatileFile:
        """Open a file."""
        content = self._contents.get(path)
        if content is None:
            content = self._contents[path] = _Content(self._disk.open(path, create=create))
        return VolatileFile(content)

    def allocate(self, path: str, size: int) -> None:
        """Take the space of a file that nobody writes to."""
        self._disk.allocate(path, size)

    def read_bytes(self, path: str) -> bytes:
        """The whole file, as this process sees it."""
        content = self._contents.get(path)
        if content is None:
            return self._disk.read_bytes(path)
        return content.read(0, content.kept + len(content.tail))

    def exists(self, path: str) -> bool:
        """Whether the name is there."""
        return self._disk.exists(path)

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder."""
        return self._disk.list_directory(path)

    def make_directory(self, path: str) -> None:
        """Create a folder."""
        self._disk.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, or a folder with all below it."""
        self._disk.rename(old, new)
        self._forget(new)
        for path in list(self._contents):
            if path == old or path.startswith(old + "/"):
                self._contents[new + path[len(old) :]] = self._contents.pop(path)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._disk.remove(path)
        self._forget(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder."""
        self._disk.remove_tree(path)
        for below in [one for one in list(self._contents) if one.startswith(path + "/")]:
            self._forget(below)

    def _forget(self, path: str) -> None:
        content = self._contents.pop(path, None)
        if content is not None:
            content.file.close()

    def sync_directory(self, path: str) -> None:
        """Names are durable already."""
        self._disk.sync_directory(path)

    def replace(self, path: str, content: bytes) -> None:
        """Atomic and durable."""
        self._disk.replace(path, content)
        self._forget(path)

    def free_bytes(self) -> int:
        """What may still be written."""
        return self._disk.free_bytes()

    def total_bytes(self) -> int:
        """The size of the volume."""
        return self._disk.total_bytes()

    def acquire_lock(self, path: str) -> LocalLock:
        """One process a data directory."""
        return self._disk.acquire_lock(path)
