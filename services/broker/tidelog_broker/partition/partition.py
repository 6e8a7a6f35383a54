"""One partition on this broker: its log, its decisions, and who waits on it.

`api/` calls `append` and `read`; the group commit calls `on_durable` when bytes have reached the
disk. Everything runs on the event loop and nothing here awaits, so an append is one step: checked,
stamped and written before anybody else sees the partition. Nothing is done per record.
"""

from __future__ import annotations

import logging
from typing import NoReturn, Protocol

from tidelog.errors import (
    InvalidTimestamp,
    InvalidTransactionState,
    MessageTooLarge,
    NotEnoughReplicasAfterAppend,
    OffsetOutOfRange,
    StorageError,
    TidelogError,
    UnknownTopicId,
)
from tidelog.model import NO_TIMESTAMP, Offset, TopicId
from tidelog.records.batch import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_batch,
    offset_after,
    with_log_append_time,
)
from tidelog_broker.partition.core import PartitionCore
from tidelog_broker.partition.waiting import CommitQueue, PendingProduce
from tidelog_broker.storage.leader_epochs import UNKNOWN
from tidelog_broker.storage.log import Log
from tidelog_broker.storage.producer_state import Duplicate
from tidelog_runtime.disk import Buffer

logger = logging.getLogger(__name__)


class Reader(Protocol):
    """Somebody who has read up to the high watermark and wants to know when it moves."""

    def on_commit(self) -> None:
        """Called once, from the event loop, when there is more to read, or the partition failed."""


class DirtyLogs(Protocol):
    """Where a log that was appended to is announced: the group commit."""

    def mark_dirty(self, log: Log) -> None:
        """The log has bytes that no sync has covered."""


