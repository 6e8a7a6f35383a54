"""Admin calls: topics, partitions, configs; the errors of each, and that a change takes effect."""

from __future__ import annotations

import pytest
from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import error_of
from harness.nodes import LiveNode, on_node
from support.eventually import eventually_async
from tidelog.wire.v1 import admin_pb2, common_pb2


async def create(
    node: LiveNode, *topics: admin_pb2.NewTopic, validate_only: bool = False
) -> list[admin_pb2.TopicResult]:
    request = admin_pb2.CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return list((await node.client.admin.CreateTopics(request)).topics)


def codes(results: list[admin_pb2.TopicResult]) -> list[int]:
    return [result.error.code for result in results]


# --- topics --------------------------------------------------------------------------------------


@on_node(num_partitions="4")
async def test_topics_are_created_as_asked_for(node: LiveNode) -> None:
    defaults, sized = await create(
        node,
        admin_pb2.NewTopic(name="orders"),
        admin_pb2.NewTopic(
            name="payments",
            partitions=2,
            replication_factor=1,
            configs={"retention.ms": "7 d", "max.message.bytes": "2 MiB"},
        ),
    )
    assert (defaults.partitions, defaults.replication_factor) == (4, 1)
    assert (sized.partitions, sized.replication_factor) == (2, 1)
    assert {entry.key: entry.value for entry in sized.configs} == {
        "max.message.bytes": "2097152",
        "retention.ms": "604800000",
    }
    assert len({defaults.topic_id, sized.topic_id}) == 2
    assert not (await node.client.produce("payments", batch(), partition=1)).HasField("error")


@on_node()
async def test_a_topic_that_cannot_be_does_not_keep_the_others_from_being(node: LiveNode) -> None:
    await node.client.create("taken")
    new = admin_pb2.NewTopic
    results = await create(
        node,
        new(name="taken"),
        new(name="a b"),
        new(name="fine"),
        new(name="many", partitions=10_001),
        new(name="none", partitions=-2),
        new(name="far", replication_factor=3),
        new(name="odd", configs={"retention.mss": "1"}),
        new(name="bad", configs={"retention.ms": "soon"}),
        new(name="big", configs={"max.message.bytes": "1 GiB"}),
        new(name="__inner"),
        new(name="twice"),
        new(name="twice"),
        new(name="later", configs={"cleanup.policy": "compact"}),
    )
    assert codes(results) == [
        common_pb2.TOPIC_ALREADY_EXISTS,
        common_pb2.INVALID_TOPIC_EXCEPTION,
        0,
        common_pb2.INVALID_PARTITIONS,
        common_pb2.INVALID_PARTITIONS,
        common_pb2.NOT_ENOUGH_REPLICAS,  # one broker lives, more may come
        common_pb2.INVALID_CONFIG,
        common_pb2.INVALID_CONFIG,
        common_pb2.INVALID_CONFIG,
        common_pb2.INVALID_TOPIC_EXCEPTION,
        common_pb2.INVALID_REQUEST,
        common_pb2.INVALID_REQUEST,
        common_pb2.INVALID_CONFIG,
    ]
    assert "retention.ms" in results[6].error.hint
    assert sorted(node.node.broker.view.topic_names) == ["fine", "taken"]


@on_node()
async def test_validate_only_changes_nothing(node: LiveNode) -> None:
    new = admin_pb2.NewTopic
    wanted = (new(name="orders", partitions=3), new(name="a b"))
    fine, refused = await create(node, *wanted, validate_only=True)
    assert fine.partitions == 3
    assert refused.error.code == common_pb2.INVALID_TOPIC_EXCEPTION
    assert node.node.broker.view.topic("orders") is None


