"""What a simulated disk holds: contents and names as seen now, and what a power cut leaves of them.

A file is its content now, its durable content, and the operations between the two; a folder is the
same with names. `torn` draws one of the states that POSIX allows after a power cut:

| operation not synced      | what may be left of it                                               |
|---------------------------|----------------------------------------------------------------------|
| append                    | nothing, all, whole sectors of it in any order; holes read as zeros; |
|                           | also the new size with zeros where data should be                    |
| cut                       | done or not, whatever became of earlier and later appends            |
| create, rename, remove    | done or not, each by itself; a rename within a folder is never half  |

A synced file under a name that was not synced is gone: the name is the folder's affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class Append:
    """Bytes written at a position."""

    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """The file ends here now."""

    size: int


@dataclass(slots=True, eq=False)
class FileNode:
    """A file's content, and how much of it would survive."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Append | Cut] = field(default_factory=list)

    def append(self, data: bytes) -> int:
        """Write at the end; volatile until `sync`."""
        position = len(self.content)
        self.content += data
        self.pending.append(Append(position, data))
        return position

    def cut(self, size: int) -> None:
        """Shorten; volatile until `sync`."""
        del self.content[size:]
        self.pending.append(Cut(size))

    def sync(self) -> None:
        """All operations so far are durable."""
        for operation in self.pending:
            _apply(self.durable, operation)
        self.pending.clear()

    def lose_pending(self, random: Random) -> None:
        """A sync failed: the kernel calls the pages clean, though only some were written."""
        self.durable = torn_content(self.durable, self.pending, random)
        self.pending.clear()

    def forget_cache(self, position: int) -> None:
        """Show what is on the medium; the kernel keeps the size, and whatever is dirty."""
        if not self.pending:
            behind = self.durable[position : len(self.content)]
            self.content[position:] = behind.ljust(len(self.content) - position, b"\0")

    def torn(self, random: Random) -> FileNode:
        """The file as one power cut might leave it."""
        content = torn_content(self.durable, self.pending, random)
        return FileNode(bytearray(content), content)


@dataclass(slots=True, eq=False)
class FolderNode:
    """A folder's names, and which of them would survive."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[Mapping[str, Node | None]] = field(default_factory=list)

    def change(self, names: Mapping[str, Node | None]) -> None:
        """Set and remove names in one step; volatile until `sync`."""
        _rename(self.entries, names)
        self.pending.append(names)

    def sync(self) -> None:
        """All names so far are durable."""
        for names in self.pending:
            _rename(self.durable, names)
        self.pending.clear()

    def torn(self, random: Random) -> FolderNode:
        """The folder and all below it as one power cut might leave them."""
        names = dict(self.durable)
        for change in _surviving(self.pending, random):
            _rename(names, change)
        kept = {name: names[name].torn(random) for name in sorted(names)}
        return FolderNode(kept, dict(kept))


Node = FileNode | FolderNode


def torn_content(durable: bytearray, pending: list[Append | Cut], random: Random) -> bytearray:
    """One of the contents a power cut may leave of these operations."""
    content = bytearray(durable)
    if not pending:
        return content
    fate = random.choice(("lost", "kept", "prefix", "sectors"))
    if fate == "kept":
        for operation in pending:
            _apply(content, operation)
    elif fate == "prefix":
        survivors = random.randrange(len(pending))
        for operation in pending[:survivors]:
            _apply(content, operation)
        next_one = pending[survivors]
        if isinstance(next_one, Append):
            whole = random.randint(0, len(next_one.data))
            _write(content, next_one.position, next_one.data[: _sector_end(next_one, whole)])
    elif fate == "sectors":
        for operation in pending:
            _apply_some(content, operation, random)
    return content


def _apply(content: bytearray, operation: Append | Cut) -> None:
    if isinstance(operation, Cut):
        del content[operation.size :]
    else:
        _write(content, operation.position, operation.data)


def _apply_some(content: bytearray, operation: Append | Cut, random: Random) -> None:
    if isinstance(operation, Cut):
        if random.random() < 0.5:
            del content[operation.size :]
        return
    for begin, end in _sectors(operation):
        if random.random() < 0.5:
            _write(content, operation.position + begin, operation.data[begin:end])
    if random.random() < 0.25:
        _write(content, operation.position + len(operation.data), b"")


def _write(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _sectors(operation: Append) -> Iterator[tuple[int, int]]:
    """The parts of an append that lie in one sector of the file each."""
    begin, length = 0, len(operation.data)
    while begin < length:
        end = min(length, begin + SECTOR_BYTES - (operation.position + begin) % SECTOR_BYTES)
        yield begin, end
        begin = end


def _sector_end(operation: Append, wanted: int) -> int:
    """The last sector border within the first `wanted` bytes of an append."""
    if wanted == len(operation.data):
        return wanted
    return max(0, wanted - (operation.position + wanted) % SECTOR_BYTES)


def _rename(names: dict[str, Node], change: Mapping[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _surviving(
    pending: list[Mapping[str, Node | None]], random: Random
) -> list[Mapping[str, Node | None]]:
    fate = random.choice(("prefix", "prefix", "any"))
    if fate == "prefix":
        return pending[: random.randint(0, len(pending))]
    return [change for change in pending if random.random() < 0.5]
