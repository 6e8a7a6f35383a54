"""A fetch stream of a client that asks and asks and never reads: what is kept stays bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.errors import InvalidRequest, UnknownTopic
from tidelog.wire.v1 import fetch_pb2
from tidelog_broker.api.caller import Caller
from tidelog_broker.api.fetch_stream import FetchStream
from tidelog_broker.in_flight import InFlightBytes
from tidelog_broker.limits import BrokerLimits
from tidelog_broker.stopping import Stopping
from tidelog_runtime.principal import ANONYMOUS

PARTITIONS_MAX = 10


class Partition:
    """A partition that has something to read."""

    core = SimpleNamespace(high_watermark=1)
    log = SimpleNamespace(log_start=0)

    def check_readable(self, offset: int, known_epoch: int | None) -> None:
        """Every position is fine."""

    def forget_reader(self, reader: object) -> None:
        """Nobody waits."""


class Replicas:
    """One partition, and nothing else."""

    def find(self, topic: str, *_: object) -> Partition:
        if topic != "orders":
            raise UnknownTopic(f"Topic {topic!r} does not exist")
        return Partition()


def stream_of_nobody() -> FetchStream:
    limits = BrokerLimits(1_000, 1_000, 1_000, PARTITIONS_MAX)
    broker: Any = SimpleNamespace(
        stopping=Stopping("Broker 1"),
        limits=limits,
        answers=InFlightBytes(1_000),
        replicas=Replicas(),
        add_leader_hint=lambda *_: None,
    )
    return FetchStream(broker, Caller(ANONYMOUS, "", ""))


def test_a_session_started_again_and_again_is_one_session() -> None:
    stream = stream_of_nobody()
    start = fetch_pb2.FetchPartition(topic="orders", session=1)
    for _ in range(1_000):
        stream._take(fetch_pb2.FetchStreamRequest(start=[start]))
    assert len(stream._ready) == len(stream._sessions) == 1
    stream._take(fetch_pb2.FetchStreamRequest(stop=[1]))
    assert not stream._ready
    assert not stream._sessions


def test_refusals_that_nobody_reads_hold_back_requests() -> None:
    async def main() -> None:
        stream = stream_of_nobody()
        taken = 0

        async def requests() -> AsyncIterator[fetch_pb2.FetchStreamRequest]:
            nonlocal taken
            for number in range(1_000):
                taken = number
                yield fetch_pb2.FetchStreamRequest(
                    start=[fetch_pb2.FetchPartition(topic="gone", session=number)]
                )

        answers = stream.run(requests())
        first = await anext(answers)
        for _ in range(100):
            await asyncio.sleep(0)
        assert taken <= first.count + PARTITIONS_MAX + 1
        told = first.count
        async for answer in answers:
            told += answer.count
        assert told == 1_000

    asyncio.run(main())


def test_every_session_may_seek_at_once() -> None:
    stream = stream_of_nobody()
    start = [fetch_pb2.FetchPartition(topic="orders", session=at) for at in range(PARTITIONS_MAX)]
    stream._take(fetch_pb2.FetchStreamRequest(start=start))
    stream._take(fetch_pb2.FetchStreamRequest(start=start))
    assert len(stream._sessions) == PARTITIONS_MAX
    one_more = fetch_pb2.FetchPartition(topic="orders", session=PARTITIONS_MAX)
    with pytest.raises(InvalidRequest):
        stream._take(fetch_pb2.FetchStreamRequest(start=[one_more]))
