"""The admin client against a node: topics, configs, offsets, records, the cluster, and its end."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from harness.nodes import LiveNode, on_node
from harness.reading import FIRST_TIMESTAMP, batches_of, fill, in_thread
from tidelog import Admin, AsyncAdmin, ClientClosed, NewTopic, TopicPartition, UnknownTopic
from tidelog.admin.descriptions import CreatedTopic
from tidelog.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    OffsetOutOfRange,
    TopicAlreadyExists,
)

ORDERS = TopicPartition("orders", 0)


@on_node()
async def test_a_topics_life(node: LiveNode) -> None:
    async with AsyncAdmin(node.node.bootstrap) as admin:
        created = await admin.create_topic("orders", partitions=3, config={"retention.ms": 5_000})
        assert created is not None
        assert (created.name, created.partitions, created.replication_factor) == ("orders", 3, 1)
        assert created.config == {"retention.ms": "5000"}
        with pytest.raises(TopicAlreadyExists, match="'orders' exists already"):
            await admin.create_topic("orders")
        assert await admin.create_topic("orders", if_not_exists=True) is None
        assert await admin.list_topics() == ["orders"]
        topic = await admin.describe_topic("orders")
        assert topic.topic_id == created.topic_id
        assert [partition.leader for partition in topic.partitions] == [1, 1, 1]
        assert (await admin.create_partitions("orders", 5)).partitions == 5
        assert (await admin.describe_topic("orders")).partition_count == 5
        with pytest.raises(InvalidPartitions, match="can only grow"):
            await admin.create_partitions("orders", 2)
        assert await admin.delete_topic("orders")
        with pytest.raises(UnknownTopic):
            await admin.delete_topic("orders")
        assert not await admin.delete_topic("orders", if_exists=True)
        assert await admin.list_topics() == []


@on_node()
async def test_many_topics_at_once_have_each_their_outcome(node: LiveNode) -> None:
    async with AsyncAdmin(node.node.bootstrap) as admin:
        topics = [NewTopic("orders"), NewTopic("bad name"), NewTopic("payments", 2)]
        outcomes = await admin.create_topics(topics)
        assert [type(outcome).__name__ for outcome in outcomes.values()] == [
            "CreatedTopic",
            "InvalidTopic",
            "CreatedTopic",
        ]
        tried = await admin.create_topics([NewTopic("later")], validate_only=True)
        assert isinstance(tried["later"], CreatedTopic)
        described = await admin.describe_topics()
        assert sorted(described) == ["orders", "payments"]
        with pytest.raises(UnknownTopic, match="Did you mean 'orders'"):
            await admin.describe_topics(["payments", "ordres"])
        deleted = await admin.delete_topics(["orders", "nothing"])
        assert deleted["orders"] is None
        assert isinstance(deleted["nothing"], UnknownTopic)


@on_node()
async def test_configs(node: LiveNode) -> None:
    async with AsyncAdmin(node.node.bootstrap) as admin:
        await admin.create_topic("orders")
        await admin.alter_config("orders", {"retention.ms": 7, "segment.bytes": 1_500_000})
        entries = await admin.describe_config(topic="orders", keys=["retention.ms", "segment.ms"])
        retention, segment = entries["retention.ms"], entries["segment.ms"]
        assert (retention.value, retention.source, retention.is_default) == ("7", "topic", False)
        assert segment.is_default
        assert retention.documentation
        await admin.alter_config("orders", delete=["retention.ms"])
        entries = await admin.describe_config(topic="orders")
        assert entries["retention.ms"].is_default
        assert entries["segment.bytes"].value == "1500000"
        with pytest.raises(InvalidConfig, match=r"Did you mean 'retention\.ms'"):
            await admin.alter_config("orders", {"retention.m": 1})
        await admin.alter_config("orders", {"segment.bytes": 2_000_000}, validate_only=True)
        assert (await admin.describe_config(topic="orders"))["segment.bytes"].value == "1500000"
        brokers = await admin.describe_config(broker=1)
        assert brokers["num.partitions"].read_only
        with pytest.raises(InvalidRequest, match="no broker 9"):
            await admin.describe_config(broker=9)


@on_node()
async def test_offsets_and_records(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    await fill(node, "orders", batches_of(0, 3_000))
    time = datetime.fromtimestamp((FIRST_TIMESTAMP + 1_500) / 1000, UTC)
    async with AsyncAdmin(node.node.bootstrap) as admin:
        ends = await admin.list_offsets("orders")
        assert [place.offset for place in ends.values() if place is not None] == [3_000, 0]
        found = await admin.list_offsets(ORDERS, time)
        place = found[ORDERS]
        assert place is not None
        assert (place.offset, place.timestamp) == (1_500, FIRST_TIMESTAMP + 1_500)
        newest = (await admin.list_offsets([ORDERS], "max_timestamp"))[ORDERS]
        assert newest is not None
        assert newest.offset == 2_999
        assert await admin.list_offsets([ORDERS], timedelta(0)) == {ORDERS: None}
        with pytest.raises(InvalidRequest, match="known already"):
            await admin.list_offsets("orders", 5)
        assert await admin.delete_records({ORDERS: 1_200}) == {ORDERS: 1_200}
        begin = (await admin.list_offsets(ORDERS, "earliest"))[ORDERS]
        assert begin is not None
        assert begin.offset == 1_200
        first = datetime.fromtimestamp((FIRST_TIMESTAMP + 3) / 1000, UTC)
        later = (await admin.list_offsets(ORDERS, first))[ORDERS]
        assert later is not None
        assert later.offset == 1_200
        with pytest.raises(OffsetOutOfRange):
            await admin.delete_records({ORDERS: 3_001})
        assert await admin.delete_records({ORDERS: "latest"}) == {ORDERS: 3_000}


@on_node()
async def test_the_cluster(node: LiveNode) -> None:
    async with AsyncAdmin(node.node.bootstrap) as admin:
        cluster = await admin.describe_cluster()
        (broker,) = cluster.brokers
        assert f"{broker.host}:{broker.port}" == node.node.bootstrap
        assert (broker.broker_id, cluster.controller_id) == (1, 1)
        assert cluster.cluster_id == node.node.broker.cluster_id


@on_node()
async def test_admin_goes_on_after_a_restart(node: LiveNode) -> None:
    address = node.node.bootstrap
    async with AsyncAdmin(address) as admin:
        await admin.create_topic("orders")
        await node.restart(listeners=address)
        assert await admin.list_topics() == ["orders"]
        await admin.create_topic("payments")
        assert await admin.list_topics() == ["orders", "payments"]


def thread_names() -> list[str]:
    """The threads there are."""
    return [thread.name for thread in threading.enumerate()]


@on_node()
async def test_the_sync_client_does_the_same_and_ends_its_thread(node: LiveNode) -> None:
    def work() -> None:
        with Admin(node.node.bootstrap) as admin:
            assert "tidelog-admin" in thread_names()
            assert admin.create_topic("orders", partitions=2) is not None
            assert list(admin.create_topics([NewTopic("payments")])) == ["payments"]
            assert admin.list_topics() == ["orders", "payments"]
            assert admin.describe_topic("orders").partition_count == 2
            assert list(admin.describe_topics(["orders"])) == ["orders"]
            assert admin.create_partitions("orders", 3).partitions == 3
            admin.alter_config("orders", {"retention.ms": 9})
            entries = admin.describe_config(topic="orders", keys=["retention.ms"])
            assert entries["retention.ms"].value == "9"
            assert len(admin.list_offsets("orders")) == 3
            assert admin.delete_records({ORDERS: 0}) == {ORDERS: 0}
            assert admin.describe_cluster().controller_id == 1
            assert admin.delete_topic("payments")
            assert admin.delete_topics(["orders"]) == {"orders": None}
        # By name: the node is in this process too, and begins threads as it needs them.
        assert "tidelog-admin" not in thread_names()
        with pytest.raises(ClientClosed):
            admin.list_topics()

    await in_thread(work)
