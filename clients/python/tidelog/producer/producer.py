"""`Producer`: sends records from any thread; an event loop in a thread of its own does the rest.

User threads append to the accumulator under a light lock and never touch the network. For
asyncio there is `AsyncProducer`; the two differ by `await` alone.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tidelog.engine.bell import Bells
from tidelog.engine.cluster import DEFAULT_BOOTSTRAP
from tidelog.engine.loop_thread import LoopThread
from tidelog.engine.time_limits import seconds
from tidelog.errors import BufferFull, InvalidRequest, TidelogError
from tidelog.producer import lifetimes
from tidelog.producer.base import (
    accumulator_of,
    closed_error,
    cluster_of,
    described,
    forked_error,
    several,
    telling_what_was_taken,
)
from tidelog.producer.columns import highest_partition, partition_column, records_of_columns
from tidelog.producer.delivery import Deliveries, Delivery
from tidelog.producer.handing_over import HeadersLike, no_topic
from tidelog.producer.many import ManyRecords
from tidelog.producer.pipeline import Pipeline
from tidelog.producer.producer_settings import ProducerOptions, producer_settings
from tidelog.producer.sends import ThreadSends
from tidelog.producer.type_variables import K, V
from tidelog.serializers import Serializer, writer_of
from tidelog.settings import addresses

if TYPE_CHECKING:
    from tidelog.channel import ChannelFactory
    from tidelog.producer.accumulator import TopicRoute

logger: Final = logging.getLogger("tidelog.producer")

#: How long the exit of the interpreter may wait for verdicts.
EXIT_LIMIT_S: Final = 10.0


class Producer(ThreadSends[K, V]):
    """Publishes records, from any number of threads.

    ```python
    with tidelog.Producer("localhost:9094") as producer:
        producer.send("orders", key="customer-42", value=b"...")
        receipt = producer.send("orders", value=b"...").result()
    ```

    Every record ends in exactly one verdict: a `Receipt`, an error below `Refused` (certainly not
    written), or `OutcomeUnknown` (may have been written). Records of one partition are written
    in the order of sending and, unless `enable_idempotence=False`, never twice. Leaving the
    context waits for all verdicts and raises when a failure was not asked about. The settings
    are those of `tidelog.producer.producer_settings`.
    """

    def __init__(
        self,
        bootstrap: str | list[str] | tuple[str, ...] = DEFAULT_BOOTSTRAP,
        *,
        key: Serializer[K] | Callable[[K], bytes | None] | None = None,
        value: Serializer[V] | Callable[[V], bytes | None] | None = None,
        channel_factory: ChannelFactory | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._settings, partitioner = producer_settings(dict(options))
        self._bootstrap = addresses(bootstrap)
        self._channel_factory = channel_factory
        self._process_id = os.getpid()
        self._room = Bells()
        #: Taken again by a signal's handler that closes what is closing.
        self._closing = threading.RLock()
        self._is_closed = False
        self._closes_unwaited = False
        self._has_told = False
        key_writer, value_writer = writer_of(key, "key"), writer_of(value, "value")
        self._thread = LoopThread("tidelog-producer")
        accumulator = accumulator_of(
            self._settings,
            clock=time.monotonic,
            wake=self._wake,
            hurry=self._hurry,
            is_shared=True,
        )
        super().__init__(accumulator, partitioner, key_writer, value_writer)
        try:
            self._pipeline = self._thread.call(self._make_pipeline())
        except BaseException:
            self._thread.stop()
            raise
        lifetimes.opened(self)

    async def _make_pipeline(self) -> Pipeline:
        cluster = cluster_of(self._settings, self._bootstrap, self._channel_factory)
        return Pipeline(
            self._settings, self._accumulator, cluster, self._room.ring, shares_loop=False
        )

    # ------------------------------------------------------------------ sending

    if TYPE_CHECKING:
        # The compiled base takes anything for a topic or a partition and refuses it in words.
        def send(
            self,
            topic: str,
            value: V | None = None,
            key: K | None = None,
            *,
            headers: HeadersLike | None = None,
            timestamp: int | datetime | None = None,
            partition: int | None = None,
            on_delivery: Callable[[Delivery], object] | None = None,
            delivery_timeout: float | timedelta | None = None,
        ) -> Delivery: ...

    def send_many(
        self,
        topic: str,
        values: Sequence[V | None],
        keys: Sequence[K | None] | None = None,
        *,
        timestamp: int | datetime | None = None,
        timestamps: Sequence[int | datetime] | None = None,
        partition: int | None = None,
    ) -> Deliveries:
        """Hands over many records, waiting for room as needed; returns one handle for all.

        Ask the handle for its `result()`, the receipts, or for the `verdicts()`.

        All keys and values are checked before the first record is taken. Where the call fails later
        (`BufferFull` after `max_block_ms`, a close), the error's `taken` is the handle of the
        records that were taken before: they have their verdicts, and only the others may be sent
        again.
        """
        several("values", values)
        if keys is not None:
            several("keys", keys)
        if timestamps is not None:
            several("timestamps", timestamps)
        route = self._route(topic, partition)
        many = ManyRecords(self, route, values, keys, timestamp, timestamps, partition)
        with telling_what_was_taken(many.deliveries):
            while not many.step():
                self._make_room()
        return many.deliveries

    def send_columns(
        self,
        topic: str,
        *,
        value: Any,
        key: Any = None,
        timestamp: Any = None,
        headers: Any = None,
        partition: Any = None,
    ) -> Deliveries:
        """Hands over columns: Arrow arrays, or what Arrow takes; returns one handle for all.

        `timestamp` is a column of milliseconds, one number for all, or None for now. `partition`
        is a column, too, or one number; where it is null a row goes where its key belongs.
        """
        partition = partition_column(partition)
        route = self._route(topic, highest_partition(partition))
        columns = records_of_columns(
            self, route, self._settings, (value, key, timestamp, headers), partition
        )
        with telling_what_was_taken(columns.deliveries):
            while not columns.step():
                self._make_room()
        return columns.deliveries

    def flush(self, timeout: float | timedelta | None = None) -> None:
        """Returns when every record that was sent before has its verdict.

        Lingering ends at once. Raises `RequestTimedOut` when `timeout` seconds pass first.
        """
        self._check()
        self._thread.call(self._pipeline.flush(seconds(timeout)))

    def close(self, timeout: float | timedelta | None = None) -> None:
        """Waits for verdicts, at most `timeout` seconds, and ends everything.

        What has none then is `OutcomeUnknown` if it may have been written, else refused. Raises
        when records failed that nobody has asked about, naming them. In a delivery callback, and
        in a signal's handler that interrupts a `send`, it begins all this and returns: leaving the
        `with` block, or the next `close()`, waits for it. While another thread closes the producer
        it waits for that thread, at most `timeout` seconds, and raises nothing.
        """
        error = self._close(seconds(timeout))
        if error is not None:
            raise error

    def _close(self, limit_s: float | None) -> TidelogError | None:
        if os.getpid() != self._process_id:
            return None
        may_wait = self._may_wait()
        patience_s = -1.0 if limit_s is None else limit_s
        try:
            # Within, since an interrupt may come before anybody knows that it was taken.
            if not self._closing.acquire(timeout=patience_s if may_wait else 0):
                return None  # another thread closes it, and may be waiting for this one
            if self._is_closed:
                return self._closed_before(limit_s) if may_wait else None
            return self._close_once(limit_s, may_wait=may_wait)
        finally:
            with suppress(RuntimeError):  # it is another thread's
                self._closing.release()

    def _close_once(self, limit_s: float | None, *, may_wait: bool) -> TidelogError | None:
        self._is_closed = True
        try:
            if self._accumulator.refusal is None:
                self._accumulator.refusal = closed_error()
            self._room.ring()
            self._closes_unwaited = not may_wait
            self._thread.finish(lambda: self._close_pipeline(limit_s), waits=may_wait)
        except BaseException:
            # Interrupted. Should that have been before the loop was told, another may tell it.
            self._is_closed = not self._thread.is_alive
            failure = self._pipeline.failures.summary()
            if failure is not None:
                logger.warning("The closing of a producer was interrupted: %s", failure)
            raise
        return self._told() if may_wait else None

    async def _close_pipeline(self, limit_s: float | None) -> None:
        try:
            await self._pipeline.close(limit_s)
        finally:
            lifetimes.closed(self)

    def _closed_before(self, limit_s: float | None) -> TidelogError | None:
        """Who closed it could not wait, in a delivery callback, say: the next who closes does.

        Or was interrupted before he was told what failed: the next one is.
        """
        if self._closes_unwaited:
            # The limit may come first: then another may wait on.
            self._closes_unwaited = not self._thread.join(limit_s)
        return None if self._thread.is_alive else self._told()

    def _told(self) -> TidelogError | None:
        """What failed and nobody has asked about, for the first who has waited for the end."""
        if self._has_told:
            return None
        self._has_told = True
        return self._pipeline.failures.summary()

    def __repr__(self) -> str:
        return described(self, self._bootstrap, self._accumulator.refusal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failure = self._close(None)
        if failure is None:
            return
        if error is None:
            raise failure
        logger.warning("%s", failure)

    # ------------------------------------------------------------------ what happens rarely

    def _check(self) -> None:
        if self._accumulator.refusal is not None:
            raise self._accumulator.refusal
        self._check_may_wait()

    def _check_may_wait(self) -> None:
        if not self._may_wait():
            who = "A signal's handler, in the midst of a send,"
            if self._thread.is_current:
                who = "A delivery callback"
            raise InvalidRequest(
                f"{who} called the producer in a way that has to wait",
                hint="It runs in the thread that would end the waiting: use another one",
            )

    def _may_wait(self) -> bool:
        """Whether what the caller would wait for can come while he waits."""
        return not (self._thread.is_current or self._accumulator.is_adding_here())

    def _route(self, topic: Any, partition: Any) -> TopicRoute:
        if not isinstance(topic, str):
            raise no_topic(topic)
        route = self._accumulator.routes.get(topic) or self._find_route(topic)
        if isinstance(partition, int) and partition >= len(route.slots):
            return self._route_with(route, partition)
        return route

    def _find_route(self, topic: str) -> TopicRoute:
        self._check()
        limit_s = self._settings.max_block_ms / 1000
        return self._thread.call(self._pipeline.route(topic, limit_s))

    def _route_with(self, route: TopicRoute, partition: int) -> TopicRoute:
        self._check()
        limit_s = self._settings.max_block_ms / 1000
        return self._thread.call(self._pipeline.route(route.topic, limit_s, partition))

    def _make_room(self) -> None:
        may_go_on = self._may_go_on()
        if not self._thread.is_current:
            self._hurry(blocks=True)
            # One look decides: whoever is quicker may take the room, and this record goes beyond.
            may_go_on = self._room.wait_for(self._may_go_on, self._settings.max_block_ms / 1000)
        if self._accumulator.refusal is not None:
            raise self._accumulator.refusal
        if not may_go_on:
            raise BufferFull(
                f"The producer holds {self._accumulator.used_bytes} bytes without a verdict;"
                f" buffer_memory={self._settings.buffer_memory}",
                cause=f"There was no room within max_block_ms={self._settings.max_block_ms:g}",
                hint="Are the brokers reachable and fast enough? buffer_memory may be raised",
            )

    def _may_go_on(self) -> bool:
        return self._accumulator.has_room() or self._accumulator.refusal is not None

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile: all has its verdict
            self._thread.loop.call_soon_threadsafe(self._pipeline.schedule)

    def _hurry(self, blocks: bool) -> None:
        self._thread.check()
        if blocks:
            self._check_may_wait()
        with suppress(RuntimeError):  # the loop was closed meanwhile: all has its verdict
            self._thread.loop.call_soon_threadsafe(self._pipeline.hurry)

    def at_exit(self) -> None:
        """The interpreter exits: what was sent gets its verdict, within a limit."""
        failure = self._close(EXIT_LIMIT_S)
        if self._closes_unwaited:
            # Somebody closes it without a limit, and nobody will wait for that any more.
            self._thread.cut_off()
            failure = self._close(EXIT_LIMIT_S)
        if failure is not None:
            logger.error("At exit, from a producer that was never closed: %s", failure)

    def after_fork(self) -> None:
        """The thread lives in the parent alone."""
        self._accumulator.refusal = forked_error(self._process_id)
