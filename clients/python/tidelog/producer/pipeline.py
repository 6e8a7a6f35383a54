"""The shell of a producer: takes sealed batches to their leaders and verdicts back to the handles.

Both producers run one on an event loop: `AsyncProducer` on the caller's, `Producer` on a thread of
its own. All decisions are `core`'s; here are the timers, the streams and the questions to the
cluster. Invariant: whatever fails, every record that was handed over gets its verdict.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from tidelog.engine.large_messages import expect_large_messages
from tidelog.engine.wire_errors import error_of
from tidelog.errors import ClientClosed, OutcomeUnknown, RequestTimedOut, TidelogError
from tidelog.producer.cluster_questions import ClusterQuestions
from tidelog.producer.core import ProducerCore
from tidelog.producer.failures import Failures
from tidelog.producer.lane import BrokerLane
from tidelog.producer.partition_queue import PartitionKey, QueuedBatch, Verdict
from tidelog.producer.producer_settings import ACKS_ALL
from tidelog.records.compression import Compression
from tidelog.wire.envelopes import PRODUCE, Outgoing
from tidelog.wire.v1 import common_pb2, produce_pb2
from tidelog.wording import counted

if TYPE_CHECKING:
    from tidelog.engine.cluster import Cluster
    from tidelog.producer.accumulator import Accumulator, OpenBatch, PartitionSlot, TopicRoute
    from tidelog.producer.delivery import BatchDelivery
    from tidelog.producer.producer_settings import ProducerSettings

logger: Final = logging.getLogger("tidelog.producer")

#: Of the time limit of a request, what the broker may use to wait for replicas.
BROKER_SHARE: Final = 0.8
#: From this size on compressing a batch takes longer than a caller's loop may be held up.
COMPRESSED_ASIDE_BYTES: Final = 64 * 1024


class Pipeline:
    """See the module."""

    def __init__(
        self,
        settings: ProducerSettings,
        accumulator: Accumulator,
        cluster: Cluster,
        on_room: Callable[[], None],
        *,
        shares_loop: bool,
    ) -> None:
        self.settings = settings
        self.accumulator = accumulator
        self.cluster = cluster
        self.core = ProducerCore(
            is_idempotent=settings.is_idempotent, window=settings.max_in_flight
        )
        self.failures = Failures()
        self._on_room = on_room
        #: The loop is the caller's: nothing that takes long may run on it.
        self._compresses_aside = shares_loop and settings.compression is not Compression.NONE
        self._loop = asyncio.get_running_loop()
        self._questions = ClusterQuestions(
            cluster,
            self.core,
            accumulator,
            self.schedule,
            metadata_max_age_s=settings.metadata_max_age_ms / 1000,
        )
        self._lanes: dict[str, BrokerLane] = {}
        #: Partitions with an open batch, and when it has lingered long enough.
        self._lingering: dict[PartitionSlot, float] = {}
        self._is_scheduled = False
        self._is_hurried = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._acks = _acks_of(settings.acks)
        expect_large_messages()

    # ------------------------------------------------------------------ the pump

    def schedule(self) -> None:
        """Something happened: look at everything once this turn of the loop is over."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    def hurry(self) -> None:
        """Somebody waits for a verdict: what lingers goes out now."""
        self._is_hurried = True
        self.schedule()

    def _pump(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        now = self._loop.time()
        self._take(now)
        self._end_lingering(now)
        self.core.pass_time(now)
        self._settle()
        self._questions.ask_what_is_needed()
        self._wake_lanes()
        self._set_timer()

    def _take(self, now: float) -> None:
        """What the accumulator has sealed goes into the core."""
        sealed, fresh = self.accumulator.take()
        self._queue(sealed)
        due = now + self.settings.linger_ms / 1000
        for slot in fresh:
            self._lingering[slot] = due

    def _queue(self, sealed: list[OpenBatch]) -> None:
        for open_batch in sealed:
            self.core.add(self._queued(open_batch))

    def _queued(self, open_batch: OpenBatch) -> QueuedBatch:
        slot = open_batch.slot
        timeout_s = open_batch.timeout_s
        if timeout_s < 0:
            timeout_s = self.settings.delivery_timeout_ms / 1000
        return QueuedBatch(
            key=PartitionKey(slot.topic, slot.topic_id, slot.partition),
            content=open_batch,
            record_count=open_batch.delivery.count,
            size=open_batch.bytes_held(),
            deadline=open_batch.opened_at + timeout_s,
        )

    def _end_lingering(self, now: float) -> None:
        """Seals what has lingered long enough and has nothing of its partition before it."""
        hurried, self._is_hurried = self._is_hurried, False
        if not self._lingering:
            return
        ended = []
        for slot, lingers_until in list(self._lingering.items()):
            batch = slot.open
            if batch is None:
                del self._lingering[slot]
                continue
            due = now if hurried else lingers_until
            self._lingering[slot] = min(due, lingers_until)
            is_old = now >= batch.opened_at + self.settings.delivery_timeout_ms / 1000
            is_next = due <= now and self.core.is_idle(
                PartitionKey(slot.topic, slot.topic_id, slot.partition)
            )
            if is_next or is_old:
                ended.append(slot)
                del self._lingering[slot]
        if ended:
            self.accumulator.seal_open(ended)
            self._take(now)

    def _wake_lanes(self) -> None:
        for queue in self.core.active:
            if len(queue.batches) > queue.in_flight:
                address = self._questions.leader_of(queue.key)
                if address is not None:
                    self._lane(address).wake()

    def _lane(self, address: str) -> BrokerLane:
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = BrokerLane(
                address,
                self,
                self.cluster.connections,
                max_in_flight=self.settings.max_in_flight,
                request_timeout_s=self.settings.request_timeout_ms / 1000,
            )
        return lane

    def _set_timer(self) -> None:
        """The next time at which something is due although nothing happens."""
        at = self.core.wakes_at
        now = self._loop.time()
        for slot, lingers_until in self._lingering.items():
            if lingers_until > now:
                at = min(at, lingers_until)
            elif slot.open is not None:
                at = min(at, slot.open.opened_at + self.settings.delivery_timeout_ms / 1000)
        if at == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at != float("inf"):
            self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        self._pump()

    # ------------------------------------------------------------------ verdicts

    def _settle(self) -> None:
        verdicts = self.core.take_verdicts()
        if not verdicts:
            return
        freed = 0
        for verdict in verdicts:
            freed += verdict.batch.size
        self.accumulator.give_back(freed)
        try:
            for verdict in verdicts:
                self._tell(verdict)
        finally:
            if self.core.fenced is not None and self.accumulator.refusal is None:
                self.accumulator.refusal = self.core.fenced
            self._on_room()

    def _tell(self, verdict: Verdict) -> None:
        delivery = verdict.batch.content.delivery
        if verdict.error is not None:
            self.failures.add(delivery)
        delivery.settle(verdict.base_offset, verdict.append_time_ms, verdict.error)

    # ------------------------------------------------------------------ what lanes ask and say

    def collect(self, address: str) -> list[QueuedBatch]:
        """See `lane.Station`."""
        return self.core.collect(
            self._loop.time(), lambda queue: self._questions.leader_of(queue.key) == address
        )

    async def encode(self, batches: list[QueuedBatch]) -> list[QueuedBatch]:
        """See `lane.Station`; a batch that can't be encoded has its verdict at once."""
        encoded = []
        refused: list[tuple[QueuedBatch, TidelogError]] = []
        for batch in batches:
            try:
                if self._compresses_aside and batch.size >= COMPRESSED_ASIDE_BYTES:
                    await self._encode_aside(batch)
                else:
                    self._encode(batch)
            except TidelogError as failure:
                refused.append((batch, failure))
            else:
                encoded.append(batch)
        # Not before: of a lane that is cancelled meanwhile all of them are taken back.
        for batch, error in refused:
            self.core.on_refused(batch, error, self._loop.time())
        if refused:
            self._settle()
        return encoded

    async def _encode_aside(self, batch: QueuedBatch) -> None:
        encoding = self._loop.run_in_executor(None, self._encode, batch)
        try:
            await asyncio.wait([encoding])
        except asyncio.CancelledError:
            # Another lane will take the batch, and must not encode it at the same time.
            await asyncio.gather(encoding, return_exceptions=True)
            raise
        encoding.result()

    def _encode(self, batch: QueuedBatch) -> None:
        identity = batch.identity
        producer = (-1, -1, -1) if identity is None else (*identity, batch.sequence)
        batch.content.encode(self.settings.compression, self.settings.compression_level, producer)

    def request_of(self, batches: list[QueuedBatch]) -> Outgoing[produce_pb2.ProduceRequest]:
        """See `lane.Station`."""
        head = produce_pb2.ProduceRequest(
            acks=self._acks,
            timeout_ms=max(1, int(self.settings.request_timeout_ms * BROKER_SHARE)),
        )
        request = Outgoing(PRODUCE, head)
        for batch in batches:
            key, content = batch.key, batch.content
            item = produce_pb2.PartitionBatch(
                topic_id=key.topic_id,
                partition=key.partition,
                leader_epoch=self._questions.leader_epoch_of(key),
            )
            request.add(item, content.encoded, content.loose.size)
        return request

    def on_written(self, batches: list[QueuedBatch]) -> bool:
        """See `lane.Station`."""
        if self._acks != common_pb2.ACKS_NONE:
            return False
        for batch in batches:
            self.core.on_acknowledged(batch, -1, -1)
        self._settle()
        self.schedule()
        return True

    def on_answer(self, batches: list[QueuedBatch], answer: produce_pb2.ProduceResponse) -> bool:
        """See `lane.Station`."""
        now = self._loop.time()
        if answer.HasField("error"):
            error = error_of(answer.error)
            for batch in batches:
                self.core.on_refused(batch, error, now)
        else:
            for batch, ack in zip(batches, answer.partitions, strict=True):
                if ack.HasField("error"):
                    self.core.on_refused(batch, error_of(ack.error), now)
                else:
                    self.core.on_acknowledged(batch, ack.base_offset, ack.append_time_ms)
        self._settle()
        self.schedule()
        return self.core.has_waiting

    def on_lost(self, batches: list[QueuedBatch], error: TidelogError) -> None:
        """See `lane.Station`."""
        now = self._loop.time()
        for batch in batches:
            self.core.on_lost(batch, error, now)
        self._settle()
        self.schedule()

    def on_turned_away(self, batches: list[QueuedBatch], error: TidelogError) -> None:
        """See `lane.Station`."""
        now = self._loop.time()
        for batch in batches:
            self.core.on_refused(batch, error, now)
        self._settle()
        self.schedule()

    def on_broken(self, failure: BaseException) -> None:
        """See `lane.Station`."""
        logger.error("The producer failed and takes no more records", exc_info=failure)
        self.core.end(
            ClientClosed(f"The producer failed: {failure!r}", hint="This is a bug; please tell us")
        )
        self.core.abandon(OutcomeUnknown(f"The producer failed: {failure!r}"))
        self._settle()

    def on_unreachable(self, address: str, error: TidelogError) -> None:
        """See `lane.Station`."""
        for queue in self.core.active:
            if self._questions.leader_of(queue.key) == address:
                self.core.stale_topics.add(queue.key.topic)
                queue.batches[0].last_error = error
        self._loop.call_later(0.1, self.schedule)

    def on_cancelled(self, address: str) -> None:
        """See `lane.Station`."""
        del self._lanes[address]
        self.schedule()

    # ------------------------------------------------------------------ for the producers

    async def route(self, topic: str, limit_s: float, partition: int = 0) -> TopicRoute:
        """Where the records of a topic go; created if the cluster allows.

        `partition` is one that somebody means: it may be newer than what is known.
        """
        return await self._questions.route(topic, self._loop.time() + limit_s, partition)

    def doubt(self, topic: str) -> None:
        """Has what is known of a topic asked for again, without waiting for it."""
        self.core.stale_topics.add(topic)
        self.schedule()

    async def flush(self, limit_s: float | None) -> None:
        """Returns when all that was handed over before has its verdict."""
        self.accumulator.seal_all(list(self._lingering))
        self._take(self._loop.time())
        self.hurry()
        deliveries = [batch.content.delivery for batch in self.core.unsettled()]
        try:
            async with asyncio.timeout(limit_s):
                await _all_settled(deliveries)
        except TimeoutError:
            left = sum(delivery.count for delivery in deliveries if not delivery.is_settled)
            raise RequestTimedOut(
                f"{counted(left, 'record')} had no verdict yet after {limit_s} s",
                hint="They are still under way; flush again, or close to give them up",
            ) from None

    async def close(self, limit_s: float | None) -> None:
        """Waits for verdicts while the limit allows, then gives those that are missing.

        Nothing is logged here. Who closes a `Producer` waits for this thread, and may be a signal's
        handler that holds the lock of a log; the verdicts, and the sum of them, tell it all.
        """
        try:
            with suppress(RequestTimedOut):
                await self.flush(limit_s)
        finally:
            await self._end()

    async def _end(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        # Whoever closes may be cancelled at each of these: the verdicts come all the same.
        async with AsyncExitStack() as ends:
            ends.push_async_callback(self.cluster.close)
            ends.callback(self._give_up_the_rest)
            ends.push_async_callback(self._close_lanes)
            await self._questions.close()

    async def _close_lanes(self) -> None:
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))

    def _give_up_the_rest(self) -> None:
        # Those that were not waited for, or not even asked to end, are on the caller's loop.
        for lane in self._lanes.values():
            lane.end()
        self._lanes.clear()
        refusal = ClientClosed(
            "The producer was closed before the record was sent",
            hint="Give close() more time, or flush() before",
        )
        self._queue(self.accumulator.end(refusal, list(self._lingering)))
        self.core.abandon(refusal)
        self._settle()


async def _all_settled(deliveries: list[BatchDelivery]) -> None:
    """Returns when each of them has its verdict."""
    all_told = asyncio.get_running_loop().create_future()
    left = len(deliveries)

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left == 0 and not all_told.done():
            all_told.set_result(None)

    for delivery in deliveries:
        delivery.when_settled(count_down)
    if deliveries:
        await all_told


def _acks_of(acks: str | int) -> common_pb2.Acks.ValueType:
    if acks == ACKS_ALL:
        return common_pb2.ACKS_ALL
    return common_pb2.ACKS_LEADER if acks == 1 else common_pb2.ACKS_NONE
