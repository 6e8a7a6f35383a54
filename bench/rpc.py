"""Produce and fetch over gRPC: the broker beside a server that does nothing, in turns.

Rows: 1 MiB batches by produce stream and by fetch push; one small record a request; and what a
partition costs in a request of a thousand. The client is the generated stub and nothing else.

Large batches go so fast that a turn takes a fifth of a second, in which a machine that others use
says little: a round has several turns of them. Each turn's topic is deleted behind it, else the
rounds would measure how fast the machine finds memory for gigabytes that nobody reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Final

import grpc

from bench.measuring import Row, row, with_ratio
from bench.servers import Server, bare_server, broker
from tidelog.records.builder import BatchBuilder
from tidelog.wire.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    broker_pb2_grpc,
    common_pb2,
    fetch_pb2,
    produce_pb2,
)

MIB: Final = 1024 * 1024
#: Turns of large batches in a round.
LARGE_TURNS: Final = 5
#: How long the files of a deleted topic are given.
FILES_GO_S: Final = 0.5
BROKER_CONFIGS: Final = (
    *("--config", "flush.policy=os"),
    *("--config", "log.segment.delete.delay.ms=0"),
)
CHANNEL_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


def batch_of(record_count: int, value: bytes) -> bytes:
    """One uncompressed batch."""
    builder = BatchBuilder(64 * MIB)
    builder.extend([value] * record_count, 0)
    return builder.build()


BIG: Final = batch_of(9_400, b"x" * 100)
SMALL: Final = batch_of(1, b"x" * 100)
KILOBYTE: Final = batch_of(1, b"x" * 1_000)


class Session:
    """A connected client of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.channel = grpc.aio.insecure_channel(server.address, options=CHANNEL_OPTIONS)
        self.broker = broker_pb2_grpc.BrokerStub(self.channel)

    @property
    def keeps_topics(self) -> bool:
        """False for the server that does nothing."""
        return self.server.name != "bare"

    async def create(
        self, topic: str, partitions: int, *, retention_bytes: int = 512 * MIB
    ) -> None:
        """Makes a topic, unless the server keeps none."""
        if not self.keeps_topics:
            return
        admin = admin_pb2_grpc.AdminStub(self.channel)
        new = admin_pb2.NewTopic(
            name=topic,
            partitions=partitions,
            configs={"max.message.bytes": str(8 * MIB), "retention.bytes": str(retention_bytes)},
        )
        answer = await admin.CreateTopics(admin_pb2.CreateTopicsRequest(topics=[new]))
        assert not answer.topics[0].HasField("error"), answer.topics[0].error

    async def delete(self, topic: str) -> None:
        """Deletes a topic, and lets its files go before anything else is measured."""
        if not self.keeps_topics:
            return
        admin = admin_pb2_grpc.AdminStub(self.channel)
        answer = await admin.DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[topic]))
        assert not answer.topics[0].HasField("error"), answer.topics[0].error
        await asyncio.sleep(FILES_GO_S)


async def produce(
    session: Session,
    requests: int,
    in_flight: int,
    make: Callable[[int], produce_pb2.ProduceRequest],
) -> float:
    """Seconds for so many requests on one stream, so many unanswered at once."""
    window = asyncio.Semaphore(in_flight)
    started = time.perf_counter()

    async def send() -> AsyncIterator[produce_pb2.ProduceRequest]:
        for number in range(requests):
            await window.acquire()
            yield make(number)

    answers = 0
    async for answer in session.broker.ProduceStream(send()):
        assert not answer.partitions[0].HasField("error"), answer.partitions[0].error
        answers += 1
        window.release()
    assert answers == requests
    return time.perf_counter() - started


async def fetch(session: Session, topic: str, wanted_bytes: int) -> float:
    """Seconds until so many bytes were pushed."""
    requests: asyncio.Queue[fetch_pb2.FetchStreamRequest] = asyncio.Queue()
    size = len(BIG)
    first = fetch_pb2.FetchStreamRequest(
        credit_bytes=8 * size, options=fetch_pb2.FetchOptions(max_bytes=size)
    )
    first.start.add(topic=topic, partition=0, session=1, max_bytes=size)
    requests.put_nowait(first)

    async def send() -> AsyncIterator[fetch_pb2.FetchStreamRequest]:
        while True:
            yield await requests.get()

    started = time.perf_counter()
    got = 0
    call = session.broker.FetchStream(send())
    async for answer in call:
        read = sum(len(item.records) for item in answer.partitions)
        got += read
        if got >= wanted_bytes:
            break
        requests.put_nowait(fetch_pb2.FetchStreamRequest(credit_bytes=read))
    seconds = time.perf_counter() - started
    call.cancel()
    return seconds


