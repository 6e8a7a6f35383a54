"""The Disk port on a simulated volume: a power cut tears whatever was not synced.

Storage code runs on it unchanged. `crash` is a power cut, `kill` the death of the process alone
(the page cache survives it), `possible_state` draws what a cut at this moment might leave without
cutting. The invariant: after `crash` or `kill` the old disk and its files refuse everything, so
that no line of a dead process can write.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from simulation.volume import FileNode, FolderNode, Node
from tidelog_runtime.disk import AlreadyLocked, Buffer

DEFAULT_CAPACITY_BYTES = 1 << 30


@dataclass(slots=True)
class _Fault:
    operation: str
    number: int
    path_part: str
    times: int


@dataclass(slots=True)
class _Volume:
    """What outlives a process: the tree, the locks, and the space."""

    capacity_bytes: int
    root: FolderNode = field(default_factory=FolderNode)
    locks: dict[str, SimulatedLock] = field(default_factory=dict)

    def used_bytes(self) -> int:
        return _size_of(self.root)


class SimulatedFile:
    """An open file of a simulated disk."""

    def __init__(self, disk: SimulatedDisk, path: str, node: FileNode) -> None:
        self._disk = disk
        self._path = path
        self._node: FileNode | None = node

    @property
    def size(self) -> int:
        """Bytes in the file, synced or not."""
        return len(self._live("size").content)

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end, or nothing."""
        node = self._live("append")
        data = b"".join(parts)
        position = len(node.content)
        free = self._disk.free_bytes()
        if len(data) > free:
            # The kernel writes what fits before it says no; who appends must cut it back.
            node.append(data[: self._disk.random.randint(0, free)])
            node.cut(position)
            self._disk.done("append", self._path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        node.append(data)
        self._disk.take_space(len(data))
        self._disk.done("append", self._path)
        return position

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes."""
        return bytes(self._live("read").content[position : position + length])

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        node = self._live("truncate")
        if size > len(node.content):
            raise OSError(errno.EINVAL, f"cannot cut {len(node.content)} bytes to {size}")
        self._disk.take_space(size - len(node.content))
        node.cut(size)
        self._disk.done("truncate", self._path)

    def sync(self) -> None:
        """Make what was written so far durable. After a failure it never will be."""
        try:
            node = self._live("sync")
        except OSError:
            if self._node is not None and not self._disk.dead:
                self._node.lose_pending(self._disk.random)
            raise
        node.sync()
        self._disk.done("sync", self._path)

    def forget_cache(self, position: int) -> None:
        """Read from the medium from now on, from `position` on."""
        self._live("forget_cache").forget_cache(position)
        self._disk.done("forget_cache", self._path)

    def close(self) -> None:
        """Give the descriptor back."""
        self._node = None

    def _live(self, operation: str) -> FileNode:
        if self._node is None:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        self._disk.begin(operation, self._path)
        return self._node


class SimulatedLock:
    """A data directory held by one process."""

    def __init__(self, disk: SimulatedDisk, path: str, locks: dict[str, SimulatedLock]) -> None:
        self.disk = disk
        self._path = path
        self._locks = locks

    def is_in_place(self) -> bool:
        """Nobody removes a simulated directory."""
        return self._locks.get(self._path) is self

    def release(self) -> None:
        """Let another process have it."""
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


class SimulatedDisk:
    """One data directory of one process on one volume."""

    def __init__(
        self,
        random: Random,
        *,
        name: str = "disk",
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        whole_volume: bool = False,
        observe: Callable[[str, str], None] | None = None,
    ) -> None:
        self.random = random
        self.name = name
        self.dead = False
        #: Called with operation and path after each operation that changes something.
        self.observe = observe
        self.operations: Counter[str] = Counter()
        self._whole_volume = whole_volume
        self._volume = _Volume(capacity_bytes)
        self._used = 0
        self._faults: list[_Fault] = []

    # ---- what may happen to it

    def crash(self) -> SimulatedDisk:
        """The power goes; what comes back is one of the states that are possible."""
        after = self.possible_state(self.random)
        self.dead = True
        return after

    def kill(self) -> SimulatedDisk:
        """The process dies; everything it wrote is still in the page cache."""
        self.dead = True
        after = self._successor(self.random)
        after._volume = self._volume
        after._used = self._used
        return after

    def possible_state(self, random: Random) -> SimulatedDisk:
        """What a power cut now might leave, as a disk of its own; this one lives on."""
        after = self._successor(random)
        after._volume = _Volume(self._volume.capacity_bytes, self._volume.root.torn(random))
        after._used = after._volume.used_bytes()
        return after

    def fail(
        self, operation: str, number: int = errno.EIO, *, path_part: str = "", times: int = 1
    ) -> None:
        """Let the next `times` operations of this name on such a path fail."""
        self._faults.append(_Fault(operation, number, path_part, times))

    def heal(self) -> None:
        """What was to fail from now on does not."""
        self._faults.clear()

    def set_capacity(self, capacity_bytes: int) -> None:
        """Somebody else fills or empties the volume."""
        self._volume.capacity_bytes = capacity_bytes

    def flip_bit(self, path: str, *, bit: int | None = None) -> None:
        """The medium forgets: one bit of a file turns, durably and unnoticed."""
        node = self._file(path)
        bit = self.random.randrange(len(node.content) * 8) if bit is None else bit
        for content in (node.content, node.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << bit % 8

    def _successor(self, random: Random) -> SimulatedDisk:
        return SimulatedDisk(
            random, name=self.name, whole_volume=self._whole_volume, observe=self.observe
        )

    # ---- the port

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        """Open a file; FileNotFoundError unless `create`."""
        self.begin("open", path)
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise _not_found(path)
            node = FileNode()
            folder.change({name: node})
            self.done("create", path)
        if isinstance(node, FolderNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimulatedFile(self, path, node)

    def allocate(self, path: str, size: int) -> None:
        """Fill it up with zeros."""
        file = self.open(path, create=True)
        if file.size < size:
            file.append([bytes(size - file.size)])

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        self.begin("read", path)
        return bytes(self._file(path).content)

    def exists(self, path: str) -> bool:
        """Whether the name is there."""
        self.begin("exists", path)
        return self._find(path) is not None

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        self.begin("list_directory", path)
        return sorted(self._folder(path).entries)

    def make_directory(self, path: str) -> None:
        """Create a folder with its parents."""
        self.begin("make_directory", path)
        folder = self._volume.root
        for name in _parts(path):
            node = folder.entries.get(name)
            if node is None:
                node = FolderNode()
                folder.change({name: node})
                self.done("make_directory", path)
            if isinstance(node, FileNode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            folder = node

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces."""
        self.begin("rename", old)
        old_folder, old_name = self._parent(old)
        new_folder, new_name = self._parent(new)
        node = old_folder.entries.get(old_name)
        if node is None:
            raise _not_found(old)
        replaced = new_folder.entries.get(new_name)
        if replaced is node:
            return
        if isinstance(replaced, FolderNode) and (isinstance(node, FileNode) or replaced.entries):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        if old_folder is new_folder:
            old_folder.change({old_name: None, new_name: node})
        else:
            # A journal never loses the file: the new name is there before the old one goes.
            new_folder.change({new_name: node})
            new_folder.sync()
            old_folder.change({old_name: None})
        if replaced is not None:
            self.take_space(-_size_of(replaced))
        self.done("rename", new)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.begin("remove", path)
        node = self._file(path)
        folder, name = self._parent(path)
        folder.change({name: None})
        self.take_space(-len(node.content))
        self.done("remove", path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all it holds, one after the other as `rm -r` does."""
        self.begin("remove_tree", path)
        folder = self._folder(path)
        for name in sorted(folder.entries):
            below = f"{path}/{name}"
            if isinstance(folder.entries[name], FolderNode):
                self.remove_tree(below)
            else:
                self.remove(below)
        parent, name = self._parent(path)
        parent.change({name: None})
        self.done("remove_tree", path)

    def sync_directory(self, path: str) -> None:
        """Make the names in this folder durable."""
        self.begin("sync_directory", path)
        self._folder(path).sync()
        self.done("sync_directory", path)

    def replace(self, path: str, content: bytes) -> None:
        """Atomic and durable; a crash may come between any two of its steps."""
        file = self.open(path + ".tmp", create=True)
        try:
            file.truncate(0)
            file.append([content])
            file.sync()
        finally:
            file.close()
        self.rename(path + ".tmp", path)
        self.sync_directory(path.rpartition("/")[0])

    def free_bytes(self) -> int:
        """What may still be written."""
        return max(0, self._volume.capacity_bytes - self._used)

    def total_bytes(self) -> int:
        """The size of the volume."""
        return self._volume.capacity_bytes

    def owns_volume(self) -> bool:
        """Whether `sync_volume` may be used."""
        return self._whole_volume

    def sync_volume(self) -> None:
        """Make everything durable at once."""
        self.begin("sync_volume", "")
        _sync_all(self._volume.root)
        self.done("sync_volume", "")

    def acquire_lock(self, path: str) -> SimulatedLock:
        """One living process a data directory."""
        self.begin("acquire_lock", path)
        holder = self._volume.locks.get(path)
        if holder is not None and not holder.disk.dead:
            raise AlreadyLocked(path, f"another process on {self.name}")
        lock = self._volume.locks[path] = SimulatedLock(self, path, self._volume.locks)
        return lock

    # ---- for its files

    def begin(self, operation: str, path: str) -> None:
        """Every operation passes here first: the dead refuse, and faults strike."""
        if self.dead:
            raise OSError(errno.EIO, f"{self.name} belongs to a process that is dead", path)
        for fault in self._faults:
            if fault.operation == operation and fault.path_part in path and fault.times > 0:
                fault.times -= 1
                raise OSError(fault.number, os.strerror(fault.number), path)

    def done(self, operation: str, path: str) -> None:
        """Something has changed."""
        self.operations[operation] += 1
        if self.observe is not None:
            self.observe(operation, path)

    def take_space(self, size: int) -> None:
        """Bytes were written, or given back."""
        self._used += size

    # ---- names

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._volume.root
        for name in _parts(path):
            node = node.entries.get(name) if isinstance(node, FolderNode) else None
        return node

    def _folder(self, path: str) -> FolderNode:
        node = self._find(path)
        if isinstance(node, FileNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if node is None:
            raise _not_found(path)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._find(path)
        if isinstance(node, FolderNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            raise _not_found(path)
        return node

    def _parent(self, path: str) -> tuple[FolderNode, str]:
        folder, _, name = path.strip("/").rpartition("/")
        return self._folder(folder), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _size_of(node: Node) -> int:
    if isinstance(node, FileNode):
        return len(node.content)
    return sum(_size_of(below) for below in node.entries.values())


def _sync_all(folder: FolderNode) -> None:
    folder.sync()
    for node in folder.entries.values():
        if isinstance(node, FolderNode):
            _sync_all(node)
        else:
            node.sync()
