"""What all logs of one data directory share: the disk, its open files, its journal, its health.

Built by the data directory, handed to every log and segment. The space guard decides whether
anything may be appended at all; the trash gives space back some time after a file was retired.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from tidelog.errors import DiskFull, StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import names
from tidelog_broker.storage.config import StorageConfig
from tidelog_broker.storage.journal import Journal
from tidelog_broker.storage.open_files import NO_DESCRIPTOR, OpenFiles
from tidelog_runtime.disk import NO_SPACE, Disk, KeepsReserve, plain, relieved

#: Indexes of closed segments kept in memory.
_INDEXES_KEPT: Final = 256
#: While the disk is full, free space is looked at no more often than this.
_RECHECK_MS: Final = 1000
#: So many looks that found room, with no write refused in between, show that there is space again.
_QUIET_LOOKS: Final = 60
#: A folder that can't be looked into is tried again after this.
RETRY_MS: Final = 60_000

#: Gives back the space of one file or one partition.
PurgeStep = Callable[[], None]

logger = logging.getLogger(__name__)


class DropsIndex(Protocol):
    """A segment, as far as the index cache knows it."""

    def drop_index(self) -> None:
        """Free the index; it is read again when needed."""


class LoadedIndexes:
    """The closed segments whose index is in memory, oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._loaded: dict[DropsIndex, None] = {}

    def keep(self, segment: DropsIndex) -> None:
        """The segment has read its index; another one may have to let go of its own."""
        # It may be known from an earlier time: its place is the last one, and it has one only.
        self._loaded.pop(segment, None)
        self._loaded[segment] = None
        if len(self._loaded) > self._limit:
            oldest = next(iter(self._loaded))
            del self._loaded[oldest]
            oldest.drop_index()


