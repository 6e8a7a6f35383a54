"""What a log is, whatever is done to it: its offsets, its body on disk, its durability.

`Log` adds appending, reading and cutting. A log's body is loaded when it is first needed: after a
clean stop the numbers of the clean marker do until then, after any other stop recovery has read it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from tidelog.errors import LogCorrupt, StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import damage, names
from tidelog_broker.storage.config import FlushPolicy, LogConfig
from tidelog_broker.storage.damage import DamagedRange, Place
from tidelog_broker.storage.frames import DamagedFile
from tidelog_broker.storage.journal import ENDS, STARTS, key_of
from tidelog_broker.storage.log_body import LogBody
from tidelog_broker.storage.log_sync import SyncTicket
from tidelog_broker.storage.open_files import NO_DESCRIPTOR, OpenFile
from tidelog_broker.storage.producer_state import ProducerStates
from tidelog_broker.storage.recovery import Expectation, Recovery
from tidelog_broker.storage.segment import Segment
from tidelog_broker.storage.volume import Volume

logger = logging.getLogger(__name__)

#: A clean stop leaves caches that lag by so little as they are: to read that much of the log at
#: the first append costs less than to write four files.
_UNCACHED_BYTES_MAX: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class CleanState:
    """What a log looked like when its broker stopped cleanly."""

    log_end: int
    size_bytes: int
    active_base: int
    active_size: int
    #: When the active segment got its first and its last batch.
    first_append_ms: int
    last_append_ms: int
    #: Bytes that index and snapshots don't cover.
    uncached_bytes: int
    #: Every (leader epoch, first offset).
    epochs: tuple[tuple[int, int], ...]

    @property
    def latest_epoch(self) -> int:
        """The highest epoch; -1 in an empty log."""
        return self.epochs[-1][0] if self.epochs else -1


class LogState:
    """The state of one partition's log in an open data directory."""

    __slots__ = (
        "_body",
        "_bytes_until_snapshot",
        "_clean_state",
        "_generation",
        "_is_synced_by_rounds",
        "_space",
        "_unsynced",
        "_unsynced_directories",
        "_volume",
        "config",
        "durable_end",
        "evidence_intact",
        "fault",
        "high_watermark",
        "is_acknowledged_unsynced",
        "journal_key",
        "latest_epoch",
        "log_end",
        "log_start",
        "partition_id",
        "size_bytes",
        "topic",
    )

    def __init__(
        self, volume: Volume, partition_id: PartitionId, topic: str, config: LogConfig
    ) -> None:
        self._volume = volume
        self._space = volume.space
        self._body: LogBody | None = None
        self._clean_state: CleanState | None = None
        self._unsynced: list[Segment] = []
        self._unsynced_directories: list[str] = []
        #: Grows with every cut: a sync begun before it says nothing about the log after it.
        self._generation = 0
        self._bytes_until_snapshot = volume.config.snapshot_interval_bytes
        self.partition_id = partition_id
        self.topic = topic
        self.config = config
        self.journal_key = key_of(partition_id)
        self.log_start = 0
        #: The offset the next record gets.
        self.log_end = 0
        #: Everything below survives power loss.
        self.durable_end = 0
        self.high_watermark = 0
        self.size_bytes = 0
        self.latest_epoch = -1
        #: Whether an append may be acknowledged before any sync: only `commit` waits for one.
        self.is_acknowledged_unsynced = volume.config.flush_policy is not FlushPolicy.COMMIT
        self._is_synced_by_rounds = volume.config.flush_policy is not FlushPolicy.OS
        #: Why the log takes no more writes; None while all is well.
        self.fault: str | None = None
        #: False while something that was known to be durable is known to be missing.
        self.evidence_intact = True

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition_id.partition}"

    @property
    def acknowledgeable_end(self) -> int:
        """What this disk's part in an acknowledgement covers under the cluster's flush policy.

        `commit` waits for durability; `interval` and `os` do not.
        """
        return self.log_end if self.is_acknowledged_unsynced else self.durable_end

    @property
    def damaged_ranges(self) -> list[DamagedRange]:
        """Offsets that are refused to readers because their bytes are damaged."""
        return list(self.body().damaged_ranges)

    def fail(self, fault: str) -> None:
        """From now on nothing is written here."""
        self.fault = self.fault or fault

    def _refusal_of(self, leader_epoch: int) -> StorageError:
        """Said before anything is written: an epoch that falls back is damage to recovery."""
        if self.fault is not None:
            return StorageError(f"{self} is faulty and takes no writes: {self.fault}")
        return StorageError(
            f"{self} holds batches of leader epoch {self.latest_epoch}, and takes none of epoch"
            f" {leader_epoch}; nothing was written",
            cause="The disk has spoilt the epoch of a batch, or the cluster's metadata are older"
            " than the log",
            hint="Look after the disk and the metadata; copy the records to another topic",
        )

    # --- loading -------------------------------------------------------------------------------

    def begin_empty(self, log_start: int) -> None:
        """The partition is new on this disk; its folder becomes durable with its first batch."""
        folder = self._make_folder()
        self._body = LogBody(self._volume, folder)
        self._body.producers = ProducerStates(self._volume.config.producer_ids_max)
        self._take_numbers(log_start, log_start)
        self._volume.write_journal(ENDS, [(self.partition_id, self.journal_key, log_start)])

    def trust(self, clean_state: CleanState, log_start: int, now_ms: int) -> None:
        """The broker stopped cleanly: believe its marker, open nothing.

        Where the note of what is damaged can't be read, the log is read: now, and not on the way
        of a caller.
        """
        try:
            known = damage.read(self._volume.disk, names.partition_folder(self.partition_id))
        except DamagedFile:
            self.recover(Expectation(clean_state.log_end, log_start), now_ms)
            return
        self.evidence_intact = not known
        self._clean_state = clean_state
        self._take_numbers(log_start, clean_state.log_end)
        self.size_bytes = clean_state.size_bytes
        self.latest_epoch = clean_state.latest_epoch

    def recover(self, expected: Expectation, now_ms: int) -> int:
        """Read the log after an unclean stop; the bytes that were checked."""
        folder = self._make_folder()
        recovery = Recovery(
            self._volume,
            Place(self.topic, self.partition_id.partition, folder),
            expected,
            now_ms=now_ms,
            interval_bytes=self.config.index_interval_bytes,
        )
        loaded = recovery.run()
        self._sync_new_directories()
        body = self._body = LogBody.after_recovery(self._volume, folder, loaded)
        self._take_numbers(loaded.log_start, loaded.log_end)
        self.latest_epoch = body.epochs.latest
        self.evidence_intact = not loaded.damaged_ranges and not loaded.is_set_aside
        if loaded.needs_roll:
            body.roll(self.log_end, self.config).file().sync()
            self._volume.disk.sync_directory(folder)
        self.size_bytes = body.size_bytes
        self.write_caches()
        self._journal_what_was_found()
        return loaded.bytes_scanned

    def _journal_what_was_found(self) -> None:
        """A full disk costs evidence: what the journal had of the log so far is true as well."""
        place = (self.partition_id, self.journal_key)
        try:
            self._volume.journal.write(ENDS, [(*place, self.log_end)])
            self._volume.journal.write(STARTS, [(*place, self.log_start)])
        except OSError as error:
            if not self._volume.space.note(error, 0):
                raise

    def _make_folder(self) -> str:
        """Create the partition's folder; the names on its path are synced with the first batch."""
        folder = names.partition_folder(self.partition_id)
        if self._volume.disk.exists(folder):
            return folder
        self._volume.disk.make_directory(folder)
        topic_folder = names.topic_folder(self.partition_id.topic_id)
        self._unsynced_directories += [names.TOPICS, topic_folder, folder]
        return folder

    def _sync_new_directories(self) -> None:
        for directory in self._unsynced_directories:
            self._volume.disk.sync_directory(directory)
        self._unsynced_directories = []

    def _take_numbers(self, log_start: int, log_end: int) -> None:
        self.log_start = log_start
        self.log_end = self.durable_end = log_end
        self.high_watermark = min(max(self.high_watermark, log_start), log_end)

    def body(self, now_ms: int = 0) -> LogBody:
        """What the folder holds, read now if it was not yet."""
        if self._body is None:
            self._load(now_ms)
        assert self._body is not None
        return self._body

    def _load(self, now_ms: int) -> None:
        try:
            self._load_or_recover(now_ms)
        except LogCorrupt as error:
            raise self._met(error) from None

    def _met(self, error: LogCorrupt) -> LogCorrupt:
        """Somebody met damage: it counts from now on. The first of it is said, once.

        Who reads tells of it in its own words, and names the offset behind it.
        """
        if self.evidence_intact and error.next_offset is None:
            logger.error("damage was found in %s: %s Look after the disk", self, error)
        self.evidence_intact = False
        return error

    def _load_or_recover(self, now_ms: int) -> None:
        state = self._clean_state
        assert state is not None, "a log is made empty, trusted or recovered before it is used"
        folder = names.partition_folder(self.partition_id)
        try:
            body: LogBody | None = LogBody.after_clean_stop(
                self._volume, folder, self.config.index_interval_bytes, state.epochs
            )
        except (DamagedFile, FileNotFoundError):
            body = None
        if body is not None and _is_as_left(body, state):
            self._body = body
            self._bytes_until_snapshot -= state.uncached_bytes
            if body.active is not None:
                body.active.first_append_ms = state.first_append_ms
                body.active.last_append_ms = state.last_append_ms
        else:
            self.recover(Expectation(state.log_end, self.log_start), now_ms)
        self._clean_state = None

    def _recover_spoilt(self, found: LogCorrupt, now_ms: int) -> LogBody:
        """Batches that a clean stop vouched for are damaged: refuse their range and go on."""
        logger.error("%s was spoilt since its last stop and is recovered: %s", self, found)
        if self._body is not None:
            self._body.close()
        self.recover(Expectation(self.log_end, self.log_start), now_ms)
        return self.body()

    def write_caches(self) -> None:
        """Index, producer state and leader epochs as of now: what recovery would have to read."""
        self._bytes_until_snapshot = self._volume.config.snapshot_interval_bytes
        if self._body is not None:
            self._body.write_caches(self.log_end)

    def discard(self) -> None:
        """The partition is being deleted: let go of its files, and of any sync under way."""
        self.fail("the partition was deleted")
        self._generation += 1
        if self._body is not None:
            self._body.close()

    def close(self) -> CleanState | None:
        """Close the files; what to trust at the next start, None when that is nothing."""
        if self._body is None:
            return self._clean_state
        state = None
        if self.fault is None and self.durable_end == self.log_end:
            try:
                if self._uncached_bytes > _UNCACHED_BYTES_MAX:
                    self.write_caches()
                state = self._clean_state_of(self._body)
            except OSError as error:
                # The next start recovers this log, and trusts the others.
                logger.error("the caches of %s can't be written: %s", self, error)
        self._body.close()
        return state

    @property
    def _uncached_bytes(self) -> int:
        return self._volume.config.snapshot_interval_bytes - self._bytes_until_snapshot

    def _clean_state_of(self, body: LogBody) -> CleanState:
        active = body.active
        return CleanState(
            log_end=self.log_end,
            size_bytes=self.size_bytes,
            active_base=-1 if active is None else active.base_offset,
            active_size=0 if active is None else active.size,
            first_append_ms=-1 if active is None else active.first_append_ms,
            last_append_ms=-1 if active is None else active.last_append_ms,
            uncached_bytes=self._uncached_bytes,
            epochs=tuple(body.epochs.lines()),
        )

    # --- durability ----------------------------------------------------------------------------

    @property
    def has_unsynced(self) -> bool:
        """Whether a sync would have anything to do."""
        return bool(self._unsynced or self._unsynced_directories)

    @property
    def wants_sync(self) -> bool:
        """Whether what was appended is to be synced by a round of the group commit.

        Under `os` the active segment is left to the operating system.
        """
        return self._is_synced_by_rounds or len(self._unsynced) > 1

    def begin_sync(self, *, closed_segments_only: bool = False) -> SyncTicket:
        """What must be synced so that the log is durable up to its present end.

        With `closed_segments_only` the active segment is left to the operating system.
        """
        body = self.body()
        active = body.active
        segments, kept = self._unsynced, []
        end = self.log_end
        if active is not None and closed_segments_only:
            kept = [segment for segment in segments if segment is active]
            segments = [segment for segment in segments if segment is not active]
            end = active.base_offset
        elif active is not None:
            # Readers follow the durable end: spare them the search for it.
            body.remember(end, active, active.size)
        slots = self._pinned(segments)
        self._unsynced = kept
        for segment in segments:
            segment.unsynced = False
        directories, self._unsynced_directories = self._unsynced_directories, []
        return SyncTicket(segments, slots, directories, end, self._generation)

    def _pinned(self, segments: list[Segment]) -> list[OpenFile]:
        """Their files, which stay open until they are unpinned; none where one can't be opened."""
        slots: list[OpenFile] = []
        try:
            for segment in segments:
                slot = segment.slot()
                self._volume.files.pin(slot)
                slots.append(slot)
        except OSError:
            for slot in slots:
                self._volume.files.unpin(slot)
            raise
        return slots

    def finish_sync(self, ticket: SyncTicket, error: OSError | None = None) -> bool:
        """The sync has ended; whether the log is now durable further than before."""
        for slot in ticket.slots:
            self._volume.files.unpin(slot)
        if error is not None:
            self.fail(f"a sync failed: {error}")
        if self.fault is not None or ticket.generation != self._generation:
            return False
        if ticket.end <= self.durable_end:
            return False
        self.durable_end = ticket.end
        return True

    def take_back_sync(self, ticket: SyncTicket) -> None:
        """The sync could not be tried: the next one has all of it to do."""
        for slot in ticket.slots:
            self._volume.files.unpin(slot)
        self._unsynced_directories += ticket.directories
        if ticket.generation != self._generation:
            return  # what is left of the files was synced when they were cut
        kept = self.body().segments  # retention may have dropped some since
        again = [one for one in ticket.segments if one in kept and not one.unsynced]
        for segment in again:
            segment.unsynced = True
        self._unsynced = again + self._unsynced

    def sync(self, synced: set[str] | None = None) -> None:
        """Sync now, in this thread; raises StorageError and leaves the log FAULTY on failure.

        Folders in `synced` need no sync any more: who syncs many logs passes one set to all.
        """
        try:
            ticket = self.begin_sync()
        except OSError as caught:
            if caught.errno not in NO_DESCRIPTOR:
                self.fail(f"a sync could not begin: {caught}")
            raise StorageError(f"{self} could not be synced", cause=str(caught)) from caught
        error: OSError | None = None
        try:
            ticket.run(self._volume.disk, set() if synced is None else synced)
        except OSError as caught:
            error = caught
        self.finish_sync(ticket, error)
        if error is not None:
            raise StorageError(f"{self} could not be synced", cause=str(error)) from error


def _is_as_left(body: LogBody, state: CleanState) -> bool:
    """Whether the folder holds what the clean marker says."""
    active = body.active
    found = (-1, 0) if active is None else (active.base_offset, active.size)
    expected = (state.active_base, state.active_size)
    return found == expected and body.size_bytes == state.size_bytes