class PartitionLimits:
    """What the topic's configs allow in a batch."""

    __slots__ = ("log_append_time", "max_message_bytes", "timestamp_after_max_ms")

    def __init__(
        self,
        max_message_bytes: int,
        *,
        log_append_time: bool = False,
        timestamp_after_max_ms: int = 2**63 - 1,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.log_append_time = log_append_time
        self.timestamp_after_max_ms = timestamp_after_max_ms


class PartitionCounters:
    """Plain integers, added up on the hot path and read when metrics are scraped."""

    __slots__ = ("bytes_in", "bytes_out", "duplicates", "records_in")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.duplicates = 0


class Done:
    """Where a batch stands in the log, now or since it was sent before."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate", "end_offset")

    def __init__(
        self, base_offset: int, end_offset: int, append_time_ms: int, duplicate: bool
    ) -> None:
        self.base_offset = base_offset
        #: Behind its last record: once that much is committed, all of it is.
        self.end_offset = end_offset
        self.append_time_ms = append_time_ms
        self.duplicate = duplicate


class Partition:
    """A replica of one partition, as its broker serves it."""

    __slots__ = (
        "_commits",
        "_dirty_logs",
        "_readers",
        "core",
        "counters",
        "deleted",
        "internal",
        "limits",
        "log",
        "number",
        "topic",
        "topic_id",
    )

    def __init__(
        self, log: Log, core: PartitionCore, limits: PartitionLimits, dirty_logs: DirtyLogs
    ) -> None:
        self.log = log
        self.core = core
        self.limits = limits
        self.topic: str = log.topic
        self.topic_id: TopicId = log.partition_id.topic_id
        self.number: int = log.partition_id.partition
        self.internal = self.topic.startswith("__")
        self.counters = PartitionCounters()
        self.deleted = False
        #: None while nobody waits: an append then looks at nothing more.
        self._commits: CommitQueue | None = None
        self._readers: dict[Reader, None] | None = None
        self._dirty_logs = dirty_logs

    # ------------------------------------------------------------------ producing

    def append(
        self, batch: Buffer, known_epoch: int | None, *, all_in_sync: bool, now_ms: int
    ) -> Done:
        """Writes one batch, or finds that it was written before; raises when it is refused.

        The words for refusals stand in functions of their own: what every batch passes here is
        comparisons, since a request may hold a thousand batches.
        """
        core, limits, log = self.core, self.limits, self.log
        if not core.leads or (known_epoch is not None and known_epoch != core.leader_epoch):
            core.check_leader(known_epoch)
        header = check_batch(batch, exact=True, from_producer=True)
        size = header.size
        if size > limits.max_message_bytes or header.attributes & TRANSACTIONAL_BIT:
            self._refuse_batch(header)
        stamps = limits.log_append_time
        # An `int`: the limit may be any number, the header's have 64 bits where this is compiled.
        ahead_ms: int = header.max_timestamp - now_ms
        if not stamps and ahead_ms > limits.timestamp_after_max_ms:
            self._refuse_timestamp(ahead_ms)
        if all_in_sync and not core.alone:
            core.check_enough_in_sync()
        if header.producer_id >= 0:
            known = log.check_producer(header)
            if isinstance(known, Duplicate):
                self.counters.duplicates += 1
                append_time_ms = known.append_timestamp if stamps else NO_TIMESTAMP
                return Done(known.base_offset, known.last_offset + 1, append_time_ms, True)
        new_header = with_log_append_time(batch, header, now_ms) if stamps else None
        try:
            base_offset = log.append(
                batch, header, leader_epoch=core.leader_epoch, now_ms=now_ms, new_header=new_header
            )
        except StorageError as error:
            if log.fault is not None:
                logger.error("an append failed: %s takes no more writes", log, exc_info=error)
                self.fail_for_disk(str(error.cause or error), "written")
            raise
        end_offset = log.log_end
        counters = self.counters
        counters.records_in += header.record_count
        counters.bytes_in += size
        if log.wants_sync:
            self._dirty_logs.mark_dirty(log)
        if log.is_acknowledged_unsynced:
            self.on_durable(Offset(end_offset))
        return Done(base_offset, end_offset, now_ms if stamps else NO_TIMESTAMP, False)

    def _refuse_batch(self, header: BatchHeader) -> NoReturn:
        limits = self.limits
        if header.size > limits.max_message_bytes:
            raise MessageTooLarge(
                f"A batch of {header.size} bytes for {self.core.name} is larger than"
                f" max.message.bytes={limits.max_message_bytes}",
                hint="Send smaller batches, or raise max.message.bytes of the topic",
            )
        raise InvalidTransactionState(
            f"A transactional batch for {self.core.name} was refused: this cluster has no"
            " transactions yet",
            hint="Use an idempotent producer without a transactional id",
        )

    def _refuse_timestamp(self, ahead_ms: int) -> NoReturn:
        raise InvalidTimestamp(
            f"A record for {self.core.name} is stamped {ahead_ms} ms"
            f" ahead of the broker's clock; message.timestamp.after.max.ms allows"
            f" {self.limits.timestamp_after_max_ms}"
        )

    def wait_for_commit(self, end: Offset, pending: PendingProduce, index: int) -> None:
        """Parks a produce until everything below `end`, above the watermark, is committed."""
        if self._commits is None:
            self._commits = CommitQueue()
        self._commits.wait(end, pending, index)

    def on_durable(self, end: Offset) -> None:
        """The log is durable below `end` on this broker: release who waited for that."""
        core = self.core
        if core.record_durable(core.broker_id, end):
            self.log.high_watermark = core.high_watermark
            # Readers first: the record is under way to them before its producer is answered.
            self._wake_readers()
            if self._commits is not None:
                self._commits.release(core.high_watermark)

    @property
    def has_readers(self) -> bool:
        """Whether somebody waits at the high watermark."""
        return self._readers is not None

    # ------------------------------------------------------------------ reading

    def check_readable(self, offset: int, known_epoch: int | None) -> None:
        """Refuses a position outside the log, or a reader who knows another leader."""
        if self.deleted:
            raise UnknownTopicId(f"Topic {self.topic!r} was deleted")
        self.core.check_leader(known_epoch)
        log = self.log
        if log.log_start <= offset <= log.log_end:
            return
        raise OffsetOutOfRange(
            f"Offset {offset} of {self.core.name} is out of range: the log holds"
            f" {log.log_start} to {log.log_end}",
            hint="Start at the earliest or the latest offset, as auto.offset.reset would",
        )

    def read(
        self,
        offset: int,
        max_bytes: int,
        known_epoch: int | None,
        *,
        until: int | None = None,
        at_least_one: bool = True,
    ) -> tuple[bytes, int]:
        """Whole batches from the one that holds `offset` on, and the offset after them.

        All lie below the high watermark. Empty when there is nothing to read yet; also between
        the watermark of a new leader and the end of its log, where a reader waits and is never
        reset. Without `at_least_one` also when the first batch is larger than `max_bytes`. The
        last batch is the one that holds the offset before `until`.
        """
        self.check_readable(offset, known_epoch)
        high_watermark = self.core.high_watermark
        if offset >= high_watermark:
            return b"", offset
        records = self.log.read(
            offset, max_bytes, end=high_watermark, until=until, at_least_one=at_least_one
        )
        return records, offset_after(records) if records else offset

    def measure(self, offset: int, *, until: int | None) -> tuple[int, bool]:
        """How many bytes `read` would find at most, and whether a later commit may add to them.

        What is cut by the end of a segment, by damage or by `until` does not grow.
        """
        return self.log.measure(offset, end=self.core.high_watermark, until=until)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above this one and where it ends; (-1, -1) where there is none."""
        found = self.log.end_offset_for_epoch(epoch)
        if found == UNKNOWN and epoch >= 0 and self.log.log_end > 0:
            # Every batch is deleted, and with it what told of its epoch. Nothing is left to part
            # from: whoever has read up to the end agrees with this log.
            return min(epoch, self.core.leader_epoch), self.log.log_end
        return found

    def divergence(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the reader's log and this one part: (epoch, its end); None if they agree."""
        epoch, end = self.end_of_epoch(last_fetched_epoch)
        if epoch == last_fetched_epoch and end >= offset:
            return None
        # Nothing in common: what there is to read begins with the log.
        return epoch, max(end, self.log.log_start)

    def call_on_commit(self, reader: Reader) -> None:
        """Calls `reader` once, when the high watermark moves next."""
        if self._readers is None:
            self._readers = {}
        self._readers[reader] = None

    def forget_reader(self, reader: Reader) -> None:
        """The reader no longer wants to be called."""
        readers = self._readers
        if readers is not None:
            readers.pop(reader, None)
            self._readers = readers or None

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, None
        for reader in readers or ():
            reader.on_commit()

    # ------------------------------------------------------------------ ending

    def fail(self, failure: TidelogError) -> None:
        """Gives up leading; what waits learns that its outcome is unknown, readers look again."""
        self.core.resign()
        if self._commits is not None:
            self._commits.fail_all(failure)
        self._wake_readers()

    def fail_for_disk(self, cause: str, being: str) -> None:
        """The log takes no more writes since the disk failed while it was synced, or written."""
        # What was written may well be read after a restart: nobody may call it refused.
        self.fail(
            NotEnoughReplicasAfterAppend(
                f"The disk of broker {self.core.broker_id} failed while {self.log} was {being}:"
                " the batch may be kept or not",
                cause=cause,
            )
        )

    def delete(self) -> None:
        """The topic is gone: nothing is served from here any more."""
        self.deleted = True
        self.fail(UnknownTopicId(f"Topic {self.topic!r} was deleted while the batch was written"))
