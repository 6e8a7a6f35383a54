"""The cluster for users' tests: it serves, keeps its address and data, and can be cut off."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import grpc
import pytest

from harness.client import Client
from support.eventually import eventually, eventually_async
from tidelog.errors import UnknownTopic
from tidelog.records.builder import BatchBuilder
from tidelog.wire.v1 import metadata_pb2
from tidelog_node.testing import InProcessCluster
from tidelog_node.testing.relay import Relay

Seen = TypeVar("Seen")


def batch(*values: bytes) -> bytes:
    """A batch of records without keys."""
    builder = BatchBuilder()
    for value in values:
        builder.append(value, None, [], 1_700_000_000_000)
    return builder.build()


def with_client(cluster: InProcessCluster, work: Callable[[Client], Awaitable[Seen]]) -> Seen:
    """Runs some work with a raw client, on a loop of the test's own."""

    async def run() -> Seen:
        async with Client(cluster.address) as client:
            return await work(client)

    return asyncio.run(run())


def produce(cluster: InProcessCluster, topic: str, *values: bytes) -> None:
    """Writes one batch."""

    async def work(client: Client) -> None:
        ack = await client.produce(topic, batch(*values))
        assert not ack.HasField("error"), ack.error

    with_client(cluster, work)


async def answers(client: Client) -> bool:
    """Whether the node answers through the network as it is now."""
    try:
        await client.broker.Metadata(metadata_pb2.MetadataRequest(), timeout=5)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


def test_the_fixture_serves(tidelog_cluster: InProcessCluster) -> None:
    produce(tidelog_cluster, "orders", b"one", b"two")
    records = tidelog_cluster.records("orders")
    assert [(record.offset, record.value) for record in records] == [(0, b"one"), (1, b"two")]


@pytest.mark.tidelog(num_partitions=3)
def test_a_marker_configures_the_fixture(tidelog_cluster: InProcessCluster) -> None:
    produce(tidelog_cluster, "orders", b"one")

    async def partitions(client: Client) -> int:
        request = metadata_pb2.MetadataRequest(topics=["orders"])
        (topic,) = (await client.broker.Metadata(request)).topics
        return len(topic.partitions)

    assert with_client(tidelog_cluster, partitions) == 3
    assert [record.value for record in tidelog_cluster.records("orders", 0)] == [b"one"]
    assert tidelog_cluster.records("orders", 1) == []


def test_clients_are_told_the_address_they_dialled(tidelog_cluster: InProcessCluster) -> None:
    async def endpoint(client: Client) -> str:
        request = metadata_pb2.MetadataRequest(dialled_address=client.address)
        (broker,) = (await client.broker.Metadata(request)).brokers
        return f"{broker.host}:{broker.port}"

    assert with_client(tidelog_cluster, endpoint) == tidelog_cluster.address


def test_a_restart_keeps_address_and_records(tidelog_cluster: InProcessCluster) -> None:
    address = tidelog_cluster.address
    produce(tidelog_cluster, "orders", b"before")
    tidelog_cluster.restart()
    produce(tidelog_cluster, "orders", b"after")
    assert tidelog_cluster.address == address
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"before", b"after"]


def test_a_stopped_cluster_does_not_answer(tidelog_cluster: InProcessCluster) -> None:
    tidelog_cluster.stop()
    assert not tidelog_cluster.is_running
    assert not with_client(tidelog_cluster, answers)
    with pytest.raises(RuntimeError, match="does not run"):
        tidelog_cluster.records("orders")
    tidelog_cluster.start()
    assert with_client(tidelog_cluster, answers)


def test_a_cut_network_ends_connections(tidelog_cluster: InProcessCluster) -> None:
    async def work(client: Client) -> None:
        assert await answers(client)
        tidelog_cluster.cut_network()
        assert not await answers(client)
        tidelog_cluster.heal_network()
        await eventually_async(lambda: answers(client), waiting_for="the client to be back")

    produce(tidelog_cluster, "orders", b"one")
    with_client(tidelog_cluster, work)
    assert len(tidelog_cluster.records("orders")) == 1


def test_a_silent_cut_holds_bytes_back(tidelog_cluster: InProcessCluster) -> None:
    async def work(client: Client) -> None:
        assert await answers(client)
        tidelog_cluster.cut_network(silently=True)
        waiting = asyncio.create_task(client.produce("orders", batch(b"late")))
        await asyncio.to_thread(eventually, lambda: tidelog_cluster.is_holding_back)
        assert not waiting.done()
        tidelog_cluster.heal_network()
        ack = await waiting
        assert not ack.HasField("error")

    with_client(tidelog_cluster, work)
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"late"]


def test_the_log_can_be_read_while_the_network_is_cut(tidelog_cluster: InProcessCluster) -> None:
    produce(tidelog_cluster, "orders", b"one")
    tidelog_cluster.cut_network()
    assert len(tidelog_cluster.records("orders")) == 1


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_made_as_the_relay_stops_is_ended(turns: int) -> None:
    """Accepted, but not yet passed on: nothing of it may outlive the loop (warnings are errors)."""

    async def dial_and_stop() -> list[socket.socket]:
        relay = Relay()
        await relay.start()
        dialled = [socket.create_connection((relay.host, relay.port)) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        await relay.stop()
        return dialled

    dialled = asyncio.run(dial_and_stop())
    gc.collect()
    for connection in dialled:
        with connection, contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_the_relay_lets_no_small_answer_wait(tidelog_cluster: InProcessCluster) -> None:
    """Nagle's algorithm would hold each back for a twenty-fifth of a second."""
    relay = tidelog_cluster._started_relay()
    with socket.create_connection((relay.host, relay.port)):
        eventually(lambda: list(relay._passing.values()), waiting_for="the connection")
        (connection,) = relay._passing.values()
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_unknown_topic_is_named(tidelog_cluster: InProcessCluster) -> None:
    produce(tidelog_cluster, "orders", b"one")
    with pytest.raises(UnknownTopic, match="'orders'"):
        tidelog_cluster.records("ordres")


def test_more_records_than_one_answer_holds(tidelog_cluster: InProcessCluster) -> None:
    async def work(client: Client) -> None:
        for number in range(20):
            ack = await client.produce("large", batch(bytes([number]) * 900_000))
            assert not ack.HasField("error"), ack.error

    with_client(tidelog_cluster, work)
    values = [record.value or b"" for record in tidelog_cluster.records("large")]
    assert [(value[0], len(value)) for value in values] == [(n, 900_000) for n in range(20)]


def test_a_folder_of_ones_own_keeps_the_data(tmp_path: Path) -> None:
    with InProcessCluster(tmp_path / "data") as cluster:
        produce(cluster, "orders", b"one")
    with InProcessCluster(tmp_path / "data") as cluster:
        assert [record.value for record in cluster.records("orders")] == [b"one"]


def test_a_temporary_folder_is_removed() -> None:
    with InProcessCluster() as cluster:
        folder = cluster.data_dir
        assert folder.exists()
    assert not folder.exists()


def test_one_that_was_not_started_says_so() -> None:
    cluster = InProcessCluster()
    with pytest.raises(RuntimeError, match="was not started"):
        _ = cluster.address
    cluster.close()


def test_two_clusters_live_side_by_side() -> None:
    with InProcessCluster() as one, InProcessCluster() as other:
        produce(one, "orders", b"one")
        produce(other, "orders", b"other")
        assert [record.value for record in one.records("orders")] == [b"one"]
        assert [record.value for record in other.records("orders")] == [b"other"]
