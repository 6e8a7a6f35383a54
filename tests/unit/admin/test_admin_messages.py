"""Admin's values into messages and back: what is refused before it is sent, what answers become."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.admin import messages
from tidelog.admin.descriptions import NewTopic
from tidelog.admin.record_deletion import before_offset
from tidelog.errors import InvalidConfig, InvalidRequest, InvalidTopic
from tidelog.model import TopicPartition
from tidelog.wire.v1 import admin_pb2, common_pb2, metadata_pb2


def test_a_new_topic_leaves_out_what_the_cluster_decides() -> None:
    made = messages.new_topic(NewTopic("orders"))
    assert made == admin_pb2.NewTopic(name="orders")


def test_configs_are_written_as_kafka_writes_them() -> None:
    topic = NewTopic("orders", 3, 2, {"retention.ms": 5, "preallocate": True, "ratio": 0.5})
    made = messages.new_topic(topic)
    assert (made.partitions, made.replication_factor) == (3, 2)
    assert dict(made.configs) == {"retention.ms": "5", "preallocate": "true", "ratio": "0.5"}


def test_an_assignment_says_it_all() -> None:
    made = messages.new_topic(NewTopic("orders", assignment={0: [1, 2], 1: [2, 3]}))
    assert [(item.partition, list(item.broker_ids)) for item in made.assignment] == [
        (0, [1, 2]),
        (1, [2, 3]),
    ]
    with pytest.raises(InvalidRequest, match="partitions and an assignment"):
        messages.new_topic(NewTopic("orders", 3, assignment={0: [1]}))


@pytest.mark.parametrize("topic", [NewTopic("orders", 0), NewTopic("orders", 1, -1)])
def test_impossible_numbers_are_refused(topic: NewTopic) -> None:
    with pytest.raises(InvalidRequest, match="not possible"):
        messages.new_topic(topic)


def test_what_is_no_config_value_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="retention"):
        messages.config_text("retention.ms", [1])  # type: ignore[arg-type]


def test_whose_configs_must_be_clear() -> None:
    assert messages.resource("orders", None).name == "orders"
    assert messages.resource(None, 3).type == admin_pb2.CONFIG_RESOURCE_BROKER
    for topic, broker in ((None, None), ("orders", 3)):
        with pytest.raises(InvalidRequest, match="not clear"):
            messages.resource(topic, broker)


def test_alterations() -> None:
    changes = messages.alterations({"a": 1}, ["b"], {"c": "x"}, {"d": "y"})
    assert [(change.key, change.operation, change.value) for change in changes] == [
        ("a", admin_pb2.ALTER_SET, "1"),
        ("c", admin_pb2.ALTER_APPEND, "x"),
        ("d", admin_pb2.ALTER_SUBTRACT, "y"),
        ("b", admin_pb2.ALTER_DELETE, ""),
    ]
    with pytest.raises(InvalidRequest, match="No config"):
        messages.alterations({}, (), {}, {})


def test_a_described_topic() -> None:
    described = metadata_pb2.TopicMetadata(name="orders", topic_id=b"id")
    described.partitions.add(partition=1, leader_id=-1, replicas=[1, 2], in_sync=[2])
    described.partitions.add(partition=0, leader_id=2, replicas=[2, 1], in_sync=[1, 2])
    topic = messages.topic_description(described)
    assert (topic.partition_count, topic.replication_factor) == (2, 2)
    assert [partition.leader for partition in topic.partitions] == [2, None]
    assert [partition.is_under_replicated for partition in topic.partitions] == [False, True]


def test_errors_in_answers_are_raised() -> None:
    error = common_pb2.Error(code=common_pb2.INVALID_TOPIC_EXCEPTION, message="bad name")
    with pytest.raises(InvalidTopic, match="bad name"):
        messages.topic_description(metadata_pb2.TopicMetadata(name="x", error=error))
    with pytest.raises(InvalidTopic, match="bad name"):
        messages.config_entries(admin_pb2.ResourceConfigs(error=error))


def test_where_records_are_deleted_to() -> None:
    orders = TopicPartition("orders", 0)
    assert [before_offset(orders, at) for at in (0, 7, "latest", "end")] == [0, 7, -1, -1]
    for wrong in (-1, "earliest"):
        with pytest.raises(InvalidRequest, match="orders-0"):
            before_offset(orders, wrong)


def test_one_text_is_not_many_topics() -> None:
    assert messages.topic_names(iter(["a", "b"])) == ["a", "b"]
    wrong: Any
    for wrong in ("orders", [b"orders"], [5]):
        with pytest.raises(InvalidRequest, match=r"is no list of topics|is no name of a topic"):
            messages.topic_names(wrong)
    for wrong in ("orders", NewTopic(5)):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=r"is no new topic|is no name of a topic"):
            messages.new_topic(wrong)
