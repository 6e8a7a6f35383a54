"""The client's view of the cluster: what an answer that is older than the view may not do."""

from __future__ import annotations

import asyncio

from grpc.aio import Channel

from tidelog.engine.cluster import Cluster
from tidelog.wire.v1 import metadata_pb2


def described(revision: int) -> metadata_pb2.MetadataResponse:
    """An answer of a broker that is at this revision."""
    answer = metadata_pb2.MetadataResponse(cluster_id="c", revision=revision)
    answer.topics.add(name="orders", topic_id=b"id").partitions.add(partition=0, leader_id=1)
    return answer


class Answers(Cluster):
    """A cluster whose brokers give these answers, one after the other."""

    def __init__(self, *answers: metadata_pb2.MetadataResponse) -> None:
        super().__init__(["one:1"], no_channel, client_id="test", request_timeout_s=1.0)
        self.answers = list(answers)

    async def ask_metadata(
        self, request: metadata_pb2.MetadataRequest
    ) -> metadata_pb2.MetadataResponse:
        return self.answers.pop(0)


def no_channel(address: str, /) -> Channel:
    raise AssertionError(address)


def test_a_broker_that_lags_does_not_make_a_topic_unknown() -> None:
    async def scenario() -> None:
        cluster = Answers(described(5), described(4), described(6))
        deadline = asyncio.get_running_loop().time() + 60
        assert (await cluster.topic("orders", deadline=deadline)).name == "orders"
        cluster.view.mark_stale("orders")
        assert (await cluster.topic("orders", deadline=deadline)).name == "orders"
        assert cluster.answers == []
        await cluster.close()

    asyncio.run(scenario())