def request_of(topic: str, partition: int, batch: bytes) -> produce_pb2.ProduceRequest:
    """A request with one batch."""
    request = produce_pb2.ProduceRequest(acks=common_pb2.ACKS_ALL)
    request.partitions.add(topic=topic, partition=partition, batch=batch)
    return request


async def big_batches(session: Session, name: str, count: int) -> tuple[float, float]:
    """MB/s of producing and of fetching 1 MiB batches."""
    topic = f"big-{name}"
    await session.create(topic, 1)
    wanted_bytes = count * len(BIG)
    produced_s = await produce(session, count, 4, lambda _: request_of(topic, 0, BIG))
    fetched_s = await fetch(session, topic, wanted_bytes)
    await session.delete(topic)
    return wanted_bytes / produced_s / 1e6, wanted_bytes / fetched_s / 1e6


async def small_requests(session: Session, name: str, count: int) -> float:
    """Requests a second of one small record each, 32 in flight."""
    topic = f"small-{name}"
    await session.create(topic, 1)
    return count / await produce(session, count, 32, lambda _: request_of(topic, 0, SMALL))


async def wide_requests(session: Session, name: str, count: int) -> float:
    """Microseconds of broker time a partition, a thousand of them in a request."""
    topic = f"wide-{name}"
    await session.create(topic, 1_000)
    request = produce_pb2.ProduceRequest(acks=common_pb2.ACKS_ALL)
    for partition in range(1_000):
        request.partitions.add(topic=topic, partition=partition, batch=KILOBYTE)
    await produce(session, 3, 1, lambda _: request)
    cpu_s = session.server.cpu_s()
    await produce(session, count, 2, lambda _: request)
    return (session.server.cpu_s() - cpu_s) / count / 1_000 * 1e6


class Figures:
    """What each round gave, by what and server."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = {}

    def add(self, what: str, server: str, value: float) -> None:
        """One round's figure."""
        self._values.setdefault((what, server), []).append(value)

    def of(self, what: str, server: str) -> list[float]:
        """All rounds' figures."""
        return self._values[what, server]


async def large_turn(session: Session, name: str, figures: Figures, quick: bool) -> None:
    """The workloads of large batches once on one server."""
    produced, fetched = await big_batches(session, name, 100 if quick else 400)
    figures.add("produce stream, 1 MiB batches", session.server.name, produced)
    figures.add("fetch push, 1 MiB batches", session.server.name, fetched)


async def small_turn(session: Session, name: str, figures: Figures, quick: bool) -> None:
    """The workloads of small batches once on one server."""
    server = session.server.name
    small = await small_requests(session, name, 2_000 if quick else 15_000)
    figures.add("one 100 B record a request, 32 in flight", server, small)
    wide = await wide_requests(session, name, 10 if quick else 40)
    figures.add("1,000 partitions of 1 KB in a request", server, wide)


async def measure(servers: list[Server], repeat: int, quick: bool) -> Figures:
    """Rounds in turns, so that a slow minute of the machine hits all of them."""
    figures = Figures()
    sessions = [Session(server) for server in servers]
    try:
        for number in range(repeat):
            for turn in range(1 if quick else LARGE_TURNS):
                for session in sessions:
                    await large_turn(session, f"{number}-{turn}", figures, quick)
            for session in sessions:
                await small_turn(session, f"{number}", figures, quick)
    finally:
        for session in sessions:
            await session.channel.close()
    return figures


UNITS: Final = {
    "produce stream, 1 MiB batches": "MB/s",
    "fetch push, 1 MiB batches": "MB/s",
    "one 100 B record a request, 32 in flight": "requests/s",
    "1,000 partitions of 1 KB in a request": "broker us/partition",
}


def run(repeat: int, quick: bool = False) -> list[Row]:
    """The rows of this bench."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(bare_server()),
            stack.enter_context(broker(None, *BROKER_CONFIGS)),
        ]
        figures = asyncio.run(measure(servers, repeat, quick))
    rows = []
    for what, unit in UNITS.items():
        bare, real = figures.of(what, "bare"), figures.of(what, "tidelog")
        rows.append(row(f"{what}: nothing done", unit, bare))
        rows.append(with_ratio(row(f"{what}: broker", unit, real), "nothing done", real, bare))
    return rows