@on_node()
async def test_replicas_can_be_assigned(node: LiveNode) -> None:
    def assigned(name: str, *brokers: list[int], partitions: int = 0) -> admin_pb2.NewTopic:
        new = admin_pb2.NewTopic(name=name, partitions=partitions)
        for number, ids in enumerate(brokers):
            new.assignment.add(partition=number, broker_ids=ids)
        return new

    results = await create(
        node,
        assigned("fine", [1], [1]),
        assigned("unknown", [7]),
        assigned("double", [1, 1]),
        assigned("empty", []),
        assigned("both", [1], partitions=1),
    )
    assert results[0].partitions == 2
    assert codes(results)[0] == 0
    assert codes(results)[1] == common_pb2.NOT_ENOUGH_REPLICAS
    assert codes(results)[2:4] == [common_pb2.INVALID_REPLICA_ASSIGNMENT] * 2
    assert codes(results)[4] == common_pb2.INVALID_REQUEST


@on_node()
async def test_topics_are_deleted_by_name_and_by_id(node: LiveNode) -> None:
    await node.client.create("orders")
    topic_id = await node.client.create("payments")
    await node.client.produce("orders", batch(b"x" * 1_000))
    folder = node.data_dir / "topics"
    assert len(list(folder.glob("*/0/*.log"))) == 1
    request = admin_pb2.DeleteTopicsRequest(
        names=["orders", "gone"], topic_ids=[topic_id, bytes(16), b"short"]
    )
    results = list((await node.client.admin.DeleteTopics(request)).topics)
    assert codes(results) == [
        0,
        common_pb2.UNKNOWN_TOPIC_OR_PARTITION,
        0,
        common_pb2.UNKNOWN_TOPIC_ID,
        common_pb2.UNKNOWN_TOPIC_ID,
    ]
    assert list(node.node.broker.view.topic_names) == []
    assert (await node.client.fetch("orders")).HasField("error")
    await node.restart()

    async def nothing_is_left() -> bool:
        return list(folder.iterdir()) == []

    await eventually_async(nothing_is_left, waiting_for="deleted topics to give their space back")


@on_node(delete_topic_enable="false")
async def test_topics_stay_where_deleting_is_switched_off(node: LiveNode) -> None:
    await node.client.create("orders")
    request = admin_pb2.DeleteTopicsRequest(names=["orders"])
    (result,) = (await node.client.admin.DeleteTopics(request)).topics
    assert result.error.code == common_pb2.TOPIC_DELETION_DISABLED
    assert await node.client.values("orders") == []


@on_node()
async def test_a_topic_gets_more_partitions_and_never_fewer(node: LiveNode) -> None:
    await node.client.create("orders", 2)

    async def grow(name: str, total: int, *, validate_only: bool = False) -> admin_pb2.TopicResult:
        request = admin_pb2.CreatePartitionsRequest(validate_only=validate_only)
        request.topics.add(name=name, total_partitions=total)
        (result,) = (await node.client.admin.CreatePartitions(request)).topics
        return result

    assert (await grow("orders", 4, validate_only=True)).partitions == 4
    assert (await node.client.produce("orders", batch(), partition=3)).HasField("error")
    assert (await grow("orders", 4)).partitions == 4
    assert not (await node.client.produce("orders", batch(), partition=3)).HasField("error")
    for total in (4, 3, 0, -1, 20_000):
        assert (await grow("orders", total)).error.code == common_pb2.INVALID_PARTITIONS
    assert (await grow("ordres", 9)).error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert (await grow("__x", 9)).error.code == common_pb2.INVALID_TOPIC_EXCEPTION


# --- configs -------------------------------------------------------------------------------------


async def describe(
    node: LiveNode, kind: admin_pb2.ConfigResourceType.ValueType, name: str, *keys: str
) -> admin_pb2.ResourceConfigs:
    request = admin_pb2.DescribeConfigsRequest()
    resource = request.resources.add(keys=keys)
    resource.resource.type, resource.resource.name = kind, name
    (answer,) = (await node.client.admin.DescribeConfigs(request)).resources
    return answer


async def alter(
    node: LiveNode,
    *changes: tuple[str, admin_pb2.AlterOperation.ValueType, str],
    kind: admin_pb2.ConfigResourceType.ValueType = admin_pb2.CONFIG_RESOURCE_TOPIC,
    name: str = "orders",
    validate_only: bool = False,
) -> common_pb2.Error:
    request = admin_pb2.AlterConfigsRequest(validate_only=validate_only)
    resource = request.resources.add()
    resource.resource.type, resource.resource.name = kind, name
    for key, operation, value in changes:
        resource.alterations.add(key=key, operation=operation, value=value)
    (answer,) = (await node.client.admin.AlterConfigs(request)).resources
    return answer.error


