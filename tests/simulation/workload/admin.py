"""The admin: creates topics, deletes and creates them again, deletes records, reads the end.

Outcomes that nobody knows are looked up or asked for again; what may have happened is noted before
it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from grpc.aio import AioRpcError, Channel

from simulation.cluster import ADDRESS
from simulation.history import Acks, Batch, FinalLog, History, LogKey, Trim, Verdict
from simulation.workload.plan import Plan, TopicPlan
from simulation.world import World
from tidelog.records.builder import BatchBuilder
from tidelog.records.decoder import decode_records
from tidelog.wire.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    broker_pb2_grpc,
    common_pb2,
    fetch_pb2,
    metadata_pb2,
    offsets_pb2,
    produce_pb2,
)

if TYPE_CHECKING:
    from tidelog.wire.v1.admin_pb2_grpc import AdminAsyncStub
    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub

_Answer = TypeVar("_Answer")
CALL_TIMEOUT_S = 3.0
RETRY_S = 0.2
LATEST, EARLIEST = -1, -2


class Admin:
    """See the module."""

    def __init__(self, world: World, plan: Plan, history: History) -> None:
        self.calm = False
        self._world = world
        self._plan = plan
        self._history = history
        self._random = world.stream("admin")
        self._clock = world.wall_clock("admin")
        self._produced = 0
        self._channel: Channel = world.network.host("admin").channel_factory(ADDRESS)
        self._broker: BrokerAsyncStub = broker_pb2_grpc.BrokerStub(self._channel)
        self._admin: AdminAsyncStub = admin_pb2_grpc.AdminStub(self._channel)

    async def close(self) -> None:
        """Give the channel back."""
        await self._channel.close()

    async def _ask(self, method: Callable[..., Awaitable[_Answer]], request: object) -> _Answer:
        """Ask until there is an answer."""
        while True:
            try:
                return await method(request, timeout=CALL_TIMEOUT_S)
            except AioRpcError as error:
                self._world.trace.record(f"admin asks again: {error.code().name}")
                await asyncio.sleep(self._random.uniform(0, RETRY_S))

    # ---- topics

    async def create_topics(self) -> None:
        """Create what the plan has, however often it takes."""
        for topic in self._plan.topics:
            await self._create(topic)

    async def _create(self, topic: TopicPlan) -> None:
        new = admin_pb2.NewTopic(
            name=topic.name, partitions=topic.partitions, configs=dict(topic.configs)
        )
        request = admin_pb2.CreateTopicsRequest(topics=[new])
        while True:
            answer = await self._ask(self._admin.CreateTopics, request)
            result = answer.topics[0]
            code = result.error.code
            if not result.HasField("error") or code == common_pb2.TOPIC_ALREADY_EXISTS:
                break
            self._world.trace.record(f"{topic.name} was not created: {result.error.message}")
            await asyncio.sleep(RETRY_S)
        if topic.is_retained:
            for name, topic_id, _ in await self.topics():
                if name == topic.name:
                    self._history.retained[topic_id] = None

    async def topics(self) -> list[tuple[str, bytes, int]]:
        """Name, id and partitions of every topic there is."""
        request = metadata_pb2.MetadataRequest(all_topics=True)
        answer = await self._ask(self._broker.Metadata, request)
        return [(topic.name, topic.topic_id, len(topic.partitions)) for topic in answer.topics]

    async def run(self) -> None:
        """Delete, create again and trim, until calm."""
        while not self.calm:
            await asyncio.sleep(self._random.uniform(0.1, 2.0))
            for topic in self._plan.topics:
                if topic.is_deleted and self._random.random() < 0.4:
                    await self._delete(topic.name)
                    await self._create(topic)
                if topic.is_trimmed:
                    await self._trim(topic.name)

    async def _delete(self, name: str) -> None:
        for found, topic_id, _ in await self.topics():
            if found == name:
                self._history.deleted[topic_id] = None
                request = admin_pb2.DeleteTopicsRequest(topic_ids=[topic_id])
                await self._ask(self._admin.DeleteTopics, request)

    async def _trim(self, name: str) -> None:
        for found, topic_id, partitions in await self.topics():
            if found != name:
                continue
            for number in range(partitions):
                log = LogKey(topic_id, number)
                high_watermark = await self._offset(log, LATEST)
                if high_watermark > 0:
                    await self._trim_log(log, self._random.randint(0, high_watermark))

    async def _trim_log(self, log: LogKey, before_offset: int) -> None:
        trim = Trim(log, before_offset, self._world.now())
        self._history.trims.append(trim)
        request = admin_pb2.DeleteRecordsRequest()
        request.partitions.add(
            topic_id=log.topic_id, partition=log.partition, before_offset=before_offset
        )
        try:
            answer = await self._admin.DeleteRecords(request, timeout=CALL_TIMEOUT_S)
        except AioRpcError:
            return
        if not answer.partitions[0].HasField("error"):
            trim.low_watermark = answer.partitions[0].low_watermark
            trim.ended_s = self._world.now()

    async def _offset(self, log: LogKey, timestamp_ms: int) -> int:
        """Where the log begins or ends; -1 when that cannot be said now."""
        request = offsets_pb2.ListOffsetsRequest()
        request.partitions.add(
            topic_id=log.topic_id, partition=log.partition, timestamp_ms=timestamp_ms
        )
        answer = await self._ask(self._broker.ListOffsets, request)
        found = answer.partitions[0]
        return -1 if found.HasField("error") else found.offset

    # ---- the end

    async def wait_until_all_serve(self) -> None:
        """Return once every partition has taken and committed a record."""
        served = False
        while not served:
            logs = [
                LogKey(topic_id, number)
                for _, topic_id, partitions in await self.topics()
                for number in range(partitions)
            ]
            served = all([await self._takes_a_record(log) for log in logs])
            await asyncio.sleep(self._random.uniform(0, RETRY_S))

    async def _takes_a_record(self, log: LogKey) -> bool:
        """Produce one record, as plainly as possible; it is judged like all others."""
        self._produced += 1
        value = f"admin {self._produced}".encode()
        batch = Batch(log, f"admin/{self._produced}", 0, (value,), Acks.ALL, self._world.now())
        self._history.batches.append(batch)
        builder = BatchBuilder()
        builder.append(value, None, (), self._clock.now_ms())
        request = produce_pb2.ProduceRequest(timeout_ms=2000)
        request.partitions.add(
            topic_id=log.topic_id, partition=log.partition, batch=builder.build()
        )
        batch.verdict = Verdict.UNKNOWN
        try:
            answer = await self._broker.Produce(request, timeout=CALL_TIMEOUT_S)
        except AioRpcError:
            return False
        ack = answer.partitions[0]
        if ack.HasField("error"):
            self._world.trace.record(f"{log} does not serve: {ack.error.message}")
            return False
        batch.verdict, batch.base_offset = Verdict.OK, ack.base_offset
        return True

    async def read_everything(self) -> None:
        """Read each partition from its start to its end."""
        self._history.final.clear()
        for name, topic_id, partitions in await self.topics():
            for number in range(partitions):
                log = LogKey(topic_id, number)
                self._history.final[log] = await self._read_log(name, log)

    async def _read_log(self, name: str, log: LogKey) -> FinalLog:
        start = offset = await self._offset(log, EARLIEST)
        end = await self._offset(log, LATEST)
        final = FinalLog(start, end, {})
        while offset < end:
            request = fetch_pb2.FetchRequest()
            request.partitions.add(
                topic_id=log.topic_id, partition=log.partition, fetch_offset=offset
            )
            answer = await self._ask(self._broker.Fetch, request)
            part = answer.partitions[0]
            if part.error.code == common_pb2.OFFSET_OUT_OF_RANGE:
                # Retention came in between: begin again where the log begins now.
                return await self._read_log(name, log)
            if part.HasField("error") or not part.records:
                self._history.anomalies.append(
                    f"{log} cannot be read at {offset} of {start} to {end}: {part.error}"
                )
                return final
            for record in decode_records(part.records, name, log.partition, start_offset=offset):
                final.records[record.offset] = record.value or b""
                offset = record.offset + 1
        return final
