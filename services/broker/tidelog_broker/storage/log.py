"""One partition's log: appended by its leader or by replication, read by everybody.

The broker's partition calls `check_producer`, then `append`, then hands the log to the group
commit; an append costs one vectored write and no work per record. Offsets are what this class is
about, and their order is its invariant:

    log_start <= high_watermark <= log_end,   durable_end <= log_end

After an error that leaves the file in doubt the log is FAULTY (`fault` says why): it serves reads
and takes nothing more, and no sync of it is tried again.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.errors import (
    CorruptMessage,
    DiskFull,
    LogCorrupt,
    MessageTooLarge,
    OffsetOutOfRange,
    StorageError,
)
from tidelog.records.batch import BatchHeader, assigned_prefix, read_header
from tidelog_broker.storage import log_cutting, log_times
from tidelog_broker.storage.journal import CUT, ENDS, RESET, STARTS
from tidelog_broker.storage.log_body import LogBody
from tidelog_broker.storage.log_reader import LogReader
from tidelog_broker.storage.log_state import LogState
from tidelog_broker.storage.log_times import TimestampOffset
from tidelog_broker.storage.open_files import NO_DESCRIPTOR
from tidelog_broker.storage.producer_state import Duplicate, Fresh
from tidelog_broker.storage.segment import RELATIVE_OFFSET_MAX, SEGMENT_BYTES_MAX, Segment
from tidelog_runtime.disk import Buffer

#: So many bytes are copied in less time than two views of them are made and written as a vector.
_COPIED_BYTES_MAX: Final = 4 << 10

logger = logging.getLogger(__name__)


class Log(LogState):
    """The log of one partition in an open data directory; `DataDirectory` makes them."""

    __slots__ = ()

    # --- appending -----------------------------------------------------------------------------

    def append(
        self,
        batch: Buffer,
        header: BatchHeader,
        *,
        leader_epoch: int,
        now_ms: int,
        new_header: bytes | None = None,
    ) -> int:
        """Append a checked batch as leader: it gets the next offsets and this leader epoch.

        The offset of its first record; the log now ends behind its last one. `new_header` replaces
        the batch's first 61 bytes (log append time). Nothing was written when this raises:
        DiskFull, StorageError, MessageTooLarge.
        """
        size = header.size
        if size > self.config.max_message_bytes:
            raise MessageTooLarge(
                f"A batch of {size} bytes is above max.message.bytes of {self.topic} "
                f"({self.config.max_message_bytes})"
            )
        if len(batch) != size:
            raise CorruptMessage(f"{len(batch)} bytes are not the batch of {size} bytes")
        base_offset = self.log_end
        prefix = assigned_prefix(header, base_offset, leader_epoch)
        parts: tuple[Buffer, ...]
        if new_header is not None:
            parts = (prefix, memoryview(new_header)[16:], memoryview(batch)[61:])
            # Lookups and retention go by the time that readers are shown.
            header = read_header(new_header)
        elif size <= _COPIED_BYTES_MAX and isinstance(batch, bytes):
            parts = (prefix + batch[16:],)
        else:
            parts = (prefix, memoryview(batch)[16:])
        self._append(parts, header, base_offset, leader_epoch, now_ms)
        return base_offset

    def append_replicated(self, batch: Buffer, header: BatchHeader, *, now_ms: int) -> None:
        """Append a batch that a leader has placed: offsets and epoch stay as they are."""
        if header.base_offset != self.log_end:
            raise CorruptMessage(
                f"{self} ends at offset {self.log_end}; the leader sent a batch of offset "
                f"{header.base_offset}"
            )
        if len(batch) != 12 + header.batch_length:
            raise CorruptMessage(f"{len(batch)} bytes are not the batch of {header.size} bytes")
        self._append((batch,), header, header.base_offset, header.leader_epoch, now_ms)

    def _append(
        self,
        parts: tuple[Buffer, ...],
        header: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        if self.fault is not None or leader_epoch < self.latest_epoch:
            raise self._refusal_of(leader_epoch)
        if self._space.blocked:
            self._space.refuse(now_ms)
        size = 12 + header.batch_length
        body = self._body
        try:
            if body is None or body.producers is None:
                body = self._open_at(base_offset, leader_epoch, now_ms)
            active = body.active
            config = self.config
            if (
                active is None
                or active.size + size > config.segment_bytes
                or now_ms - active.first_append_ms >= config.segment_ms
                or base_offset + header.last_offset_delta - active.base_offset > RELATIVE_OFFSET_MAX
            ):
                active = self._room_for(size, header, now_ms)
            active.slot()
        except OSError as error:
            raise self._not_begun(error, now_ms) from error
        try:
            position = active.append(parts, size)
        except OSError as error:
            raise self._append_failed(error, now_ms) from error
        if position - active.indexed_position > active.interval_bytes:
            active.add_index_entry(base_offset, position)
        if header.max_timestamp > active.max_timestamp:  # noqa: PLR1730 - cheaper than a call
            active.max_timestamp = header.max_timestamp
        active.last_append_ms = now_ms
        if not active.unsynced:
            active.unsynced = True
            self._unsynced.append(active)
        if leader_epoch != self.latest_epoch:
            body.epochs.begin(leader_epoch, base_offset)
            self.latest_epoch = leader_epoch
        if header.base_sequence >= 0:
            assert body.producers is not None
            body.producers.record(header, base_offset, now_ms)
        self.size_bytes += size
        self.log_end = base_offset + header.last_offset_delta + 1
        self._bytes_until_snapshot -= size
        if self._bytes_until_snapshot < 0:
            self._write_caches_if_possible()

    def _write_caches_if_possible(self) -> None:
        """The batch stands in the log, whatever becomes of what can be made anew from it."""
        try:
            self.write_caches()
        except OSError as error:
            self.body().say_caches_failed(error)

    def _open_at(self, base_offset: int, leader_epoch: int, now_ms: int) -> LogBody:
        """The body, for a batch that was given its offset before anybody looked at the files."""
        body = self._open_for_append(now_ms)
        if base_offset != self.log_end:
            raise StorageError(
                f"{self} was found to end at {self.log_end}, not at {base_offset}, when it"
                " was opened; nothing was written",
                cause="Its files are not those that the last stop has left",
            )
        if leader_epoch < self.latest_epoch:
            raise self._refusal_of(leader_epoch)
        return body

    def _open_for_append(self, now_ms: int) -> LogBody:
        body = self.body(now_ms)
        if body.producers is None:
            try:
                body.load_producers(self.log_end, now_ms)
            except LogCorrupt as error:
                return self._recover_spoilt(error, now_ms)
        return body

    def _room_for(self, size: int, header: BatchHeader, now_ms: int) -> Segment:
        """The segment for this batch: the active one after all, or the next."""
        body = self.body(now_ms)
        active = body.active
        config = self.config
        segment_bytes = min(config.segment_bytes, SEGMENT_BYTES_MAX)
        if active is not None and not active.size:
            active.first_append_ms = now_ms
            return active
        if active is not None and active.first_append_ms < 0:
            active.first_append_ms = now_ms
        fits = (
            active is not None
            and active.size + size <= segment_bytes
            and self.log_end + header.last_offset_delta - active.base_offset <= RELATIVE_OFFSET_MAX
            and now_ms - active.first_append_ms < config.segment_ms
        )
        if active is not None and fits:
            return active
        active = self.roll()
        active.first_append_ms = now_ms
        return active

    def _not_begun(self, error: OSError, now_ms: int) -> StorageError | DiskFull:
        """Files could not be read, opened or begun, which leaves nothing in doubt."""
        if self._space.note(error, now_ms):
            return DiskFull(
                f"No space is left on the broker's disk for {self}; nothing was written",
                cause=str(error),
                hint="Free space, shorten retention or add a broker; writes resume by themselves",
            )
        return StorageError(f"{self} could not be opened; nothing was written", cause=str(error))

    def _append_failed(self, error: OSError, now_ms: int) -> StorageError | DiskFull:
        refusal = self._not_begun(error, now_ms)
        if isinstance(refusal, DiskFull):
            return refusal
        self.fail(f"an append failed: {error}")
        return StorageError(f"{self} could not be written", cause=str(error))

    def roll(self) -> Segment:
        """Begin a new segment, unless the active one is empty."""
        body = self._open_for_append(0)
        segment = body.roll(self.log_end, self.config)
        self._unsynced_directories.append(body.folder)
        return segment

    def check_producer(self, header: BatchHeader) -> Fresh | Duplicate:
        """Whether the batch is the next of its producer, or in the log already.

        Raises OutOfOrderSequence or InvalidProducerEpoch when it must not be appended.
        """
        body = self._body
        if body is None or body.producers is None:
            try:
                body = self._open_for_append(0)
            except OSError as error:
                raise self._unreadable(error) from error
            assert body.producers is not None
        return body.producers.check(header, self)

    # --- reading -------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        end: int,
        until: int | None = None,
        at_least_one: bool = True,
    ) -> bytes:
        """Whole batches from the one that holds `offset`, none at or above `end`.

        The batch that holds the offset before `until` is the last, or the next where that is gone.
        Raises OffsetOutOfRange, LogCorrupt for a damaged range, StorageError.
        """
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRange(
                f"Offset {offset} of {self} is not in its log, which holds offsets "
                f"{self.log_start} to {self.log_end - 1}"
            )
        end = min(end, self.log_end)
        if offset >= end:
            return b""
        try:
            reader = LogReader(self.body(), str(self), self.log_end)
            return reader.read(offset, max_bytes, end=end, until=until, at_least_one=at_least_one)
        except OSError as error:
            raise self._unreadable(error) from error
        except LogCorrupt as error:
            raise self._met(error) from None

    def measure(self, offset: int, *, end: int, until: int | None) -> tuple[int, bool]:
        """How many bytes `read` would find, and whether it finds more once `end` has moved."""
        if not self.log_start <= offset < end:
            return 0, True
        try:
            reader = LogReader(self.body(), str(self), self.log_end)
            return reader.measure(offset, end=end, until=until)
        except OSError as error:
            raise self._unreadable(error) from error
        except LogCorrupt as error:
            raise self._met(error) from None

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first batch with a record at or after `timestamp`; None when there is none.

        The broker does not look inside a batch: the record may lie some records behind the
        offset, which the reader finds out.
        """
        try:
            return log_times.first_at_or_after(self.body(), timestamp, self.log_start)
        except OSError as error:
            raise self._unreadable(error) from error
        except LogCorrupt as error:
            raise self._met(error) from None

    def max_timestamp(self, end: int) -> TimestampOffset | None:
        """The batch with the highest timestamp of those below `end`; None where there is none."""
        try:
            return log_times.latest(self.body(), self.log_start, end)
        except OSError as error:
            raise self._unreadable(error) from error
        except LogCorrupt as error:
            raise self._met(error) from None

    def _unreadable(self, error: OSError) -> StorageError:
        return StorageError(f"{self} could not be read", cause=str(error))

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one and where it ends; (-1, -1) where there is none."""
        try:
            return self.body().epochs.end_offset(epoch, self.log_end)
        except OSError as error:
            raise self._unreadable(error) from error

    # --- cutting -------------------------------------------------------------------------------

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Remove every batch that reaches `offset` or beyond; durable when this returns."""
        body = self.body(now_ms)
        if offset >= self.log_end:
            # Epochs that began without a batch end here even if nothing is cut.
            body.epochs.cut_end(offset)
            self.latest_epoch = body.epochs.latest
            return
        new_end = log_cutting.end_for(body, offset) if offset >= self.log_start else -1
        if new_end < max(self.log_start, body.segments[0].base_offset):
            self.reset_to(offset, now_ms=now_ms)
            return
        self._announce(CUT, new_end)
        try:
            durable_end = self.durable_end
            log_cutting.cut_end(body, new_end, self.config, durable_end=durable_end, now_ms=now_ms)
            self._sync_new_directories()
        except OSError as error:
            raise self._cut_failed(error) from error
        self._after_cut(body, new_end)

    def reset_to(self, offset: int, *, now_ms: int) -> None:
        """Empty the log and begin anew at `offset`, as a follower whose leader starts there."""
        body = self.body(now_ms)
        self._announce(RESET, offset)
        try:
            log_cutting.cut_everything(body, offset, self.config, now_ms)
            self._sync_new_directories()
        except OSError as error:
            raise self._cut_failed(error) from error
        self.log_start = offset
        self.high_watermark = offset
        self._after_cut(body, offset)

    def advance_log_start(self, offset: int, *, now_ms: int, is_announced: bool = False) -> None:
        """Records below `offset` are deleted; whole segments give their space back.

        Who moves many logs announces them together: `DataDirectory.announce_starts`.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"Records of {self} below {offset} cannot be deleted: only those below "
                f"{self.high_watermark} are committed"
            )
        if offset > self.log_start:
            if not is_announced:
                self._announce(STARTS, offset)
            try:
                self.apply_log_start(offset, now_ms)
            except OSError as error:
                if error.errno in NO_DESCRIPTOR and self._body is None:
                    raise StorageError(
                        f"{self} can't be read now: what lies below {offset} goes when it is asked"
                        " for again, or with the next start",
                        cause=str(error),
                    ) from error
                raise self._cut_failed(error) from error

    def _announce(self, kind: int, offset: int) -> None:
        """Journal what is about to happen to the log, durably."""
        if self.fault is not None:
            raise StorageError(f"{self} is faulty and is not changed: {self.fault}")
        entry = (self.partition_id, self.journal_key, offset)
        try:
            self._volume.announce(kind, [entry])
        except OSError as error:
            raise StorageError("The journal could not be written", cause=str(error)) from error

    def _cut_failed(self, error: OSError) -> StorageError:
        self._generation += 1
        self.fail(f"a cut failed: {error}")
        return StorageError(f"{self} could not be cut", cause=str(error))

    def _after_cut(self, body: LogBody, new_end: int) -> None:
        """The log ends here, durably; a sync that is under way has nothing to say about it."""
        self._generation += 1
        for segment in self._unsynced:
            segment.unsynced = False
        self._unsynced = []
        self.log_end = self.durable_end = new_end
        self.high_watermark = min(self.high_watermark, new_end)
        self.latest_epoch = body.epochs.latest
        self.size_bytes = body.size_bytes
        self.write_caches()
        entry = (self.partition_id, self.journal_key, new_end)
        self._volume.write_journal(ENDS, [entry])

    # --- retention -----------------------------------------------------------------------------

    def retention_point(self, now_ms: int) -> int | None:
        """Where the log should start by its retention settings; None when it may stay.

        Where it starts already when segments below that could not be dropped.
        """
        config = self.config
        if not self.size_bytes or (config.retention_ms < 0 and config.retention_bytes < 0):
            return self._start_of_leftovers()
        body = self.body(now_ms)
        start = self.log_start
        remaining = self.size_bytes
        for at, segment in enumerate(body.segments):
            end = body.end_offset_of(at, self.log_end)
            is_active = segment is body.active
            too_large = 0 <= config.retention_bytes <= remaining - segment.size
            if end > self.high_watermark or not segment.size:
                break
            if not self._is_expired(segment, now_ms) and (is_active or not too_large):
                break
            remaining -= segment.size
            start = end
        return start if start > self.log_start else self._start_of_leftovers()

    def _start_of_leftovers(self) -> int | None:
        body = self._body
        if body is None or len(body.segments) < 2:
            return None
        is_dropped = body.end_offset_of(0, self.log_end) <= self.log_start
        return self.log_start if is_dropped else None

    def _is_expired(self, segment: Segment, now_ms: int) -> bool:
        retention_ms = self.config.retention_ms
        if retention_ms < 0:
            return False
        segment.index()
        youngest = segment.last_append_ms if segment.last_append_ms >= 0 else now_ms
        if segment.max_timestamp >= 0:
            # A timestamp from the future must not keep a segment longer than its arrival does.
            youngest = min(youngest, segment.max_timestamp)
        return now_ms - youngest > retention_ms

    def apply_log_start(self, offset: int, now_ms: int) -> None:
        """The journal has the new log start: retire what lies wholly below it."""
        # First, since what follows may come to recover the log, which must not take this back.
        before, self.log_start = self.log_start, offset
        try:
            body = self.body(now_ms)
        except (OSError, LogCorrupt):
            # Nothing was dropped: whoever asks again has it done.
            self.log_start = before
            raise
        if body.active is not None and body.active.base_offset < offset == self.log_end:
            body = self._rolled_if_possible()
        due_ms = now_ms + self.config.file_delete_delay_ms
        self._unsynced_directories.append(body.folder)
        if not self._secures_producers(body, offset, now_ms):
            return  # retention comes back to it
        try:
            for size in log_cutting.drop_below(body, offset, log_end=self.log_end, due_ms=due_ms):
                self.size_bytes -= size
        finally:
            # What was dropped before it was synced needs no sync, and its file has gone.
            first = body.segments[0].base_offset if body.segments else self.log_end
            self._unsynced = [kept for kept in self._unsynced if kept.base_offset >= first]

    def _secures_producers(self, body: LogBody, offset: int, now_ms: int) -> bool:
        try:
            return log_cutting.secure_producers(body, offset, now_ms)
        except OSError as error:
            # The name of a segment that is to be acknowledged may be among those that are lost.
            self.fail(f"its folder could not be synced: {error}")
            raise

    def _rolled_if_possible(self) -> LogBody:
        """The active segment holds nothing any more, and its space comes free with a new one."""
        try:
            self.roll()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            logger.error("%s keeps a segment that it needs no more for now: %s", self, error)
        return self.body()  # another one where the log had to be recovered for that

    def expire_producers(self, elapsed_ms: int) -> int:
        """So much time has passed: forget producers that were silent for too long; how many."""
        if self._body is None or self._body.producers is None:
            return 0
        limit_ms = self._volume.config.producer_id_expiration_ms
        return self._body.producers.expire(elapsed_ms, limit_ms)
