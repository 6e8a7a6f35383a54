"""Brokers say how long a client shall be silent (`throttle_ms`), and it is, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from grpc.aio import Channel

from simulation.world import World, run
from tidelog.consumer.leader_stream import LeaderStream
from tidelog.engine.connections import Connection
from tidelog.errors import BrokerUnreachable
from tidelog.wire.envelopes import Incoming
from tidelog.wire.v1 import fetch_pb2, metadata_pb2

ADDRESS = "there:1"


def test_a_question_waits_as_long_as_the_last_answer_asked_for() -> None:
    asked: list[float] = []

    async def call(question: object, *, timeout: float, metadata: object) -> Any:  # noqa: ASYNC109
        asked.append(asyncio.get_running_loop().time())
        return metadata_pb2.MetadataResponse(throttle_ms=700 if len(asked) == 1 else 0)

    async def case(channel: Channel) -> None:
        connection = Connection(ADDRESS, channel, ())
        for _ in range(3):
            await connection.ask(call, None, 5.0)  # type: ignore[arg-type]

    world = World(1)
    run(lambda world: case(world.network.host("here").channel_factory(ADDRESS)), 0, world=world)
    assert asked[1] - asked[0] == pytest.approx(0.7)
    assert asked[2] == asked[1]


class Leader:
    """A leader's end of a stream: asks for silence, then listens."""

    def __init__(self, stream: LeaderStream) -> None:
        self.stream = stream
        self.heard_after_s = 0.0

    def fetch_stream(self, requests: AsyncIterator[Any], metadata: object) -> Any:
        self.answers = self._answers(requests)
        return self

    def cancel(self) -> None:
        """The client has left."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.answers

    async def _answers(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        loop = asyncio.get_running_loop()
        yield Incoming(fetch_pb2.FetchStreamResponse(throttle_ms=500), [])
        begun = loop.time()
        self.stream.grant(10)
        assert (await anext(requests)).credit_bytes == 10
        self.heard_after_s = loop.time() - begun


def test_wishes_wait_as_long_as_a_leader_asks_for() -> None:
    stream = LeaderStream(ADDRESS, fetch_pb2.FetchOptions())
    leader = Leader(stream)
    connection: Any = SimpleNamespace(fetch_stream=leader.fetch_stream, metadata=())

    async def case() -> None:
        with pytest.raises(BrokerUnreachable, match="has ended the stream"):
            await stream.run(connection, lambda address, response: None)

    run(lambda world: case(), 0, world=World(1))
    assert leader.heard_after_s == pytest.approx(0.5)