class SpaceGuard:
    """Refuses appends while the disk is full, and for good once the journal could not be synced."""

    def __init__(self, disk: Disk, free_bytes_min: int) -> None:
        self._disk = disk
        self._free_bytes_min = min(free_bytes_min, disk.total_bytes() // 20)
        #: When the free space was last asked for.
        self.checked_ms = 0
        self.full = False
        self.fault: str | None = None
        #: `full or fault`, so that an append looks at one thing only.
        self.blocked = False
        #: Whether the last word in the log is that the disk is full.
        self._told_full = False
        #: What was free at the last look, and when the system last had no room for a write.
        self._seen_bytes = 0
        self._refused_at_bytes = 0
        self._quiet_looks = 0
        #: Whether some of the reserve was given up and the disk has been full since.
        self._gave_up = False

    def check(self, now_ms: int) -> bool:
        """Look at the free space; whether appends are accepted."""
        self.checked_ms = now_ms
        # Whatever is free is not for records before that is held again: a quota may forbid it.
        self._gave_up &= not self._refill_reserve()
        free_bytes = self._disk.free_bytes()
        # Some room above the limit before appends begin again, so that they do not flutter.
        margin = self._free_bytes_min // 4 if self._told_full else 0
        limit = self._free_bytes_min + margin
        is_full = free_bytes < limit or self._gave_up
        if is_full:
            self._say_full(
                f"{free_bytes} bytes are free, {limit} are kept for deletes and metadata"
            )
        elif self._told_full:
            if not self._quiet_looks:
                # What others have written since is no room that came to be.
                self._refused_at_bytes = min(self._refused_at_bytes, free_bytes)
            self._quiet_looks += 1
            has_grown = free_bytes > self._refused_at_bytes + margin
            if has_grown or self._quiet_looks >= _QUIET_LOOKS:
                logger.warning("the disk has space again (%d bytes): writes are taken", free_bytes)
                self._told_full = False
                self._refused_at_bytes = 0
        self._seen_bytes = free_bytes
        self.full = is_full
        self.blocked = self.full or self.fault is not None
        return not self.blocked

    def _refill_reserve(self) -> bool:
        return not isinstance(self._disk, KeepsReserve) or self._disk.refill_reserve()

    def refuse(self, now_ms: int) -> None:
        """Called when blocked: raises unless there is space again."""
        if self.fault is not None:
            raise StorageError(f"The data directory takes no more writes: {self.fault}")
        if now_ms - self.checked_ms >= _RECHECK_MS and self.check(now_ms):
            return
        raise DiskFull(
            "The broker's disk is full: it takes no writes, and serves reads",
            hint="Free space, shorten retention or add a broker; writes resume by themselves",
        )

    def give_up(self, error: OSError) -> None:
        """Some of the reserve was needed: what is free now is not for the next record."""
        self._gave_up = True
        self.note(error, 0)

    def note(self, error: OSError, now_ms: int) -> bool:
        """Whether the error means that the disk is full; appends are refused from now on then."""
        if error.errno not in NO_SPACE:
            return False
        self.checked_ms = now_ms
        self._say_full(str(error))
        # What is free may be much and yet too little, for a large batch or because of a quota.
        # Smaller ones are tried again soon, and nobody is told of space until there is more of it.
        self._refused_at_bytes = self._seen_bytes
        self._quiet_looks = 0
        self.full = self.blocked = True
        return True

    def _say_full(self, evidence: str) -> None:
        """One line when it begins, however many appends are refused: an operator has to act."""
        if self._told_full:
            return
        self._told_full = True
        logger.error(
            "the disk is full (%s): the broker takes no writes until there is space again, and"
            " serves reads; free space, or shorten retention",
            evidence,
        )

    def fail(self, fault: str) -> None:
        """The data directory as a whole is not to be trusted with another write."""
        self.fault = self.fault or fault
        self.blocked = True


class Trash:
    """Files and folders that were renamed away and wait for their space to be given back."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._waiting: list[tuple[int, str, bool]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, path: str, due_ms: int, *, is_folder: bool = False) -> None:
        """Remove it when the time has come."""
        self._waiting.append((due_ms, path, is_folder))

    def paths(self) -> set[str]:
        """What waits."""
        return {path for _, path, _ in self._waiting}

    def steps(self, now_ms: int | None) -> Iterator[PurgeStep]:
        """The removal of what is due, or of everything when no time is given.

        Each step is one file or one partition and may run in a thread, so that neither the event
        loop nor a shutdown ever waits for more. What is left of them the next start finishes.
        """
        due: list[tuple[int, str, bool]] = []
        waiting: list[tuple[int, str, bool]] = []
        for item in self._waiting:
            (due if now_ms is None or item[0] <= now_ms else waiting).append(item)
        self._waiting = waiting
        for due_ms, path, is_folder in due:
            try:
                steps = self._steps_of(path, is_folder=is_folder)
            except OSError as error:
                # It keeps nothing else from going.
                logger.error("%s can't be looked into and is removed later: %s", path, error)
                self.add(path, (now_ms or due_ms) + RETRY_MS, is_folder=is_folder)
                continue
            yield from steps

    def _steps_of(self, path: str, *, is_folder: bool) -> list[PurgeStep]:
        if not self._disk.exists(path):
            # The folder it was in went first.
            return []
        if not is_folder:
            return [partial(remove_if_there, self._disk, path)]
        partitions = [
            partial(self._disk.remove_tree, f"{path}/{name}")
            for name in self._disk.list_directory(path)
            if names.partition_of(name) is not None
        ]
        return [*partitions, partial(self._disk.remove_tree, path)]


def remove_if_there(disk: Disk, path: str) -> None:
    """Remove a file; the folder that it was in may have been deleted, and renamed, meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(path)


class Volume:
    """The shared parts, by name."""

    __slots__ = ("config", "disk", "files", "indexes", "journal", "space", "trash", "vital")

    def __init__(self, disk: Disk, config: StorageConfig, journal: Journal) -> None:
        #: For what has to be possible on a full disk too.
        self.vital = disk
        #: For all else: it takes nothing of the reserve.
        self.disk = plain(disk)
        self.config = config
        self.journal = journal
        self.files = OpenFiles(self.disk, config.max_open_files)
        self.indexes = LoadedIndexes(_INDEXES_KEPT)
        self.space = SpaceGuard(disk, config.free_bytes_min)
        if isinstance(disk, KeepsReserve):
            disk.on_given_up = self.space.give_up
        self.trash = Trash(disk)

    def announce(self, kind: int, entries: Iterable[tuple[PartitionId, bytes, int]]) -> None:
        """Journal what is about to be cut, durably; raises OSError, StorageError."""
        if self.space.fault is not None:
            raise StorageError(f"The data directory takes no more writes: {self.space.fault}")
        if self.journal.name_is_new:
            # Its folder has to be opened for that. What was announced must not be found by the
            # next start after this refused it, so it comes after all that a descriptor is for.
            self.sync_journal()
        try:
            self.write_journal(kind, entries)
        except OSError as error:
            # Without space nothing was announced, and what is there is as it was.
            if not self.space.note(error, 0):
                self.space.fail(f"the journal could not be written: {error}")
            raise
        self.sync_journal()
        self.journal.tell_synced()

    def write_journal(self, kind: int, entries: Iterable[tuple[PartitionId, bytes, int]]) -> None:
        """Write what has to stand there also on a full disk; raises OSError."""
        relieved(self.vital, partial(self.journal.write, kind, list(entries)))

    def sync_journal(self) -> None:
        """Make the journal durable; raises OSError.

        After an error nobody knows what of it is on the disk, and a further sync would not tell:
        nothing is written to this data directory from then on. Without a descriptor for its folder
        the next sync has it all to do.
        """
        try:
            self.journal.sync()
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self.journal.take_back_sync()
            else:
                self.space.fail(f"the journal failed: {error}")
            raise
