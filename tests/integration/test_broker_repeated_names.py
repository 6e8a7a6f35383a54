"""Administration of things named again and again, or by names nobody has: each is answered once."""

from __future__ import annotations

from harness.nodes import LiveNode, on_node
from tidelog.wire.v1 import admin_pb2, common_pb2
from tidelog_broker.api.metadata import HINTS_MAX

NEAR = "Did you mean 'orders'?"
UNKNOWN = [f"order{number}" for number in range(HINTS_MAX + 5)]
HINTS = [NEAR] * HINTS_MAX + [""] * 5


@on_node()
async def test_configs_are_described_once_however_often_they_are_asked_for(node: LiveNode) -> None:
    await node.client.create("orders")
    request = admin_pb2.DescribeConfigsRequest()
    for _ in range(1_000):
        request.resources.add().resource.type = admin_pb2.CONFIG_RESOURCE_BROKER
        one = request.resources.add(keys=["retention.ms", "segment.bytes"] * 10)
        one.resource.type = admin_pb2.CONFIG_RESOURCE_TOPIC
        one.resource.name = "orders"
    broker, topic = (await node.client.admin.DescribeConfigs(request)).resources
    assert broker.resource.type == admin_pb2.CONFIG_RESOURCE_BROKER
    assert topic.resource.name == "orders"
    assert [entry.key for entry in topic.entries] == ["retention.ms", "segment.bytes"]


@on_node()
async def test_only_so_many_topics_without_configs_are_told_the_nearest(node: LiveNode) -> None:
    await node.client.create("orders")
    request = admin_pb2.DescribeConfigsRequest()
    for name in UNKNOWN:
        resource = request.resources.add().resource
        resource.type, resource.name = admin_pb2.CONFIG_RESOURCE_TOPIC, name
    answers = (await node.client.admin.DescribeConfigs(request)).resources
    assert [answer.error.hint for answer in answers] == HINTS
    alterations = admin_pb2.AlterConfigsRequest()
    for name in [*UNKNOWN, "orders"]:
        item = alterations.resources.add()
        item.resource.type, item.resource.name = admin_pb2.CONFIG_RESOURCE_TOPIC, name
        item.alterations.add(key="retention.ms", value="1000")
    *unknown, known = (await node.client.admin.AlterConfigs(alterations)).resources
    assert [answer.error.hint for answer in unknown] == HINTS
    assert not known.HasField("error")


@on_node()
async def test_a_topic_is_deleted_once_however_often_it_is_named(node: LiveNode) -> None:
    await node.client.create("orders")
    topic_id = await node.client.create("payments")
    request = admin_pb2.DeleteTopicsRequest(
        names=[*UNKNOWN, *["payments"] * 1_000], topic_ids=[topic_id] * 1_000
    )
    *unknown, deleted, gone = (await node.client.admin.DeleteTopics(request)).topics
    assert [result.name for result in unknown] == UNKNOWN
    assert [result.error.hint for result in unknown] == HINTS
    assert (deleted.name, deleted.HasField("error")) == ("payments", False)
    assert gone.error.code == common_pb2.UNKNOWN_TOPIC_ID
