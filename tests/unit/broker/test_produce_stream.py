"""A produce stream whose client does not read: what waits for it stays bounded."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from tidelog.model import TopicId
from tidelog.wire.envelopes import Incoming
from tidelog.wire.v1 import common_pb2, produce_pb2
from tidelog_broker.api.caller import Caller
from tidelog_broker.api.produce import ProduceAnswer
from tidelog_broker.api.produce_stream import VERDICTS_QUEUED_MAX, ProduceStream
from tidelog_broker.in_flight import InFlightBytes
from tidelog_broker.partition.replicas import Replicas
from tidelog_broker.stopping import Stopping
from tidelog_runtime.principal import ANONYMOUS

REQUESTS = VERDICTS_QUEUED_MAX * 2


class SlowSink:
    """A client that reads nothing until it is told to."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.answers: list[produce_pb2.ProduceResponse] = []

    async def write(self, response: produce_pb2.ProduceResponse) -> None:
        await self.reads.wait()
        self.answers.append(response)


def test_answers_that_nobody_reads_hold_back_requests() -> None:
    async def main() -> None:
        broker: Any = SimpleNamespace(stopping=Stopping("Broker 1"), in_flight=InFlightBytes(1))
        sink = SlowSink()
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), sink)
        taken = 0

        async def refused_requests() -> AsyncIterator[Incoming[produce_pb2.ProduceRequest]]:
            nonlocal taken
            for number in range(REQUESTS):
                taken = number
                request = produce_pb2.ProduceRequest(
                    acks=9,  # type: ignore[arg-type]
                    correlation_id=number,
                )
                yield Incoming(request, [])

        # An answer on its way: from now on others queue up behind it.
        first = ProduceAnswer(-1)
        stream._unanswered[first] = None
        stream._on_complete(first)
        serving = asyncio.create_task(stream.run(refused_requests()), name="serving")
        for _ in range(REQUESTS * 2):
            await asyncio.sleep(0)
        assert taken <= VERDICTS_QUEUED_MAX + 1
        sink.reads.set()
        await serving
        assert [answer.correlation_id for answer in sink.answers] == list(range(-1, REQUESTS))
        codes = {answer.error.code for answer in sink.answers[1:]}
        assert codes == {common_pb2.INVALID_REQUIRED_ACKS}

    asyncio.run(main())


def test_few_answers_with_many_verdicts_hold_back_requests_too() -> None:
    async def main() -> None:
        replicas = Replicas()
        replicas.know_topic("orders", TopicId(b"t" * 16), 1)
        broker: Any = SimpleNamespace(
            stopping=Stopping("Broker 1"),
            in_flight=InFlightBytes(1),
            clock=SimpleNamespace(now_ms=lambda: 0),
            replicas=replicas,
            add_leader_hint=lambda *_: None,
        )
        sink = SlowSink()
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), sink)
        partitions = [produce_pb2.PartitionBatch(topic="orders")] * 1_000
        taken = 0

        async def requests() -> AsyncIterator[Incoming[produce_pb2.ProduceRequest]]:
            nonlocal taken
            for taken in range(50):  # noqa: B007 - looked at below
                yield Incoming(
                    produce_pb2.ProduceRequest(partitions=partitions), [b""] * len(partitions)
                )

        first = ProduceAnswer(-1)
        stream._unanswered[first] = None
        stream._on_complete(first)
        serving = asyncio.create_task(stream.run(requests()), name="serving")
        for _ in range(100):
            await asyncio.sleep(0)
        assert taken * len(partitions) <= VERDICTS_QUEUED_MAX
        sink.reads.set()
        await serving
        assert len(sink.answers) == 51

    asyncio.run(main())


def test_a_stopping_broker_answers_what_it_took_and_ends_the_stream() -> None:
    async def main() -> None:
        stopping = Stopping("Broker 1")
        broker: Any = SimpleNamespace(stopping=stopping, in_flight=InFlightBytes(1))
        sink = SlowSink()
        sink.reads.set()
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), sink)

        async def no_requests() -> AsyncIterator[Incoming[produce_pb2.ProduceRequest]]:
            await asyncio.Event().wait()
            yield Incoming(produce_pb2.ProduceRequest(), [])

        owed = ProduceAnswer(4)
        stream._unanswered[owed] = None
        serving = asyncio.create_task(stream.run(no_requests()), name="serving")
        await asyncio.sleep(0)
        stopping.set()
        await asyncio.sleep(0)
        assert not serving.done()
        stream._on_complete(owed)
        await serving
        assert [answer.correlation_id for answer in sink.answers] == [4]

    asyncio.run(main())


class Watched(list[int]):
    """A part of a request that can be watched, which bytes and messages can't."""


def test_a_stream_keeps_no_request_that_it_has_answered() -> None:
    async def main() -> None:
        stopping = Stopping("Broker 1")
        broker: Any = SimpleNamespace(stopping=stopping, in_flight=InFlightBytes(1))
        sink = SlowSink()
        sink.reads.set()
        watched: list[weakref.ref[Watched]] = []

        async def one_request() -> AsyncIterator[Incoming[produce_pb2.ProduceRequest]]:
            part = Watched()
            watched.append(weakref.ref(part))
            refused = produce_pb2.ProduceRequest(acks=9)  # type: ignore[arg-type]
            yield Incoming(refused, [], begins=part)
            del part
            await asyncio.Event().wait()

        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), sink)
        serving = asyncio.create_task(stream.run(one_request()), name="serving")
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(sink.answers) == 1
        assert [one() for one in watched] == [None]
        stopping.set()
        await serving

    asyncio.run(main())
