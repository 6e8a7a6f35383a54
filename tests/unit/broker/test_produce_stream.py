"""A produce stream whose client does not read, or fails: what is held, and how it ends."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from grpc.aio import EOF

from tidelog.errors import InvalidRequest
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
Request = Incoming[produce_pb2.ProduceRequest]


class SlowCall:
    """A client that sends what it is given, and reads nothing until it is told to."""

    def __init__(self, requests: AsyncIterator[Request]) -> None:
        self._requests = requests
        self.reads = asyncio.Event()
        self.answers: list[produce_pb2.ProduceResponse] = []

    async def read(self) -> Any:
        return await anext(self._requests, EOF)

    async def write(self, response: produce_pb2.ProduceResponse) -> None:
        await self.reads.wait()
        self.answers.append(response)


def test_answers_that_nobody_reads_hold_back_requests() -> None:
    async def main() -> None:
        broker: Any = SimpleNamespace(stopping=Stopping("Broker 1"), in_flight=InFlightBytes(1))
        taken = 0

        async def refused_requests() -> AsyncIterator[Request]:
            nonlocal taken
            for number in range(REQUESTS):
                taken = number
                request = produce_pb2.ProduceRequest(
                    acks=9,  # type: ignore[arg-type]
                    correlation_id=number,
                )
                yield Incoming(request, [])

        call = SlowCall(refused_requests())
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), call)
        # An answer on its way: from now on others queue up behind it.
        first = ProduceAnswer(-1)
        stream._unanswered[first] = None
        stream._on_complete(first)
        serving = asyncio.create_task(stream.run(), name="serving")
        for _ in range(REQUESTS * 2):
            await asyncio.sleep(0)
        assert taken <= VERDICTS_QUEUED_MAX + 1
        call.reads.set()
        await serving
        assert [answer.correlation_id for answer in call.answers] == list(range(-1, REQUESTS))
        codes = {answer.error.code for answer in call.answers[1:]}
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
        partitions = [produce_pb2.PartitionBatch(topic="orders")] * 1_000
        taken = 0

        async def requests() -> AsyncIterator[Request]:
            nonlocal taken
            for taken in range(50):  # noqa: B007 - looked at below
                yield Incoming(
                    produce_pb2.ProduceRequest(partitions=partitions), [b""] * len(partitions)
                )

        call = SlowCall(requests())
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), call)
        first = ProduceAnswer(-1)
        stream._unanswered[first] = None
        stream._on_complete(first)
        serving = asyncio.create_task(stream.run(), name="serving")
        for _ in range(100):
            await asyncio.sleep(0)
        assert taken * len(partitions) <= VERDICTS_QUEUED_MAX
        call.reads.set()
        await serving
        assert len(call.answers) == 51

    asyncio.run(main())


def test_a_stopping_broker_answers_what_it_took_and_ends_the_stream() -> None:
    async def main() -> None:
        stopping = Stopping("Broker 1")
        broker: Any = SimpleNamespace(stopping=stopping, in_flight=InFlightBytes(1))

        async def no_requests() -> AsyncIterator[Request]:
            await asyncio.Event().wait()
            yield Incoming(produce_pb2.ProduceRequest(), [])

        call = SlowCall(no_requests())
        call.reads.set()
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), call)
        owed = ProduceAnswer(4)
        stream._unanswered[owed] = None
        serving = asyncio.create_task(stream.run(), name="serving")
        await asyncio.sleep(0)
        stopping.set()
        await asyncio.sleep(0)
        assert not serving.done()
        stream._on_complete(owed)
        await serving
        assert [answer.correlation_id for answer in call.answers] == [4]

    asyncio.run(main())


class Watched(list[int]):
    """A part of a request that can be watched, which bytes and messages can't."""


def test_a_stream_keeps_no_request_that_it_has_answered() -> None:
    async def main() -> None:
        stopping = Stopping("Broker 1")
        broker: Any = SimpleNamespace(stopping=stopping, in_flight=InFlightBytes(1))
        watched: list[weakref.ref[Watched]] = []

        async def one_request() -> AsyncIterator[Request]:
            part = Watched()
            watched.append(weakref.ref(part))
            refused = produce_pb2.ProduceRequest(acks=9)  # type: ignore[arg-type]
            yield Incoming(refused, [], begins=part)
            del part
            await asyncio.Event().wait()

        call = SlowCall(one_request())
        call.reads.set()
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), call)
        serving = asyncio.create_task(stream.run(), name="serving")
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(call.answers) == 1
        assert [one() for one in watched] == [None]
        stopping.set()
        await serving

    asyncio.run(main())


def test_a_request_that_is_none_ends_the_stream_behind_the_answer_under_way() -> None:
    """gRPC takes no status while a message is being sent: the client would wait for ever."""

    async def main() -> None:
        broker: Any = SimpleNamespace(stopping=Stopping("Broker 1"), in_flight=InFlightBytes(1))

        async def no_request() -> AsyncIterator[Request]:
            raise InvalidRequest("no message of this protocol")
            yield

        call = SlowCall(no_request())
        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), call)
        first, second = ProduceAnswer(1), ProduceAnswer(2)
        for answer in (first, second):
            stream._unanswered[answer] = None
            stream._on_complete(answer)
        serving = asyncio.create_task(stream.run(), name="serving")
        for _ in range(20):
            await asyncio.sleep(0)
        assert not serving.done()
        call.reads.set()
        with pytest.raises(InvalidRequest):
            await serving
        assert [answer.correlation_id for answer in call.answers] == [1]

    asyncio.run(main())


def test_a_client_that_is_gone_while_it_is_answered_ends_the_stream() -> None:
    class GoneCall(SlowCall):
        async def write(self, response: produce_pb2.ProduceResponse) -> None:
            raise ConnectionError("gone")

    async def main() -> None:
        broker: Any = SimpleNamespace(stopping=Stopping("Broker 1"), in_flight=InFlightBytes(1))

        async def refused() -> AsyncIterator[Request]:
            yield Incoming(produce_pb2.ProduceRequest(acks=9), [])  # type: ignore[arg-type]

        stream = ProduceStream(broker, Caller(ANONYMOUS, "", ""), GoneCall(refused()))
        with pytest.raises(ConnectionError):
            await stream.run()

    asyncio.run(main())
