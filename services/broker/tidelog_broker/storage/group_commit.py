"""Group commit: one sync serves everything appended, to all partitions, while the last one ran.

The asyncio shell of storage. Partitions mark their log dirty after an append; rounds take all dirty
logs, sync their files off the event loop, and then tell each partition how far its log may be
acknowledged. What rounds made durable is journalled with a later one, or a few milliseconds after
the last: synced with each, that second file would cost as much as the first. The invariant:
nothing is reported durable before its file, the names it hangs on, and everything the journal held
when the round began are durable.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from tidelog.model import PartitionId
from tidelog_broker.storage import names
from tidelog_broker.storage.config import FlushPolicy
from tidelog_broker.storage.data_directory import DataDirectory
from tidelog_broker.storage.journal import ENDS, JournalSync
from tidelog_broker.storage.log import Log
from tidelog_broker.storage.log_sync import SyncTicket
from tidelog_broker.storage.open_files import NO_DESCRIPTOR
from tidelog_runtime.disk import WholeVolumeSync
from tidelog_runtime.threads import BlockingCall, RunsCalls

logger = logging.getLogger(__name__)

#: What the system has none of at the moment, which says nothing about the disk.
_PASSING: Final = NO_DESCRIPTOR | {errno.ENOMEM}
#: A sync that lacks a descriptor is tried again after this.
_RETRY_S: Final = 0.1
_TRIES_TO_DRAIN: Final = 50
#: Durable ends are journalled no more often than this, and no later when nothing is appended.
_JOURNAL_INTERVAL_S: Final = 0.01


class GroupCommit:
    """Makes the logs of one data directory durable by the cluster's flush policy."""

    def __init__(
        self,
        directory: DataDirectory,
        *,
        threads: RunsCalls,
        on_durable: Callable[[Log, int], None],
        on_fault: Callable[[Log, OSError], None],
    ) -> None:
        """`on_durable(log, end)`: under `commit`, everything below `end` may be acknowledged now.

        `on_fault(log, error)`: a sync failed, the log is FAULTY. Both are called on the loop.
        """
        self._directory = directory
        self._journal = directory.volume.journal
        self._config = directory.config
        self._policy = directory.config.flush_policy
        self._threads = threads
        self._on_durable = on_durable
        self._on_fault = on_fault
        self._dirty: dict[Log, None] = {}
        self._pending_ends: dict[Log, int] = {}
        self._journalled_at = 0.0
        self._wakeup = asyncio.Event()
        self._one_round = asyncio.Lock()
        #: What the last round could not open, and whether that was said.
        self._lacking: OSError | None = None
        self._has_said_so = False
        #: The logs that wait for a descriptor; the others go on meanwhile.
        self._waiting: dict[Log, None] = {}
        self._whole_volume = self._whole_volume_sync()
        #: Rounds that synced something, for metrics.
        self.rounds = 0

    def _whole_volume_sync(self) -> WholeVolumeSync | None:
        disk = self._directory.volume.disk
        return disk if isinstance(disk, WholeVolumeSync) and disk.owns_volume() else None

    def mark_dirty(self, log: Log) -> None:
        """The log was appended to; called right after that. Under `commit`, `on_durable` follows.

        Under the other policies what was appended counts at once, and whoever appends knows that.
        """
        if not log.wants_sync:
            return
        self._dirty[log] = None
        self._wakeup.set()

    async def run(self) -> None:
        """Commit until cancelled; `drain` first to stop without leaving anything undone."""
        while True:
            await self._wait_for_work()
            async with self._one_round:
                await self._commit()

    async def _wait_for_work(self) -> None:
        if self._policy is not FlushPolicy.COMMIT:
            await asyncio.sleep(self._config.flush_ms / 1000)
        if self._dirty:
            return
        self._wakeup.clear()
        if not self._pending_ends and not self._journal.dirty:
            await self._wakeup.wait()
            return
        try:
            async with asyncio.timeout(_JOURNAL_INTERVAL_S):
                await self._wakeup.wait()
        except TimeoutError:
            # Idle: a round of the journal alone.
            return

    async def drain(self) -> None:
        """Return when everything appended before this call is durable and journalled.

        Or when a descriptor for that has been waited for in vain: the next start recovers then.
        """
        tries = 0
        while tries < _TRIES_TO_DRAIN:
            async with self._one_round:  # a round under way has taken what it syncs off the lists
                self._try_again()
                if not (self._dirty or self._pending_ends or self._journal.dirty):
                    return
                await self._commit()
            if self._directory.volume.space.fault is not None:
                return
            if self._lacking is not None:
                tries += 1
                await asyncio.sleep(_RETRY_S)

    async def round_ended(self) -> None:
        """Returns between two rounds: who cancels `run` right behind that cuts off none."""
        async with self._one_round:
            pass

    async def write_watermarks(self) -> None:
        """Checkpoint high watermarks and log starts without holding up the event loop."""
        content = self._directory.watermarks_content()
        disk = self._directory.volume.disk

        (error,) = await self._threads.run([partial(disk.replace, names.WATERMARKS, content)])
        if error is None or self._directory.volume.space.note(error, 0):
            return
        if error.errno not in _PASSING:
            raise error
        logger.error("the checkpoint of watermarks waits for its next turn: %s", error)

    # --- one round -----------------------------------------------------------------------------

    async def _commit(self) -> None:
        """Sync all that is dirty, as many logs at a time as may have their files open."""
        dirty, self._dirty = list(self._dirty), {}
        at_once = max(self._config.max_open_files, 1)
        self._lacking = None
        for first in range(0, max(len(dirty), 1), at_once):
            await self._commit_some(dirty[first : first + at_once])
        self._say_what_is_lacking()

    def _say_what_is_lacking(self) -> None:
        """One line, however long it lasts."""
        if self._lacking is not None and not self._has_said_so:
            logger.error(
                "what was appended waits for its sync (%s): raise the limit of open files (ulimit"
                " -n, and fs.file-max for the whole system), or lower max.open.files",
                self._lacking,
            )
        self._has_said_so = self._lacking is not None or bool(self._waiting)

    async def _commit_some(self, dirty: Sequence[Log]) -> None:
        begun: dict[Log, SyncTicket] = {}
        try:
            await self._sync_some(dirty, begun)
        except BaseException:
            self._give_up(begun)
            raise
        if self._directory.volume.space.fault is None:
            self._journal.begin_anew_if_due()

    async def _sync_some(self, dirty: Sequence[Log], begun: dict[Log, SyncTicket]) -> None:
        """One round; a log stands in `begun` for as long as a sync of it is under way."""
        closed_only = self._policy is FlushPolicy.OS
        for log in dirty:
            if log.fault is None:
                self._begin(log, begun, closed_only)
        since_journal = asyncio.get_running_loop().time() - self._journalled_at
        journal_sync = self._begin_journal(
            ends_too=not begun or since_journal >= _JOURNAL_INTERVAL_S
        )
        if not begun and journal_sync is None:
            return
        self.rounds += 1
        work = _Work(begun.values(), journal_sync, self._directory)
        if self._whole_volume is not None and work.files > self._config.whole_volume_sync_files:
            # One sync for everything, whose outcome is everybody's.
            work.outcomes = work.files * await self._threads.run([self._whole_volume.sync_volume])
        else:
            work.take(await self._threads.run(work.syncs))
        if journal_sync is not None:
            self._finish_journal(journal_sync, work.journal_error)
        # What the journal was to hold before these records may be lost, since an earlier round or
        # since somebody announced a cut meanwhile.
        fault = self._directory.volume.space.fault
        lost = None if fault is None else OSError(errno.EIO, fault)
        for log, error in zip(list(begun), work.errors(), strict=True):
            self._finish(log, begun.pop(log), error or lost)

    def _give_up(self, begun: dict[Log, SyncTicket]) -> None:
        """The round was cut off: an error of its syncs is unheard of, and is told to nobody twice.

        A later sync would claim for durable what these may have lost. Their files stay open: a
        thread may still be at them.
        """
        unheard = OSError(errno.EIO, "a round was cut off, and nobody knows how its syncs ended")
        if self._journal.is_sync_under_way:
            self._directory.volume.space.fail(f"the journal failed: {unheard}")
        for log in begun:
            log.fail(f"a sync failed: {unheard}")
        for log in filter(self._directory.holds, begun):
            self._on_fault(log, unheard)

    def _finish_journal(self, journal_sync: JournalSync, error: OSError | None) -> None:
        if error is None:
            self._journal.finish_sync(journal_sync)
        elif error.errno in NO_DESCRIPTOR:
            self._journal.take_back_sync()
            self._lacking = error
        else:
            self._directory.volume.space.fail(f"the journal failed: {error}")

    def _begin(self, log: Log, begun: dict[Log, SyncTicket], closed_only: bool) -> None:
        try:
            begun[log] = log.begin_sync(closed_segments_only=closed_only)
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self._sync_later(log, error)
                return
            log.fail(f"a sync could not begin: {error}")
            self._on_fault(log, error)

    def _begin_journal(self, *, ends_too: bool) -> JournalSync | None:
        """Sync what the journal holds with this round; it never waits, what it announces must not.

        Ends of earlier rounds may lag, so they are written only when `ends_too`.
        """
        space = self._directory.volume.space
        if space.fault is not None:
            return None
        if ends_too and self._pending_ends:
            self._journalled_at = asyncio.get_running_loop().time()
            try:
                self._journal.write(ENDS, self._take_pending_ends())
            except OSError as error:
                # A full disk costs evidence, not durability.
                if not space.note(error, 0):
                    space.fail(f"the journal could not be written: {error}")
        return self._journal.begin_sync() if self._journal.dirty else None

    def _sync_later(self, log: Log, error: OSError) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(_RETRY_S, self._try_again)
        self._waiting[log] = None
        self._lacking = error

    def _try_again(self) -> None:
        self._dirty |= self._waiting
        self._waiting.clear()
        self._wakeup.set()

    def _take_pending_ends(self) -> list[tuple[PartitionId, bytes, int]]:
        # A log may have been cut since; it is durable only as far as it says now.
        pending, self._pending_ends = self._pending_ends, {}
        return [
            (log.partition_id, log.journal_key, min(end, log.durable_end))
            for log, end in pending.items()
            if log.fault is None
        ]

    def _finish(self, log: Log, ticket: SyncTicket, error: OSError | None) -> None:
        if error is not None and error.errno in NO_DESCRIPTOR:
            log.take_back_sync(ticket)
            self._sync_later(log, error)
        elif log.finish_sync(ticket, error):
            self._pending_ends[log] = log.durable_end
            if self._policy is FlushPolicy.COMMIT:
                self._on_durable(log, log.durable_end)
        elif error is not None and self._directory.holds(log):
            # (The files of a partition that was deleted meanwhile need not be there.)
            self._on_fault(log, error)


