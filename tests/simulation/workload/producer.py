"""A producer on the raw stubs: lanes that share a stream, or unary calls; it survives anything.

It connects, learns topic ids, gets its producer ids, sends, and begins anew whenever the
connection fails, answers stay away, or it feels like it. `calm` ends it: from then on it begins
nothing new and stays until all it began is answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grpc.aio import EOF, AioRpcError

from simulation.cluster import ADDRESS
from simulation.history import Acks, History, LogKey
from simulation.workload.lane import UNANSWERED_MAX, WIRE_ACKS, Attempt, Lane
from simulation.workload.plan import ProducerPlan
from simulation.world import World
from tidelog.wire.v1 import broker_pb2_grpc, metadata_pb2, produce_pb2, producer_ids_pb2

if TYPE_CHECKING:
    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub

RECONNECT_S = 0.3
REFRESH_S = 0.5
CALL_TIMEOUT_S = 5.0


class SessionOver(Exception):
    """This connection is given up; there will be another."""


#: How a session ends; writing to a call that has ended is an InvalidStateError.
SESSION_ENDS = (AioRpcError, SessionOver, TimeoutError, asyncio.InvalidStateError)


class Producer:
    """See the module."""

    def __init__(self, world: World, plan: ProducerPlan, history: History) -> None:
        self.plan = plan
        self.calm = False
        self._world = world
        self._history = history
        self._host = world.network.host(plan.name)
        self._clock = world.wall_clock(plan.name)
        self._random = world.stream(plan.name)
        self._lanes: dict[LogKey, Lane] = {}
        self._refreshed_s = -1.0
        self._correlation_id = 0
        self._waiting: dict[int, tuple[float, list[Attempt]]] = {}

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way."""
        return not any(lane.unanswered for lane in self._lanes.values())

    async def run(self) -> None:
        """Produce until calm, then until all is answered."""
        while not (self.calm and self.is_done):
            channel = self._host.channel_factory(ADDRESS)
            stub: BrokerAsyncStub = broker_pb2_grpc.BrokerStub(channel)
            for lane in self._lanes.values():
                lane.begin_session()
            self._waiting.clear()
            try:
                await (self._call_one_by_one(stub) if self.plan.is_unary else self._stream(stub))
            except SESSION_ENDS as error:
                self._world.trace.record(f"{self.plan.name} begins anew: {_brief(error)}")
            finally:
                await channel.close()
            await asyncio.sleep(self._random.uniform(0, RECONNECT_S))
        for lane in self._lanes.values():
            lane.give_up()

    # ---- topics and ids

    async def _prepare(self, stub: BrokerAsyncStub) -> None:
        """Learn what topics there are now, and get ids for the lanes that need one."""
        now = self._world.now()
        if self._refreshed_s < 0 or now - self._refreshed_s >= REFRESH_S:
            self._refreshed_s = now
            await self._refresh(stub)
        for lane in list(self._lanes.values()):
            if not self.calm:
                lane.expire()
            if lane.needs_id and not lane.is_dead and self.plan.is_idempotent:
                await self._get_id(stub, lane)

    async def _refresh(self, stub: BrokerAsyncStub) -> None:
        request = metadata_pb2.MetadataRequest(topics=self.plan.topics)
        answer = await stub.Metadata(request, timeout=CALL_TIMEOUT_S)
        found: dict[LogKey, str] = {}
        for topic in answer.topics:
            if not topic.HasField("error"):
                for partition in topic.partitions:
                    found[LogKey(topic.topic_id, partition.partition)] = topic.name
        for key, lane in self._lanes.items():
            if key not in found and not lane.is_dead:
                lane.is_dead = True
                lane.give_up()
        for key, name in found.items():
            if key not in self._lanes:
                self._lanes[key] = self._new_lane(name, key)

    def _new_lane(self, topic: str, log: LogKey) -> Lane:
        return Lane(
            plan=self.plan,
            topic=topic,
            log=log,
            history=self._history,
            random=self._random,
            now=self._world.now,
            now_ms=self._clock.now_ms,
            needs_id=self.plan.is_idempotent,
        )

    async def _get_id(self, stub: BrokerAsyncStub, lane: Lane) -> None:
        request = producer_ids_pb2.InitProducerIdRequest()
        if lane.producer_id >= 0:
            request.producer_id, request.producer_epoch = lane.producer_id, lane.epoch
        answer = await stub.InitProducerId(request, timeout=CALL_TIMEOUT_S)
        if not answer.HasField("error"):
            lane.take_id(answer.producer_id, answer.producer_epoch)

    # ---- requests

    def _next_request(self, batches_max: int) -> tuple[produce_pb2.ProduceRequest, list[Attempt]]:
        """One batch each for some of the lanes."""
        acks = self._random.choice(self.plan.acks)
        attempts = []
        for lane in self._lanes.values():
            if self._random.random() < 0.3:
                continue
            following = lane.unanswered_acks()
            if following is not None and following is not acks:
                continue
            attempt = lane.next_attempt(acks, may_begin=not self.calm, batches_max=batches_max)
            if attempt is not None:
                attempts.append(attempt)
        self._correlation_id += 1
        request = produce_pb2.ProduceRequest(
            correlation_id=self._correlation_id,
            acks=WIRE_ACKS[acks],
            timeout_ms=round(self.plan.request_timeout_s * 800),
        )
        for attempt in attempts:
            lane = attempt.lane
            by_name = self.plan.by_name and lane.topic == "plain"
            request.partitions.add(
                topic=lane.topic,
                topic_id=b"" if by_name else lane.log.topic_id,
                partition=lane.log.partition,
                batch=attempt.parcel.content,
            )
        return request, attempts

    def _take_response(
        self, response: produce_pb2.ProduceResponse, attempts: list[Attempt]
    ) -> None:
        if response.HasField("error"):
            raise SessionOver(response.error.message)
        for attempt, ack in zip(attempts, response.partitions, strict=True):
            attempt.lane.take_answer(attempt, ack)

    # ---- unary

    async def _call_one_by_one(self, stub: BrokerAsyncStub) -> None:
        while not (self.calm and self.is_done):
            await self._prepare(stub)
            request, attempts = self._next_request(1)
            if attempts:
                response = await stub.Produce(request, timeout=self.plan.request_timeout_s)
                if request.acks != WIRE_ACKS[Acks.NONE]:
                    self._take_response(response, attempts)
            await self._think()

    async def _think(self) -> None:
        if self._random.random() < self.plan.whim and not self.calm:
            raise SessionOver("a whim")
        await asyncio.sleep(self._random.uniform(0, 2 * self.plan.pause_s))

    # ---- stream

    async def _stream(self, stub: BrokerAsyncStub) -> None:
        await self._prepare(stub)
        call: Any = stub.ProduceStream()
        reader = asyncio.create_task(self._read(call), name=f"{self.plan.name}-answers")
        try:
            while not (self.calm and self.is_done):
                if reader.done():
                    reader.result()
                    raise SessionOver("the broker ended the stream")
                await self._prepare(stub)
                self._check_patience()
                await self._send_next(call)
                await self._think()
        finally:
            call.cancel()
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _send_next(self, call: Any) -> None:
        request, attempts = self._next_request(UNANSWERED_MAX)
        if not attempts:
            return
        if request.acks != WIRE_ACKS[Acks.NONE]:
            self._waiting[request.correlation_id] = self._world.now(), attempts
        async with asyncio.timeout(self.plan.request_timeout_s):
            await call.write(request)

    async def _read(self, call: Any) -> None:
        while (response := await call.read()) is not EOF:
            _, attempts = self._waiting.pop(response.correlation_id)
            self._take_response(response, attempts)

    def _check_patience(self) -> None:
        oldest = next(iter(self._waiting.values()), None)
        if oldest is not None and self._world.now() - oldest[0] > self.plan.request_timeout_s:
            raise SessionOver("no answer")


def _brief(error: Exception) -> str:
    if isinstance(error, AioRpcError):
        return f"{error.code().name} {error.details()}"
    return repr(error)
