"""Many tasks that each await their own record, beside one request for each record.

What the SDK makes of callers that do not batch: what arrives while a request is under way goes
with the next one. The other side keeps as many requests in flight, with one record in each.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

import grpc

from bench.measuring import Row, row, with_ratio
from bench.servers import Server, broker
from tidelog import AsyncAdmin, AsyncProducer
from tidelog.records.builder import BatchBuilder
from tidelog.wire.v1 import broker_pb2_grpc, produce_pb2

if TYPE_CHECKING:
    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub

TASKS: Final = 32
RECORDS: Final = 20_000
VALUE: Final = b"." * 100
TOPIC: Final = "coalescing"
NAME: Final = f"{TASKS} tasks that each await their own record"
BASE: Final = f"one request a record, {TASKS} in flight"


async def each_awaits_its_own(server: Server) -> float:
    """Records a second through the SDK."""
    async with AsyncProducer(server.address, linger_ms=0) as producer:
        await producer.send(TOPIC, VALUE)

        async def work() -> None:
            for _ in range(RECORDS // TASKS):
                await producer.send(TOPIC, VALUE)

        begun = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(TASKS)))
        return RECORDS / (time.perf_counter() - begun)


async def request_each(server: Server) -> float:
    """Records a second on one stream, each in a request of its own."""
    builder = BatchBuilder()
    builder.append(VALUE, None, (), 1)
    batch = builder.build()
    async with AsyncAdmin(server.address) as admin:
        topic = await admin.describe_topic(TOPIC)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub: BrokerAsyncStub = broker_pb2_grpc.BrokerStub(channel)
        call: Any = stub.ProduceStream()

        async def send(number: int) -> None:
            request = produce_pb2.ProduceRequest(correlation_id=number, timeout_ms=30_000)
            request.partitions.add(topic_id=topic.topic_id, partition=0, batch=batch)
            await call.write(request)

        begun = time.perf_counter()
        for number in range(TASKS):
            await send(number)
        for number in range(TASKS, RECORDS + TASKS):
            answer = await call.read()
            assert not answer.partitions[0].HasField("error"), answer
            if number < RECORDS:
                await send(number)
        rate = RECORDS / (time.perf_counter() - begun)
        await call.done_writing()
        return rate


async def measure(server: Server, repeat: int) -> list[Row]:
    """Both sides, round by round."""
    async with AsyncAdmin(server.address) as admin:
        await admin.create_topic(TOPIC, partitions=1)
    together, alone = [], []
    for _ in range(repeat):
        alone.append(await request_each(server))
        together.append(await each_awaits_its_own(server))
    base = row(BASE, "records/s", alone)
    return [base, with_ratio(row(NAME, "records/s", together), BASE, together, alone)]


def run(repeat: int) -> list[Row]:
    """The rows of this bench."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as data_dir,
        broker(data_dir, "--config", "flush.policy=os") as server,
    ):
        return asyncio.run(measure(server, repeat))
