"""`AsyncProducer`: sends records from an event loop, where nothing it does blocks the loop.

It runs its pipeline on the caller's loop. `Producer` is the same for programs without one; the two
differ by `await` alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tidelog.engine.cluster import DEFAULT_BOOTSTRAP
from tidelog.engine.one_loop import OneLoop
from tidelog.engine.time_limits import seconds
from tidelog.errors import BufferFull, InvalidRequest, RequestTimedOut, TidelogError
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
from tidelog.producer.delivery import Deliveries, Delivery, Receipt
from tidelog.producer.handing_over import HeadersLike, no_topic
from tidelog.producer.many import ManyRecords
from tidelog.producer.pipeline import Pipeline
from tidelog.producer.producer_settings import ProducerOptions, producer_settings
from tidelog.producer.sends import LoopSends
from tidelog.producer.staging import Staging
from tidelog.producer.type_variables import K, V
from tidelog.serializers import Serializer, writer_of
from tidelog.settings import addresses

if TYPE_CHECKING:
    from tidelog.channel import ChannelFactory
    from tidelog.producer.accumulator import Headers, TopicRoute

logger: Final = logging.getLogger("tidelog.producer")


class AsyncProducer(LoopSends[K, V]):
    """Publishes records from asyncio.

    ```python
    async with tidelog.AsyncProducer("localhost:9094") as producer:
        receipt = await producer.send("orders", key="customer-42", value=b"...")
        pending = producer.send_nowait("orders", value=b"...")
        await pending
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
        self._pipeline: Pipeline | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._one_loop = OneLoop("producer")
        self._room_waiters: list[asyncio.Future[None]] = []
        accumulator = accumulator_of(
            self._settings, clock=self._now, wake=self._wake, hurry=self._hurry, is_shared=False
        )
        super().__init__(accumulator, partitioner, writer_of(key, "key"), writer_of(value, "value"))
        self._staging = Staging(self._accumulator, self._partitioner, self._hurry)

    # ------------------------------------------------------------------ sending

    if TYPE_CHECKING:
        # The compiled base takes anything for a topic or a partition and refuses it in words.
        def send_nowait(
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

    async def send(
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
    ) -> Receipt:
        """Sends one record and returns its receipt once the cluster has it.

        Waits for room in the buffer, at most `max_block_ms`. Raises a `Refused` error when the
        record was certainly not written, `OutcomeUnknown` when it may have been.
        """
        self._one_loop.check()
        if topic not in self._accumulator.routes or partition:
            await self._prepare(topic, partition)
        if not self._accumulator.has_room():
            await self.wait_for_room()
        return await self.send_nowait(
            topic,
            value,
            key,
            headers=headers,
            timestamp=timestamp,
            partition=partition,
            on_delivery=on_delivery,
            delivery_timeout=delivery_timeout,
        )

    async def send_many(
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

        `await` the handle for the receipts, or ask it for the `verdicts`.

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
        route = await self._prepare(topic, partition)
        many = ManyRecords(self, route, values, keys, timestamp, timestamps, partition)
        with telling_what_was_taken(many.deliveries):
            while not many.step():
                await self.wait_for_room()
        return many.deliveries

    async def send_columns(
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
        route = await self._prepare(topic, highest_partition(partition))
        columns = records_of_columns(
            self, route, self._settings, (value, key, timestamp, headers), partition
        )
        with telling_what_was_taken(columns.deliveries):
            while not columns.step():
                await self.wait_for_room()
        return columns.deliveries

    async def wait_for_room(self) -> None:
        """Returns once the buffer has room again: what to do after a `BufferFull`.

        Raises `BufferFull` itself when there is none within `max_block_ms`.
        """
        self._started().hurry()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                while not self._accumulator.has_room() and self._accumulator.refusal is None:
                    waiter = loop.create_future()
                    self._room_waiters.append(waiter)
                    await waiter
        except TimeoutError:
            self._make_room()

    async def flush(
        self,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as Producer.flush
    ) -> None:
        """Returns when every record that was sent before has its verdict.

        Lingering ends at once. Raises `RequestTimedOut` when `timeout` seconds pass first.
        """
        pipeline = self._started()
        limit_s = seconds(timeout)
        begun_s = self._now()
        if not await self._staging.settled(limit_s):
            raise RequestTimedOut(
                f"Records had no verdict yet after {limit_s} s: their topic is still asked for",
                hint="They are still under way; flush again, or close to give them up",
            )
        await pipeline.flush(self._left(limit_s, begun_s))

    async def close(
        self,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as Producer.close
    ) -> None:
        """Waits for verdicts, at most `timeout` seconds, and ends everything.

        What has none then is `OutcomeUnknown` if it may have been written, else refused. Raises
        when records failed that nobody has asked about, naming them.
        """
        error = await self._close(seconds(timeout))
        if error is not None:
            raise error

    async def _close(self, limit_s: float | None) -> TidelogError | None:
        if self._pipeline is not None:
            self._one_loop.check()
        first = self._accumulator.refusal is None or self._pipeline is not None
        if self._accumulator.refusal is None:
            self._accumulator.refusal = closed_error()
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None or not first:
            await self._ended_by_another(limit_s)
            return None
        lifetimes.closed(self)
        self._ended = asyncio.get_running_loop().create_future()
        begun_s = self._now()
        # Whoever closes may be cancelled at each of these: the others are done all the same.
        async with AsyncExitStack() as ends:
            ends.callback(self._ended.set_result, None)
            ends.callback(self._release_waiters)
            ends.push_async_callback(lambda: pipeline.close(self._left(limit_s, begun_s)))
            ends.push_async_callback(self._staging.give_up)
            try:
                await self._staging.settled(limit_s)
            except BaseException:
                limit_s = 0  # nobody waits any more
                raise
        return pipeline.failures.summary()

    async def _ended_by_another(self, limit_s: float | None) -> None:
        """Waits for the end of a closing that is under way."""
        ended = self._ended
        if ended is not None and ended.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([ended], timeout=limit_s)

    def __repr__(self) -> str:
        return described(self, self._bootstrap, self._accumulator.refusal)

    async def __aenter__(self) -> Self:
        self._started()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failure = await self._close(None)
        if failure is None:
            return
        if error is None:
            raise failure
        logger.warning("%s", failure)

    # ------------------------------------------------------------------ what happens rarely

    def _started(self) -> Pipeline:
        """The pipeline; made at the first use, since only then a loop runs for certain."""
        self._one_loop.check()
        pipeline = self._pipeline
        if pipeline is not None:
            return pipeline
        if self._accumulator.refusal is not None:
            raise self._accumulator.refusal
        self._loop = asyncio.get_running_loop()
        self._thread_id, self._is_running = threading.get_ident(), self._loop.is_running
        cluster = cluster_of(self._settings, self._bootstrap, self._channel_factory)
        pipeline = Pipeline(
            self._settings, self._accumulator, cluster, self._release_waiters, shares_loop=True
        )
        self._pipeline = pipeline
        self._staging.start(pipeline, self._settings.max_block_ms / 1000)
        lifetimes.opened(self)
        return pipeline

    def _left(self, limit_s: float | None, begun_s: float) -> float | None:
        """What is left of a limit."""
        return None if limit_s is None else max(0.0, limit_s - (self._now() - begun_s))

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def _wake(self) -> None:
        if self._pipeline is not None:
            self._pipeline.schedule()

    def _hurry(self, blocks: bool) -> None:
        if os.getpid() != self._process_id:  # also where its loop passes for one that runs
            raise forked_error(self._process_id)
        if blocks and self._loop is not None and asyncio._get_running_loop() is self._loop:
            raise InvalidRequest(
                "A verdict was waited for in a way that holds up the event loop it comes on",
                hint="Write `await delivery` for `delivery.result()`",
            )
        pipeline = self._pipeline
        if pipeline is None or self._loop is None:
            return
        if asyncio._get_running_loop() is self._loop:
            pipeline.hurry()
            return
        try:  # a handle may be waited for anywhere
            self._loop.call_soon_threadsafe(pipeline.hurry)
        except RuntimeError:
            raise self._one_loop.error() from None

    def _check_loop(self) -> None:
        if self._accumulator.refusal is None:
            self._one_loop.check()

    async def _prepare(self, topic: Any, partition: Any) -> TopicRoute:
        if not isinstance(topic, str):
            raise no_topic(topic)
        pipeline = self._started()
        if self._accumulator.refusal is not None:
            raise self._accumulator.refusal
        limit_s = self._settings.max_block_ms / 1000
        named = partition if isinstance(partition, int) else 0
        route = await pipeline.route(topic, limit_s, named)
        self._staging.replay(topic)
        return route

    def _find_route(self, topic: str) -> TopicRoute | None:
        self._started()
        return None

    def _route_with(self, route: TopicRoute, partition: int) -> TopicRoute:
        # Here nobody can wait for an answer: it is asked for, so that the next one may be taken.
        self._started().doubt(route.topic)
        return route

    def _stage(
        self,
        topic: str,
        record: tuple[bytes | None, bytes | None, Headers, int],
        partition: int | None,
        limit_s: float | None,
    ) -> Delivery:
        return self._staging.add(topic, record, partition, limit_s)

    def _make_room(self) -> None:
        raise BufferFull(
            f"The producer holds {self._accumulator.used_bytes} bytes without a verdict;"
            f" buffer_memory={self._settings.buffer_memory}",
            hint="Let the loop run: await wait_for_room(), or send(); or raise buffer_memory",
        )

    def _release_waiters(self) -> None:
        waiters, self._room_waiters = self._room_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def at_exit(self) -> None:
        """The loop is gone: say what is lost with it."""
        if self._accumulator.used_bytes:
            logger.error(
                "An AsyncProducer was never closed: %d bytes of records have no verdict."
                " Use `async with`, or await close()",
                self._accumulator.used_bytes,
            )

    def after_fork(self) -> None:
        """The loop lives in the parent alone."""
        self._accumulator.refusal = forked_error(self._process_id)