class _Work:
    """What one round has to sync, each file and folder once, and how it went."""

    def __init__(
        self,
        tickets: Iterable[SyncTicket],
        journal_sync: JournalSync | None,
        directory: DataDirectory,
    ) -> None:
        self.syncs: list[BlockingCall] = []
        #: How each sync went, in their order.
        self.outcomes: list[OSError | None] = []
        #: For each ticket the places of its syncs.
        self._places: list[list[int]] = []
        self._journal_place: int | None = None
        self._journal_opens = False
        if journal_sync is not None:
            self._journal_place = 0
            self._journal_opens = journal_sync.name_is_new
            self.syncs.append(journal_sync.call)
        disk = directory.volume.disk
        #: The folders, each at its place among the syncs.
        folders = self._folders = dict[str, int]()
        for ticket in tickets:
            places = []
            for slot in ticket.slots:
                assert slot.file is not None, "a pinned file stays open"
                places.append(len(self.syncs))
                self.syncs.append(slot.file.sync)
            for folder in ticket.directories:
                if folder not in folders:
                    folders[folder] = len(self.syncs)
                    self.syncs.append(partial(disk.sync_directory, folder))
                places.append(folders[folder])
            self._places.append(places)

    @property
    def files(self) -> int:
        """How many files and folders there are."""
        return len(self.syncs)

    @property
    def journal_error(self) -> OSError | None:
        """What went wrong with the journal."""
        return None if self._journal_place is None else self.outcomes[self._journal_place]

    def take(self, outcomes: list[OSError | None]) -> None:
        """What came of each. Who needs no descriptor has failed, whatever the error says."""
        opened = set(self._folders.values())
        if self._journal_opens:
            opened.add(0)
        self.outcomes = [
            OSError(errno.EIO, f"a sync said: {error}")
            if error is not None and error.errno in NO_DESCRIPTOR and place not in opened
            else error
            for place, error in enumerate(outcomes)
        ]

    def errors(self) -> list[OSError | None]:
        """For each ticket the worst error that concerns it; the journal's concerns all."""
        journal = [] if self._journal_place is None else [self._journal_place]
        return [
            _worst([self.outcomes[place] for place in (*places, *journal)])
            for places in self._places
        ]


def _worst(outcomes: Iterable[OSError | None]) -> OSError | None:
    """The first error, though one that may pass only where there is no other."""
    errors = [error for error in outcomes if error is not None]
    lasting = [error for error in errors if error.errno not in NO_DESCRIPTOR]
    return next(iter(lasting or errors), None)