TOPIC = admin_pb2.CONFIG_RESOURCE_TOPIC
BROKER = admin_pb2.CONFIG_RESOURCE_BROKER


@on_node(log_retention_ms="3 d")
async def test_configs_are_described_with_their_sources(node: LiveNode) -> None:
    await node.client.create("orders", configs={"segment.bytes": "2 MiB"})
    answer = await describe(node, TOPIC, "orders")
    entries = {entry.key: entry for entry in answer.entries}
    own, inherited = entries["segment.bytes"], entries["retention.ms"]
    assert (own.value, own.source) == ("2097152", admin_pb2.DYNAMIC_TOPIC_CONFIG)
    assert (inherited.value, inherited.source) == (
        "259200000", admin_pb2.STATIC_BROKER_CONFIG,
    )  # fmt: skip
    untouched = entries["max.message.bytes"]
    assert (untouched.source, untouched.value) == (
        admin_pb2.DEFAULT_CONFIG, untouched.default_value,
    )  # fmt: skip
    assert all(entry.documentation and entry.type for entry in answer.entries)
    assert not any(entry.read_only for entry in answer.entries)
    broker = await describe(node, BROKER, "1", "flush.policy", "log.retention.ms")
    assert [(entry.key, entry.value, entry.read_only) for entry in broker.entries] == [
        ("flush.policy", "commit", True),
        ("log.retention.ms", "259200000", True),
    ]


@on_node()
async def test_what_has_no_configs_is_refused_in_words(node: LiveNode) -> None:
    await node.client.create("orders")
    unknown = await describe(node, TOPIC, "ordres")
    assert unknown.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert "orders" in unknown.error.hint
    assert (await describe(node, BROKER, "7")).error.code == common_pb2.INVALID_REQUEST
    nothing = admin_pb2.CONFIG_RESOURCE_UNKNOWN
    assert (await describe(node, nothing, "x")).error.code == common_pb2.INVALID_REQUEST
    odd = await describe(node, TOPIC, "orders", "retention.mss")
    assert odd.error.code == common_pb2.INVALID_CONFIG
    assert "retention.ms" in odd.error.hint


@on_node()
async def test_alterations_happen_together_or_not_at_all(node: LiveNode) -> None:
    await node.client.create("orders")
    put, delete = admin_pb2.ALTER_SET, admin_pb2.ALTER_DELETE
    append = admin_pb2.ALTER_APPEND
    for changes, code in (
        ([("retention.ms", put, "1"), ("retention.bytes", put, "x")], common_pb2.INVALID_CONFIG),
        ([("retention.ms", put, "1"), ("retention.ms", put, "2")], common_pb2.INVALID_REQUEST),
        ([("retention.ms", append, "1")], common_pb2.INVALID_CONFIG),
        ([("no.such.key", delete, "")], common_pb2.INVALID_CONFIG),
        ([("retention.ms", 9, "1")], common_pb2.INVALID_REQUEST),
    ):
        assert (await alter(node, *changes)).code == code
    (entry,) = (await describe(node, TOPIC, "orders", "retention.ms")).entries
    assert entry.source == admin_pb2.DEFAULT_CONFIG
    assert (await alter(node, ("retention.ms", put, "5"), validate_only=True)).code == 0
    (entry,) = (await describe(node, TOPIC, "orders", "retention.ms")).entries
    assert entry.source == admin_pb2.DEFAULT_CONFIG
    assert (await alter(node, ("retention.ms", put, "5"))).code == 0
    (entry,) = (await describe(node, TOPIC, "orders", "retention.ms")).entries
    assert (entry.value, entry.source) == ("5", admin_pb2.DYNAMIC_TOPIC_CONFIG)
    assert (await alter(node, ("retention.ms", delete, ""))).code == 0
    (entry,) = (await describe(node, TOPIC, "orders", "retention.ms")).entries
    assert entry.source == admin_pb2.DEFAULT_CONFIG


