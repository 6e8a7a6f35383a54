"""A reader on the raw stubs: fetch streams with credit, or long polls; with seeks, without mercy.

It keeps its positions across connections, so that a record that goes away, comes twice or is
skipped shows. It goes back to the log's start only when the broker says that its position is gone
from below, as it may after a trim.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grpc.aio import EOF

from simulation.cluster import ADDRESS
from simulation.history import History, LogKey
from simulation.workload.plan import ReaderPlan
from simulation.workload.positions import Notebook, Position
from simulation.workload.producer import (
    CALL_TIMEOUT_S,
    RECONNECT_S,
    REFRESH_S,
    SESSION_ENDS,
    SessionOver,
)
from simulation.world import World
from tidelog.errors import (
    OffsetOutOfRange,
    RetriableError,
    UnknownTopic,
    UnknownTopicId,
    error_from_wire,
)
from tidelog.wire.v1 import broker_pb2_grpc, fetch_pb2, metadata_pb2, offsets_pb2

if TYPE_CHECKING:
    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub

EARLIEST = -2
#: A stream that says nothing for so long is given up.
SILENCE_S = 2.0
LONG_POLL_MS = 500


class Reader:
    """See the module."""

    def __init__(self, world: World, plan: ReaderPlan, history: History) -> None:
        self.plan = plan
        self.calm = False
        self._world = world
        self._history = history
        self._notebook = Notebook(plan.name, history)
        self._host = world.network.host(plan.name)
        self._random = world.stream(plan.name)
        self._positions: dict[LogKey, Position] = {}
        self._last_session = 0
        self._refreshed_s = -1.0

    async def run(self) -> None:
        """Read until calm."""
        while not self.calm:
            channel = self._host.channel_factory(ADDRESS)
            stub: BrokerAsyncStub = broker_pb2_grpc.BrokerStub(channel)
            try:
                await (self._poll(stub) if self.plan.is_unary else self._stream(stub))
            except SESSION_ENDS as error:
                self._world.trace.record(f"{self.plan.name} begins anew: {type(error).__name__}")
            finally:
                await channel.close()
            await asyncio.sleep(self._random.uniform(0, RECONNECT_S))

    # ---- positions

    async def _prepare(self, stub: BrokerAsyncStub) -> list[Position]:
        """Learn of new topics, find the starts of logs; the positions that can be read now."""
        now = self._world.now()
        if self._refreshed_s < 0 or now - self._refreshed_s >= REFRESH_S:
            self._refreshed_s = now
            request = metadata_pb2.MetadataRequest(topics=self.plan.topics)
            answer = await stub.Metadata(request, timeout=CALL_TIMEOUT_S)
            for topic in answer.topics:
                for partition in topic.partitions:
                    key = LogKey(topic.topic_id, partition.partition)
                    if key not in self._positions:
                        self._positions[key] = Position(topic.name, key, self._new_session())
        ready = [one for one in self._positions.values() if not one.is_dead]
        for position in ready:
            if position.is_reset:
                await self._reset(stub, position)
        return [one for one in ready if not one.is_reset and one.not_before_s <= now]

    def _new_session(self) -> int:
        self._last_session += 1
        return self._last_session

    async def _reset(self, stub: BrokerAsyncStub, position: Position) -> None:
        request = offsets_pb2.ListOffsetsRequest()
        request.partitions.add(
            topic_id=position.log.topic_id,
            partition=position.log.partition,
            timestamp_ms=EARLIEST,
        )
        answer = await stub.ListOffsets(request, timeout=CALL_TIMEOUT_S)
        found = answer.partitions[0]
        if found.HasField("error"):
            self._take_error(position, found.error.code, found.error.message)
            return
        if found.offset < position.offset:
            self._notebook.anomaly(
                f"at {position.offset} of {position.log} was told that it is out of range, and"
                f" the log begins at {found.offset}: its end went back"
            )
        position.seek(found.offset, self._new_session())
        position.is_reset = False

    def _take_error(self, position: Position, code: int, message: str) -> None:
        error = error_from_wire(code, message)
        if isinstance(error, UnknownTopic | UnknownTopicId):
            if position.log.topic_id not in self._history.deleted:
                self._notebook.anomaly(f"lost {position.log}, which nobody deleted: {message}")
            position.is_dead = True
        elif isinstance(error, OffsetOutOfRange):
            position.is_reset = True
        elif isinstance(error, RetriableError):
            position.not_before_s = self._world.now() + 0.2
        else:
            self._notebook.anomaly(f"was refused {position.log}: {error!r}")
            position.not_before_s = self._world.now() + 1.0

    def _maybe_seek(self, position: Position) -> bool:
        if self._random.random() >= self.plan.seek_chance or position.is_reset:
            return False
        position.seek(self._random.randint(0, position.offset), self._new_session())
        return True

    # ---- long polls

    async def _poll(self, stub: BrokerAsyncStub) -> None:
        while not self.calm:
            ready = await self._prepare(stub)
            begun_s = self._world.now()
            request = fetch_pb2.FetchRequest(
                options=fetch_pb2.FetchOptions(min_bytes=1, max_wait_ms=LONG_POLL_MS)
            )
            for position in ready:
                request.partitions.append(position.request(self.plan.credit_bytes))
            answer = await stub.Fetch(request, timeout=SILENCE_S)
            for position, part in zip(ready, answer.partitions, strict=True):
                if part.HasField("error"):
                    self._take_error(position, part.error.code, part.error.message)
                else:
                    self._notebook.note(position, part, begun_s)
                    self._maybe_seek(position)
            await asyncio.sleep(self._random.uniform(0.01, 0.1))

    # ---- streams

    async def _stream(self, stub: BrokerAsyncStub) -> None:
        ready = await self._prepare(stub)
        call: Any = stub.FetchStream()
        try:
            await self._say(call, ready, options=True)
            begun = {one.session: (one, self._world.now()) for one in ready}
            while not self.calm:
                async with asyncio.timeout(SILENCE_S):
                    response = await call.read()
                if response is EOF or response.HasField("error"):
                    raise SessionOver
                moved = self._take(response, begun)
                await asyncio.sleep(self._random.uniform(0, 0.05))
                await self._say(call, moved)
        finally:
            call.cancel()

    async def _say(self, call: Any, start: list[Position], *, options: bool = False) -> None:
        credit_bytes = self._random.randint(1, 2 * self.plan.credit_bytes)
        request = fetch_pb2.FetchStreamRequest(credit_bytes=credit_bytes)
        for position in start:
            request.start.append(position.request())
        if options:
            request.options.min_bytes = self._random.choice((0, 1, 500))
            request.options.max_wait_ms = self._random.choice((0, 100))
        async with asyncio.timeout(SILENCE_S):
            await call.write(request)

    def _take(
        self, response: fetch_pb2.FetchStreamResponse, begun: dict[int, tuple[Position, float]]
    ) -> list[Position]:
        """Note what came; the positions to start anew after a seek."""
        moved = []
        for part in response.partitions:
            position, begun_s = begun[part.session]
            if position.session != part.session:
                continue  # pushed before the seek
            if part.HasField("error"):
                self._take_error(position, part.error.code, part.error.message)
                raise SessionOver
            self._notebook.note(position, part, begun_s)
            if self._maybe_seek(position):
                begun[position.session] = position, self._world.now()
                moved.append(position)
        return moved
