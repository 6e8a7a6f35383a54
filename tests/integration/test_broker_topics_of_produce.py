"""How a produce names its partition: names, ids, leader epochs, internal topics, auto-creation."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_kit.batches import batch

from harness.client import Client, partition_batch, produce_request
from harness.nodes import LiveNode, on_node, run_on_node
from tidelog.wire.v1 import common_pb2, produce_pb2


async def produce_one(client: Client, item: produce_pb2.PartitionBatch) -> produce_pb2.PartitionAck:
    (ack,) = (await client.broker.Produce(produce_request(item))).partitions
    return ack


@on_node(auto_create_topics_enable="false")
async def test_an_unknown_topic_is_refused_with_the_nearest_name(node: LiveNode) -> None:
    await node.client.create("orders")
    ack = await node.client.produce("ordres", batch())
    assert ack.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert "'ordres'" in ack.error.message
    assert "orders" in ack.error.hint
    ack = await node.client.produce("orders", batch(), partition=1)
    assert ack.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert "has no partition 1: it has 1" in ack.error.message
    assert (await node.client.produce("orders", batch(), partition=-1)).HasField("error")


@on_node(num_partitions="3")
async def test_a_first_produce_creates_its_topic(node: LiveNode) -> None:
    ack = await node.client.produce("orders", batch(b"a"), partition=2)
    assert not ack.HasField("error"), ack.error
    stream = node.client.produce_stream()
    await stream.send(produce_request(partition_batch("payments", batch(b"b"))))
    (answer,) = await stream.finish()
    assert not answer.partitions[0].HasField("error")
    assert await node.client.values("orders", 2) == [b"a"]
    assert await node.client.values("payments") == [b"b"]


@on_node()
async def test_only_a_produce_creates_topics(node: LiveNode) -> None:
    answer = await node.client.fetch("orders")
    assert answer.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    offset = await node.client.list_offset("orders", -1)
    assert offset.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert node.node.broker.view.topic("orders") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x" * 250, "a\0b", "a\nb"])
def test_an_illegal_name_is_refused_in_words(tmp_path: Path, name: str) -> None:
    async def scenario(node: LiveNode) -> None:
        ack = await node.client.produce(name, batch())
        legal_but_missing = common_pb2.UNKNOWN_TOPIC_OR_PARTITION
        expected = common_pb2.INVALID_TOPIC_EXCEPTION if name else legal_but_missing
        assert ack.error.code == expected, ack.error
        assert ack.error.message

    run_on_node(tmp_path / "data", scenario)


@on_node()
async def test_names_that_metrics_would_confuse_are_refused(node: LiveNode) -> None:
    await node.client.create("a.b")
    ack = await node.client.produce("a_b", batch())
    assert ack.error.code == common_pb2.INVALID_TOPIC_EXCEPTION
    assert "collides" in ack.error.message


@on_node()
async def test_a_topic_id_wins_over_a_name(node: LiveNode) -> None:
    topic_id = await node.client.create("orders")
    await node.client.create("payments")
    for name in ("orders", "payments", ""):
        ack = await produce_one(
            node.client, partition_batch(name, batch(name.encode()), topic_id=topic_id)
        )
        assert not ack.HasField("error"), ack.error
    assert len(await node.client.values("orders")) == 3
    assert await node.client.values("payments") == []


@on_node()
async def test_an_unknown_topic_id_is_refused_and_creates_nothing(node: LiveNode) -> None:
    for topic_id in (bytes(16), b"short", b"x" * 100):
        ack = await produce_one(node.client, partition_batch("orders", batch(), topic_id=topic_id))
        assert ack.error.code == common_pb2.UNKNOWN_TOPIC_ID
    assert node.node.broker.view.topic("orders") is None


@on_node()
async def test_a_topic_created_again_is_another_topic(node: LiveNode) -> None:
    old_id = await node.client.create("orders")
    await node.client.produce("orders", batch(b"old"))
    await node.client.delete("orders")
    ack = await produce_one(node.client, partition_batch("orders", batch(), topic_id=old_id))
    assert ack.error.code == common_pb2.UNKNOWN_TOPIC_ID
    new_id = await node.client.create("orders")
    assert new_id != old_id
    ack = await produce_one(node.client, partition_batch("orders", batch(), topic_id=old_id))
    assert ack.error.code == common_pb2.UNKNOWN_TOPIC_ID
    assert "created anew" in ack.error.hint
    assert await node.client.values("orders") == []
    await node.client.produce("orders", batch(b"new"))
    assert await node.client.values("orders") == [b"new"]


@on_node()
async def test_leader_epochs_are_fenced(node: LiveNode) -> None:
    await node.client.create("orders")
    assert node.node.broker.view.topic("orders") is not None
    ack = await produce_one(node.client, partition_batch("orders", batch(b"a"), leader_epoch=0))
    assert not ack.HasField("error"), ack.error
    ack = await produce_one(node.client, partition_batch("orders", batch(), leader_epoch=1))
    assert ack.error.code == common_pb2.UNKNOWN_LEADER_EPOCH
    ack = await produce_one(node.client, partition_batch("orders", batch(), leader_epoch=-1))
    assert ack.error.code == common_pb2.FENCED_LEADER_EPOCH
    assert ack.leader.leader_id == 1
    assert ack.leader.leader_epoch == 0
    assert ack.leader.endpoint.port == node.node.broker.port
    assert await node.client.values("orders") == [b"a"]


@on_node()
async def test_internal_topics_are_open_to_the_cluster_alone(node: LiveNode) -> None:
    await node.internal.create("__groups")
    ack = await node.client.produce("__groups", batch(b"x"))
    assert ack.error.code == common_pb2.TOPIC_AUTHORIZATION_FAILED
    assert "internal" in ack.error.message
    assert (await node.client.fetch("__groups")).error.code == ack.error.code
    assert (await node.client.list_offset("__groups", -1)).error.code == ack.error.code
    assert not (await node.internal.produce("__groups", batch(b"a"))).HasField("error")
    assert await node.internal.values("__groups") == [b"a"]


@on_node()
async def test_a_client_cannot_create_an_internal_topic_by_writing_to_it(node: LiveNode) -> None:
    ack = await node.client.produce("__secret", batch())
    assert ack.error.code == common_pb2.INVALID_TOPIC_EXCEPTION
    assert node.node.broker.view.topic("__secret") is None
    assert not (await node.internal.produce("__secret", batch())).HasField("error")