@on_node()
async def test_what_cannot_be_altered_is_refused_in_words(node: LiveNode) -> None:
    change = ("retention.ms", admin_pb2.ALTER_SET, "1")
    error = await alter(node, change, kind=BROKER, name="1")
    assert error.code == common_pb2.INVALID_CONFIG
    assert "start it anew" in error.hint
    error = await alter(node, change, kind=admin_pb2.CONFIG_RESOURCE_UNKNOWN)
    assert error.code == common_pb2.INVALID_REQUEST
    error = await alter(node, change, name="gone")
    assert error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    error = await alter(node, change, name="__groups")
    assert error.code == common_pb2.INVALID_TOPIC_EXCEPTION


@on_node()
async def test_an_altered_max_message_bytes_holds_at_once(node: LiveNode) -> None:
    await node.client.create("orders")
    content = batch(b"x" * 10_000)
    assert not (await node.client.produce("orders", content)).HasField("error")
    await node.client.alter("orders", max_message_bytes="1000")
    ack = await node.client.produce("orders", content)
    assert ack.error.code == common_pb2.MESSAGE_TOO_LARGE
    await node.restart()
    ack = await node.client.produce("orders", content)
    assert ack.error.code == common_pb2.MESSAGE_TOO_LARGE
    await node.client.alter("orders", max_message_bytes="20000")
    assert not (await node.client.produce("orders", content)).HasField("error")
    large = await create(
        node, admin_pb2.NewTopic(name="large", configs={"max.message.bytes": "8 MiB"})
    )
    assert codes(large) == [0]
    ack = await node.client.produce("large", batch(b"x" * (7 << 20)))
    assert not ack.HasField("error"), ack.error
    assert len((await node.client.fetch("large", max_bytes=1)).records) > 7 << 20


@on_node(log_retention_check_interval_ms="20")
async def test_an_altered_retention_takes_effect(node: LiveNode) -> None:
    await node.client.create(
        "orders", configs={"segment.bytes": "1 MiB", "file.delete.delay.ms": "0"}
    )
    now_ms = node.node.broker.clock.now_ms()
    content = batch(b"x" * 400_000, timestamp=now_ms)
    for _ in range(8):
        await node.client.produce("orders", content)
    assert (await node.client.list_offset("orders", -2)).offset == 0
    await node.client.alter("orders", retention_bytes=str(1 << 20))

    async def start_offset() -> int:
        return (await node.client.list_offset("orders", -2)).offset

    async def has_shrunk() -> bool:
        return await start_offset() == 4

    await eventually_async(has_shrunk, waiting_for="retention by size")
    assert [record.offset for record in await node.client.fetch_all("orders")] == [4, 5, 6, 7]
    assert len(list(node.data_dir.glob("topics/*/0/*.log"))) == 2

    await node.client.alter("orders", retention_ms="1")

    async def is_empty() -> bool:
        return await start_offset() == 8

    await eventually_async(is_empty, waiting_for="retention by time")
    assert await node.client.values("orders") == []
    assert (await node.client.produce("orders", content)).base_offset == 8


@on_node()
async def test_empty_requests_are_answered(node: LiveNode) -> None:
    admin = node.client.admin
    assert not (await admin.CreateTopics(admin_pb2.CreateTopicsRequest())).topics
    assert not (await admin.DeleteTopics(admin_pb2.DeleteTopicsRequest())).topics
    assert not (await admin.CreatePartitions(admin_pb2.CreatePartitionsRequest())).topics
    assert not (await admin.DescribeConfigs(admin_pb2.DescribeConfigsRequest())).resources
    assert not (await admin.AlterConfigs(admin_pb2.AlterConfigsRequest())).resources
    assert not (await admin.DeleteRecords(admin_pb2.DeleteRecordsRequest())).partitions


@on_node()
async def test_a_stopping_broker_refuses_calls_and_says_so(node: LiveNode) -> None:
    node.node.broker.stopping.set()
    with pytest.raises(AioRpcError) as raised:
        await node.client.create("orders")
    wire = error_of(raised.value)
    assert wire.code == common_pb2.SHUTTING_DOWN
