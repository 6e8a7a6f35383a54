"""The asyncio shell around `Fetching`: streams to leaders, refreshes, lookups, retries.

One task asks the core what to do whenever something has changed; one task for each leader carries
its stream. Invariant: each task has an owner here and ends with `close`; a leader that can't be
reached is tried again for as long as the consumer lives, and the log says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tidelog.consumer.credit import Credit
from tidelog.consumer.fetched import held_records
from tidelog.consumer.fetching import Fetching, PartitionState, Plan
from tidelog.consumer.leader_stream import LeaderStream
from tidelog.consumer.offsets import OffsetLookup
from tidelog.consumer.settings import ConsumerSettings
from tidelog.engine.cluster import Cluster
from tidelog.engine.connections import Connection
from tidelog.engine.wire_errors import error_of
from tidelog.errors import TidelogError
from tidelog.wire.envelopes import Incoming
from tidelog.wire.v1 import common_pb2, fetch_pb2

logger = logging.getLogger(__name__)


class Fetcher:
    """See the module. `on_delivery` is called when there may be something for the reader."""

    def __init__(
        self,
        cluster: Cluster,
        fetching: Fetching,
        lookup: OffsetLookup,
        settings: ConsumerSettings,
        on_delivery: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._fetching = fetching
        self._lookup = lookup
        self._settings = settings
        self._on_delivery = on_delivery
        self._credit = Credit(settings.prefetch_bytes)
        self._streams: dict[str, LeaderStream] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._warned = False
        #: What ended a task of ours that nothing should have ended.
        self.crash: BaseException | None = None

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Begins to follow the core's plans."""
        self._own("tidelog-fetcher", self._follow_plans())

    def _own(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._forget(name, done))

    def _forget(self, name: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is done:
            del self._tasks[name]
        if not done.cancelled() and done.exception() is not None:
            self.crash = done.exception()
            self._on_delivery()

    def _warn(self, message: str, *values: object) -> None:
        """Says once what is wrong; the retries that follow say it in a lower voice."""
        logger.log(logging.DEBUG if self._warned else logging.WARNING, message, *values)
        self._warned = True

    async def close(self) -> None:
        """Ends every stream."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def changed(self) -> None:
        """Something has changed: the core has to be asked."""
        self._changed.set()

    # ------------------------------------------------------------------ following plans

    async def _follow_plans(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            plan = self._fetching.plan(loop.time(), self._cluster.view.topic)
            self._execute(plan)
            self._on_delivery()
            try:
                async with asyncio.timeout_at(plan.wake_at):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _execute(self, plan: Plan) -> None:
        for address, sessions in plan.stop.items():
            stream = self._streams.get(address)
            if stream is not None:
                stream.stop(sessions)
        for address, states in plan.start.items():
            stream = self._streams.get(address) or self._open(address, len(plan.start))
            stream.start(self._item(state) for state in states)
        if plan.refresh and "tidelog-refresh" not in self._tasks:
            self._own("tidelog-refresh", self._refresh(plan.refresh))
        for state in plan.reset:
            self._own(f"tidelog-reset-{state.name}", self._reset(state))

    def _item(self, state: PartitionState) -> fetch_pb2.FetchPartition:
        view = self._cluster.view.last_seen(state.name.topic)
        assert view is not None
        item = fetch_pb2.FetchPartition(
            topic=state.name.topic,
            topic_id=state.topic_id,
            partition=state.name.partition,
            session=state.session,
            fetch_offset=state.fetched_to,
            leader_epoch=view.leaders[state.name.partition].epoch,
            max_bytes=self._settings.max_partition_fetch_bytes,
        )
        if state.end_offset is not None:
            item.end_offset = state.end_offset
        if state.fetched_epoch >= 0:
            item.last_fetched_epoch = state.fetched_epoch
        return item

    async def _refresh(self, topics: list[str]) -> None:
        loop = asyncio.get_running_loop()
        try:
            errors = await self._cluster.refresh(topics)
        except TidelogError as failure:
            self._warn("who leads %s can't be asked: %s", ", ".join(topics), str(failure))
            self._fetching.on_refresh_failed(topics, loop.time())
        else:
            for topic in topics:
                if topic not in errors and self._cluster.view.topic(topic) is None:
                    self._fetching.on_refresh_failed([topic], loop.time())
            self._fetching.on_refreshed(topics, errors, loop.time())
        self._tasks.pop("tidelog-refresh", None)
        self.changed()

    async def _reset(self, state: PartitionState) -> None:
        loop = asyncio.get_running_loop()
        try:
            offset = await self._lookup.reset_offset(state, self._fetching.reset_policy)
        except TidelogError as failure:
            self._fetching.on_reset_failed(state, failure, loop.time())
        else:
            self._fetching.on_reset(state, offset)
        self.changed()

    # ------------------------------------------------------------------ streams

    def _open(self, address: str, leaders: int) -> LeaderStream:
        settings = self._settings
        stream = LeaderStream(
            address,
            fetch_pb2.FetchOptions(
                isolation_level=common_pb2.IsolationLevel.ValueType(settings.isolation_level),
                min_bytes=settings.fetch_min_bytes,
                max_wait_ms=int(settings.fetch_max_wait_ms),
                max_bytes=settings.fetch_max_bytes,
                rack=settings.client_rack,
            ),
        )
        self._streams[address] = stream
        stream.grant(self._credit.join(address, max(leaders, len(self._streams))))
        self._own(f"tidelog-fetch-{address}", self._carry(stream))
        return stream

    async def _carry(self, stream: LeaderStream) -> None:
        """Has a stream run to its end. All that follows happens at once: nobody may find a stream
        that has ended, and say to it what would be lost.
        """
        address = stream.address
        connection: Connection | None = None
        try:
            connection = await self._cluster.connections.get(address)
            await stream.run(connection, self._on_response)
        except TidelogError as failure:
            self._warn("reading from %s is interrupted: %s", address, str(failure))
            now = asyncio.get_running_loop().time()
            self._fetching.on_stream_lost(address, failure, now)
            if connection is not None:
                self._cluster.connections.drop(connection)
        finally:
            del self._streams[address]
            self._credit.leave(address)
        self.changed()

    def _on_response(self, address: str, response: Incoming[fetch_pb2.FetchStreamResponse]) -> None:
        fetching = self._fetching
        now = asyncio.get_running_loop().time()
        for index, item in enumerate(response.message.partitions):
            if item.HasField("error"):
                fetching.on_error(item.session, error_of(item.error), now)
            elif item.HasField("diverging_epoch"):
                end = item.diverging_epoch
                fetching.on_diverging(item.session, end.leader_epoch, end.end_offset)
            else:
                self._take_records(address, response, index)
                continue
            self.changed()
        self._warned = False
        self._on_delivery()

    def _take_records(
        self, address: str, response: Incoming[fetch_pb2.FetchStreamResponse], index: int
    ) -> None:
        fetching = self._fetching
        item = response.message.partitions[index]
        records, span = held_records(response, index)
        self._credit.pushed(address, span[1] - span[0])
        marks = item.high_watermark, item.log_start_offset
        unwanted_bytes = fetching.on_records(item.session, records, marks, span)
        if unwanted_bytes:
            self.give_back(address, unwanted_bytes)
        if fetching.has_stops:
            self.changed()

    def give_back(self, address: str, size_bytes: int) -> None:
        """Bytes from a leader were handed out: their room is granted again."""
        granted = self._credit.handed_out(address, size_bytes)
        stream = self._streams.get(address)
        if granted and stream is not None:
            stream.grant(granted)
