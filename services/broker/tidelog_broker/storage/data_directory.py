"""A broker's data directory: one process, one identity, one journal, many logs.

The broker opens it at the start, asks it for each partition's log, and closes it last. It decides
what may be believed after a stop: everything after a clean one, the journal after any other.
Order is what keeps that true: the clean marker goes before anything is touched, and comes back
after everything else is durable.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidelog.errors import StorageError, UnsupportedVersion
from tidelog.model import PartitionId, TopicId
from tidelog_broker.storage import checkpoints, deletions, identity, names
from tidelog_broker.storage.config import FlushPolicy, LogConfig, StorageConfig
from tidelog_broker.storage.evidence import Evidence
from tidelog_broker.storage.frames import DamagedFile
from tidelog_broker.storage.journal import DELETE, ENDS, STARTS, Journal, JournalMark, key_of
from tidelog_broker.storage.log import Log
from tidelog_broker.storage.log_state import CleanState
from tidelog_broker.storage.sweep import Sweep
from tidelog_broker.storage.volume import PurgeStep, Volume
from tidelog_runtime.disk import Disk, relieved

logger = logging.getLogger(__name__)

_GONE: Final = "it was removed, or another was put in its place"


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """One more log was recovered after an unclean stop."""

    partition_id: PartitionId
    logs_recovered: int
    logs_found: int
    bytes_scanned: int
    damaged_offsets: int


ReportProgress = Callable[[RecoveryProgress], None]


class DataDirectory:
    """An open data directory. Not thread-safe: everything but a sync runs on one thread."""

    def __init__(self, disk: Disk, config: StorageConfig) -> None:
        """Use `open`."""
        self._disk = disk
        self._lock = disk.acquire_lock(names.LOCK)
        self._logs: dict[PartitionId, Log] = {}
        self._clean_states: dict[PartitionId, CleanState] = {}
        self._watermarks: dict[PartitionId, tuple[int, int]] = {}
        self._topic_names: dict[TopicId, str] = {}
        self._journal_marks: list[JournalMark] = []
        self._progress: ReportProgress | None = None
        self._logs_found = 0
        self._logs_recovered = 0
        #: Logs that no marker vouches for and nobody has opened since: nothing is proved of them.
        self._unproved: set[PartitionId] = set()
        #: Partitions whose folders an attempt may have made whose names it did not sync.
        self._half_made: set[PartitionId] = set()
        self.config = config
        self.storage_uuid = b""
        #: Whether the last process to use the directory stopped cleanly, and left no log unproved.
        self.was_clean = False

    @classmethod
    def open(
        cls,
        disk: Disk,
        config: StorageConfig,
        *,
        new_storage_uuid: bytes,
        now_ms: int,
        progress: ReportProgress | None = None,
    ) -> DataDirectory:
        """Lock and open a data directory, or make a new one with this uuid.

        Raises AlreadyLocked, UnsupportedVersion for a newer format, StorageError. Logs are
        recovered one by one, by `open_partition`; `progress` hears of each.
        """
        directory = cls(disk, config)
        try:
            directory._open(new_storage_uuid, now_ms)
        except BaseException:
            directory._lock.release()
            raise
        directory._progress = progress
        directory._logs_found = len(directory.stored_partitions())
        return directory

    def _open(self, new_storage_uuid: bytes, now_ms: int) -> None:
        disk = self._disk
        self.storage_uuid = identity.read_or_make(disk, new_storage_uuid)
        self._take_clean_marker()
        disk.make_directory(names.TOPICS)
        self._read_watermarks()
        self._journal = Journal(
            disk, self.config.flush_policy, self.config.journal_bytes, self._journal_marks
        )
        self.volume = Volume(disk, self.config, self._journal)
        self._evidence = Evidence(self._journal, self._clean_states, self._watermarks)
        self._remove_leftovers(now_ms)
        deleted = self._evidence.deleted()
        stored = [key for key in self.stored_partitions() if key not in deleted]
        self._evidence.say_what_is_lost(stored)
        self._sweep = Sweep(disk, self.volume.trash, map(names.partition_folder, stored))
        self._unproved = self._evidence.without_proof(stored)
        self.was_clean = self.was_clean and not self._unproved
        if not self.was_clean:
            # What recovery builds on must not vanish with a name that was never synced.
            for topic_id in sorted({partition_id.topic_id for partition_id in stored}):
                disk.sync_directory(names.topic_folder(topic_id))
        known = self._evidence.known(stored)
        vouched = self._evidence.vouched()
        is_proved = not self._unproved
        relieved(disk, partial(self._journal.begin, known, vouched, is_proved=is_proved))
        self._journal.sync()
        deletions.finish(disk, self.volume.trash, deleted, self._journal.state.ends, now_ms)
        self.volume.space.check(now_ms)

    def _count_as_proved(self, partition_id: PartitionId) -> None:
        self._unproved.discard(partition_id)
        if not self._unproved:
            self._journal.is_proved = True

    def _take_clean_marker(self) -> None:
        """Read the marker and delete it, durably, before anything else changes."""
        disk = self._disk
        if not disk.exists(names.CLEAN_MARKER):
            return
        content = disk.read_bytes(names.CLEAN_MARKER)
        disk.remove(names.CLEAN_MARKER)
        disk.sync_directory("")
        try:
            mark, self._clean_states = checkpoints.decode_clean_marker(content, names.CLEAN_MARKER)
            self._journal_marks.append(mark)
            self.was_clean = True
        except (DamagedFile, UnsupportedVersion) as error:
            logger.warning("the marker of the clean stop is lost; logs are recovered: %s", error)
            self.was_clean = False

    def _read_watermarks(self) -> None:
        """Where they can't be read, the logs are believed."""
        disk = self._disk
        if not disk.exists(names.WATERMARKS):
            return
        try:
            content = disk.read_bytes(names.WATERMARKS)
            mark, self._watermarks = checkpoints.decode_watermarks(content, names.WATERMARKS)
            self._journal_marks.append(mark)
        except (DamagedFile, UnsupportedVersion) as error:
            logger.warning("the watermarks are lost; the logs are believed: %s", error)
            disk.remove(names.WATERMARKS)

    def _remove_leftovers(self, now_ms: int) -> None:
        """Finish what a crash interrupted: replacements, and removals."""
        trash = self.volume.trash
        disk = self._disk
        for name in disk.list_directory(""):
            if name.endswith(names.TEMPORARY):
                disk.remove(name)
        for topic in disk.list_directory(names.TOPICS):
            folder = f"{names.TOPICS}/{topic}"
            if topic.endswith(names.DELETED):
                trash.add(folder, now_ms, is_folder=True)
                continue
            if names.topic_id_of(topic) is None:
                continue
            for name in disk.list_directory(folder):
                if name.endswith(names.DELETED):
                    trash.add(f"{folder}/{name}", now_ms, is_folder=True)
                elif name.endswith(names.TEMPORARY):
                    disk.remove(f"{folder}/{name}")
        disk.sync_directory(names.TOPICS)

    # --- what is there -------------------------------------------------------------------------

    @property
    def durable_evidence_intact(self) -> bool:
        """Whether all that was known to be durable has been found, in the logs opened so far.

        After an unclean stop this needs a whole journal that was kept under `flush.policy=commit`:
        only then does an intact log prove that no acknowledged record is missing.
        """
        if not all(log.evidence_intact for log in self._logs.values()):
            return False
        if self.was_clean:
            return True
        journal = self._journal
        is_whole = journal.intact and not journal.state.has_lost_lines
        return is_whole and journal.previous_policy is FlushPolicy.COMMIT

    def logs(self) -> list[Log]:
        """The logs that are open."""
        return list(self._logs.values())

    def holds(self, log: Log) -> bool:
        """Whether this very log is open here: another may have come in its partition's place."""
        return self._logs.get(log.partition_id) is log

    def stored_partitions(self) -> list[PartitionId]:
        """The partitions that have a folder here, in order."""
        found = []
        for topic in self._disk.list_directory(names.TOPICS):
            topic_id = names.topic_id_of(topic)
            if topic_id is not None:
                found += self._partitions_in(f"{names.TOPICS}/{topic}", topic_id)
        return sorted(found)

    def _partitions_in(self, folder: str, topic_id: TopicId) -> list[PartitionId]:
        if not self._disk.exists(folder):
            return []
        numbers = map(names.partition_of, self._disk.list_directory(folder))
        return [PartitionId(topic_id, number) for number in numbers if number is not None]

    def topic_name(self, topic_id: TopicId) -> str | None:
        """The name a topic had when its first partition came to this disk."""
        known = self._topic_names.get(topic_id)
        if known is not None:
            return known
        path = f"{names.topic_folder(topic_id)}/{names.TOPIC_NAME}"
        if not self._disk.exists(path):
            return None
        name = self._disk.read_bytes(path).decode("utf-8", "replace")
        self._topic_names[topic_id] = name
        return name

    # --- partitions ----------------------------------------------------------------------------

    def open_partition(
        self, partition_id: PartitionId, topic_name: str, config: LogConfig, *, now_ms: int
    ) -> Log:
        """The partition's log: trusted after a clean stop, recovered after another, or new."""
        log = self._logs.get(partition_id)
        if log is not None:
            log.config = config
            return log
        log = Log(self.volume, partition_id, topic_name, config)
        state = self._journal.state
        log_start, log.high_watermark = self._evidence.marks(partition_id)
        clean_state = self._evidence.of_clean_stop(partition_id)
        self._clean_states.pop(partition_id, None)
        try:
            self._write_topic_name(partition_id.topic_id, topic_name)
            if partition_id in self._half_made:
                self._disk.sync_directory(names.topic_folder(partition_id.topic_id))
                self._disk.sync_directory(names.TOPICS)
            if clean_state is not None:
                log.trust(clean_state, log_start, now_ms)
            elif self._is_known(partition_id):
                self._recover(log, now_ms)
            else:
                was_deleted = partition_id in state.deleted
                log.begin_empty(log_start)
                if was_deleted:
                    # Without this a crash would delete the new partition for the old one.
                    self.volume.sync_journal()
                    self._journal.tell_synced()
        except OSError as error:
            self._half_made.add(partition_id)
            raise StorageError(f"{log} could not be opened", cause=str(error)) from error
        self._half_made.discard(partition_id)
        self._logs[partition_id] = log
        self._count_as_proved(partition_id)
        return log

    def _is_known(self, partition_id: PartitionId) -> bool:
        if self._journal.state.ends.get(partition_id, 0) != 0:
            return True
        return self._disk.exists(names.partition_folder(partition_id))

    def _write_topic_name(self, topic_id: TopicId, topic_name: str) -> None:
        if self.topic_name(topic_id) is None:
            folder = names.topic_folder(topic_id)
            self._disk.make_directory(folder)
            self._disk.replace(f"{folder}/{names.TOPIC_NAME}", topic_name.encode())
            self._topic_names[topic_id] = topic_name

    def _recover(self, log: Log, now_ms: int) -> None:
        partition_id = log.partition_id
        expected = self._evidence.expectation(partition_id)
        scanned = log.recover(expected, now_ms)
        self._logs_recovered += 1
        if self._progress is not None:
            damaged = sum(bad.end_offset - bad.start_offset for bad in log.damaged_ranges)
            self._progress(
                RecoveryProgress(
                    partition_id, self._logs_recovered, self._logs_found, scanned, damaged
                )
            )

    def delete_partition(self, partition_id: PartitionId, *, now_ms: int) -> None:
        """Delete a partition, durably when this returns; its space follows after the delay."""
        self._delete([partition_id], names.partition_folder(partition_id), now_ms)

    def delete_topic(self, topic_id: TopicId, *, now_ms: int) -> None:
        """Delete every partition of a topic that is on this disk."""
        folder = names.topic_folder(topic_id)
        try:
            stored = self._partitions_in(folder, topic_id)
        except OSError as error:
            raise StorageError(f"{folder} could not be deleted", cause=str(error)) from error
        opened = (key for key in self._logs if key.topic_id == topic_id)
        self._delete(sorted({*stored, *opened}), folder, now_ms)
        self._topic_names.pop(topic_id, None)

    def _delete(self, partitions: list[PartitionId], folder: str, now_ms: int) -> None:
        delay_ms = 0
        try:
            entries = [(key, key_of(key), 0) for key in partitions]
            self.volume.announce(DELETE, entries)
            for partition_id in partitions:
                self._clean_states.pop(partition_id, None)
                self._watermarks.pop(partition_id, None)
                log = self._logs.pop(partition_id, None)
                if log is not None:
                    delay_ms = log.config.file_delete_delay_ms
                    log.discard()
                self._count_as_proved(partition_id)
            if self._disk.exists(folder):
                retired = deletions.retire(self._disk, folder)
                self._disk.sync_directory(folder.rpartition("/")[0])
                self.volume.trash.add(retired, now_ms + delay_ms, is_folder=True)
        except OSError as error:
            raise StorageError(f"{folder} could not be deleted", cause=str(error)) from error

    def purge_steps(self, now_ms: int) -> Iterator[PurgeStep]:
        """Give back the space of what was deleted long enough ago, or of all when it is needed.

        Then that of files which the last process had retired. A step may run in a thread, and has
        to end before the next one is asked for.
        """
        yield from self.volume.trash.steps(None if self.volume.space.full else now_ms)
        yield from self._sweep.steps(now_ms)

    # --- upkeep --------------------------------------------------------------------------------

    def check_place(self) -> None:
        """Raises StorageError once the directory isn't there any more: a removal, an unmount.

        Open files would take appends and syncs as before, and nobody would ever see them again.
        """
        if not self._lock.is_in_place():
            self.volume.space.fail(_GONE)
            raise StorageError(f"The data directory can't be used any more: {_GONE}")

    def can_append(self, now_ms: int) -> bool:
        """Look at the free space: whether appends are accepted from now on."""
        return self.volume.space.check(now_ms)

    def run_retention(self, now_ms: int, logs: Sequence[Log] | None = None) -> int:
        """Drop whole segments by age and size; how many logs got shorter.

        Of all logs, or of these. One that can't be read keeps none of the others: StorageError
        tells of it when they are done.
        """
        due: list[tuple[Log, int]] = []
        failures: list[str] = []
        for log in list(self._logs.values()) if logs is None else logs:
            if log.fault is not None or not self.holds(log):
                continue
            try:
                start = log.retention_point(now_ms)
            except (OSError, StorageError) as error:
                failures.append(f"{log}: {error}")
                continue
            if start is not None:
                due.append((log, start))
        self._drop(due, now_ms, failures)
        if failures:
            raise StorageError("Retention could not run everywhere", cause="; ".join(failures[:3]))
        return len(due)

    def announce_starts(self, starts: Iterable[tuple[Log, int]]) -> None:
        """Journal that these logs are about to start there, by one sync; raises StorageError."""
        entries = [(log.partition_id, log.journal_key, start) for log, start in starts]
        if not entries:
            return
        try:
            self.volume.announce(STARTS, entries)
        except OSError as error:
            raise StorageError("The journal could not be written", cause=str(error)) from error

    def _drop(self, due: list[tuple[Log, int]], now_ms: int, failures: list[str]) -> None:
        """Move the starts of these logs."""
        try:
            self.announce_starts(due)
        except StorageError as error:
            failures.append(f"the journal: {error.cause or error}")
            return
        for log, start in due:
            try:
                log.apply_log_start(start, now_ms)
            except (OSError, StorageError) as error:
                failures.append(f"{log}: {error}")

    def watermarks_content(self) -> bytes:
        """The watermarks file as of now, for whoever writes it in a thread."""
        marks = dict(self._watermarks)
        for log in self._logs.values():
            marks[log.partition_id] = (log.high_watermark, log.log_start)
        self._watermarks = marks
        lines = ((key, *mark) for key, mark in marks.items())
        return checkpoints.encode_watermarks(self._journal.mark, lines)

    def journal_ends(self) -> None:
        """Write how far each log is durable to the journal, which is synced with the next commit.

        Group commit does this by itself for the logs it syncs.
        """
        known = self._journal.state.ends
        self._journal.write(
            ENDS,
            [
                (log.partition_id, log.journal_key, log.durable_end)
                for log in self._logs.values()
                if log.fault is None and known.get(log.partition_id) != log.durable_end
            ],
        )

    def checkpoint(self) -> None:
        """Write high watermarks and log starts, durably."""
        self._disk.replace(names.WATERMARKS, self.watermarks_content())

    def close(self) -> None:
        """Sync and close everything; the clean marker comes last, the lock goes after it."""
        try:
            if not self._lock.is_in_place():
                raise FileNotFoundError(errno.ENOENT, _GONE)
            self._close_logs()
        except OSError as error:
            raise StorageError(
                "The data directory could not be closed cleanly; the next start recovers it",
                cause=str(error),
            ) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of everything without saving anything: the next start recovers, as from a kill."""
        self.volume.files.close_all()
        self._journal.close()
        self._lock.release()

    def _close_logs(self) -> None:
        states = dict(self._clean_states)
        synced: set[str] = set()
        for log in self._logs.values():
            if log.fault is None and log.has_unsynced:
                # A log that fails is faulty now and will be recovered; the others close cleanly.
                with contextlib.suppress(StorageError):
                    log.sync(synced)
            state = log.close()
            if state is not None:
                states[log.partition_id] = state
        if self.volume.space.fault is None:
            relieved(self._disk, self.journal_ends)
            self._journal.sync()
            self.checkpoint()
            marker = checkpoints.encode_clean_marker(self._journal.mark, states.items())
            self._disk.replace(names.CLEAN_MARKER, marker)
