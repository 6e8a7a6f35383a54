"""All decisions of a producer between sealing a batch and its verdict, over all partitions.

Pure: the pipeline tells it the time, the leaders and the answers; it says which batches go into
the next request to a broker, what has to be asked (an identity, metadata) and which verdicts are
due. `partition_queue` has the rules of one partition; here is what partitions share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidelog.errors import InvalidProducerEpoch, TidelogError
from tidelog.producer.partition_queue import (
    Identity,
    PartitionKey,
    PartitionQueue,
    QueuedBatch,
    Verdict,
)

#: What a request holds at most, beside a first batch that is larger.
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
#: Below this a request takes several batches of a partition.
SMALL_REQUEST_BYTES: Final = 64 * 1024
FOREVER: Final = float("inf")


class ProducerCore:
    """See the module."""

    def __init__(self, *, is_idempotent: bool, window: int) -> None:
        self.is_idempotent = is_idempotent
        self.window = window if is_idempotent else 1
        self.identity: Identity | None = None
        #: Set when a newer session of this producer exists: nothing can be sent any more.
        self.fenced: TidelogError | None = None
        self.stale_topics: set[str] = set()
        self._queues: dict[PartitionKey, PartitionQueue] = {}
        #: Queues that hold batches, those that were served longest ago first.
        self._active: dict[PartitionQueue, None] = {}
        self._verdicts: list[Verdict] = []
        #: Nothing expires and nothing is to be repeated before this time.
        self._quiet_until = FOREVER

    # ------------------------------------------------------------------ batches in

    def add(self, batch: QueuedBatch) -> None:
        """A sealed batch; batches of one partition in their order."""
        queue = self._queues.get(batch.key)
        if queue is None:
            queue = self._queues[batch.key] = PartitionQueue(
                batch.key,
                self._verdicts,
                is_idempotent=self.is_idempotent,
                window=self.window,
            )
            queue.dead = self.fenced
        queue.batches.append(batch)
        self._active[queue] = None
        self._quiet_until = min(self._quiet_until, batch.deadline)
        if queue.dead is not None:
            queue.end(queue.dead)

    def is_idle(self, key: PartitionKey) -> bool:
        """Whether nothing of the partition is on its way."""
        queue = self._queues.get(key)
        return queue is None or not queue.batches

    @property
    def active(self) -> Iterable[PartitionQueue]:
        """The queues that hold batches."""
        return self._active.keys()

    @property
    def has_waiting(self) -> bool:
        """Whether a batch is not under way."""
        return any(len(queue.batches) > queue.in_flight for queue in self._active)

    def unsettled(self) -> list[QueuedBatch]:
        """Every batch that has no verdict yet."""
        return [batch for queue in self._active for batch in queue.batches if not batch.is_given_up]

    # ------------------------------------------------------------------ requests out

    def collect(
        self, now: float, is_led_here: Callable[[PartitionQueue], bool]
    ) -> list[QueuedBatch]:
        """The batches of the next request to a broker, oldest turn first.

        One a partition, and while they are small what waits behind them too: a request costs the
        same whatever it holds.
        """
        found: list[QueuedBatch] = []
        size = 0
        for queue in list(self._active):
            if not is_led_here(queue):
                continue
            if found and size + queue.batches[-1].size > REQUEST_BYTES_MAX:
                break
            batch = queue.next_batch(now, self.identity)
            if batch is None:
                continue
            found.append(batch)
            size += batch.size
        for batch in found:
            queue = self._queues[batch.key]
            del self._active[queue]
            self._active[queue] = None
        return self._with_followers(found, size, now)

    def _with_followers(self, found: list[QueuedBatch], size: int, now: float) -> list[QueuedBatch]:
        """Adds what may go out behind these batches, as long as all is small."""
        together = found[:]
        for batch in found:
            queue = self._queues[batch.key]
            while size < SMALL_REQUEST_BYTES:
                follower = queue.next_batch(now, self.identity)
                if follower is None:
                    break
                together.append(follower)
                size += follower.size
        return together

    def needs_identity(self) -> bool:
        """Whether some batch waits for an id or for the next epoch."""
        return any(queue.needs_identity(self.identity) for queue in self._active)

    @property
    def wakes_at(self) -> float:
        """Before this time nothing expires and no retry is due; `pass_time` looks again then."""
        return self._quiet_until

    # ------------------------------------------------------------------ answers in

    def on_identity(self, identity: Identity) -> None:
        """The broker has given an id, or the next epoch of the one we hold."""
        self.identity = identity

    def on_acknowledged(self, batch: QueuedBatch, base_offset: int, append_time_ms: int) -> None:
        """The batch stands in the log."""
        queue = self._queues[batch.key]
        queue.acknowledge(batch, base_offset, append_time_ms)
        self._leave_if_empty(queue)

    def on_refused(self, batch: QueuedBatch, error: TidelogError, now: float) -> None:
        """The broker has answered with an error."""
        if error.refresh_metadata:
            self.stale_topics.add(batch.key.topic)
        queue = self._queues[batch.key]
        queue.refuse(batch, error, now)
        self._hear(queue)
        self._leave_if_empty(queue)
        if isinstance(error, InvalidProducerEpoch):
            self.end(error)

    def on_lost(self, batch: QueuedBatch, error: TidelogError, now: float) -> None:
        """The attempt will never be answered."""
        self.stale_topics.add(batch.key.topic)
        queue = self._queues[batch.key]
        queue.lose(batch, error, now)
        self._hear(queue)
        self._leave_if_empty(queue)

    def end(self, error: TidelogError) -> None:
        """The producer can't write any more: fenced, or not allowed to."""
        self.fenced = error
        for queue in self._queues.values():
            queue.end(error)

    def on_topic_gone(self, topic: str, topic_id: bytes, error: TidelogError) -> None:
        """The topic with this id exists no more: what waits for it is refused."""
        for key, queue in self._queues.items():
            if key.topic == topic and key.topic_id == topic_id:
                queue.end(error)

    # ------------------------------------------------------------------ verdicts out

    def pass_time(self, now: float) -> None:
        """Gives verdicts to what has passed its deadline; to be called from `wakes_at` on."""
        if now < self._quiet_until:
            return
        self._quiet_until = FOREVER
        for queue in self._active:
            queue.expire(now)
            self._quiet_until = min(self._quiet_until, queue.next_deadline)
            if queue.retry_at > now:
                self._quiet_until = min(self._quiet_until, queue.retry_at)

    def _hear(self, queue: PartitionQueue) -> None:
        """Takes over when the queue wants to be looked at."""
        self._quiet_until = min(self._quiet_until, queue.next_deadline)
        if queue.is_rewinding:
            self._quiet_until = min(self._quiet_until, queue.retry_at)

    def abandon(self, error: TidelogError) -> None:
        """The client closes: all that has no verdict gets one."""
        for queue in self._queues.values():
            queue.abandon(error)

    def take_verdicts(self) -> list[Verdict]:
        """The verdicts since the last time, in order."""
        verdicts = self._verdicts[:]
        self._verdicts.clear()
        for verdict in verdicts:
            self._leave_if_empty(self._queues[verdict.batch.key])
        return verdicts

    def _leave_if_empty(self, queue: PartitionQueue) -> None:
        """Not only with a verdict: a batch that was given up in flight had its verdict before."""
        if not queue.batches:
            self._active.pop(queue, None)
