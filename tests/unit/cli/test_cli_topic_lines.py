"""What `tidelog topics` prints stands char for char as kafka-topics prints it."""

from __future__ import annotations

import argparse

import pytest

from tidelog.admin.descriptions import PartitionDescription, TopicDescription
from tidelog.cli import topic_lines
from tidelog.cli.topic_lines import FILTERS, read_id, shown_id
from tidelog.cli.topic_names import matching, topic_pattern
from tidelog.cli.topics import read_assignment
from tidelog.errors import InvalidRequest
from tidelog.model import TopicId

TOPIC_ID = TopicId(bytes(range(16)))


def partition(
    number: int = 0,
    *,
    leader: int | None = 1,
    replicas: tuple[int, ...] = (1, 2),
    in_sync: tuple[int, ...] = (1, 2),
    eligible: tuple[int, ...] = (),
    offline: tuple[int, ...] = (),
) -> PartitionDescription:
    """A partition of two replicas."""
    return PartitionDescription(number, leader, 3, replicas, in_sync, eligible, offline)


def test_a_topics_line() -> None:
    topic = TopicDescription("orders", TOPIC_ID, False, (partition(0), partition(1)))
    overrides = {"cleanup.policy": "compact", "retention.ms": "1000"}
    assert topic_lines.topic_line(topic, overrides) == (
        "Topic: orders\tTopicId: AAECAwQFBgcICQoLDA0ODw\tPartitionCount: 2\tReplicationFactor: 2"
        "\tConfigs: cleanup.policy=compact,retention.ms=1000"
    )
    assert topic_lines.topic_line(topic, {}).endswith("\tConfigs: ")


def test_a_partitions_line() -> None:
    assert topic_lines.partition_line("orders", partition(5)) == (
        "\tTopic: orders\tPartition: 5\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: "
        "\tLastKnownElr: N/A"
    )
    without = partition(leader=None, in_sync=(), eligible=(2,))
    assert topic_lines.partition_line("orders", without) == (
        "\tTopic: orders\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \tElr: 2"
        "\tLastKnownElr: N/A"
    )


def test_an_id_is_read_as_kafka_and_as_folders_write_it() -> None:
    assert read_id(shown_id(TOPIC_ID)) == TOPIC_ID
    assert read_id(TOPIC_ID.hex()) == TOPIC_ID
    assert shown_id(b"\xff" * 16) == "_____________________w"


@pytest.mark.parametrize("text", ["", "orders", "!" * 22, "AAEC", "zz" * 16])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is no topic id"):
        read_id(text)


@pytest.mark.parametrize(
    ("name", "let_through"),
    [
        ("under_replicated_partitions", [1, 2]),
        ("unavailable_partitions", [2, 3]),
        ("under_min_isr_partitions", [1, 2]),
        ("at_min_isr_partitions", [0, 3]),
    ],
)
def test_filters(name: str, let_through: list[int]) -> None:
    partitions = [
        partition(0),
        partition(1, in_sync=(1,)),
        partition(2, leader=None, in_sync=()),
        partition(3, offline=(1,)),
    ]
    assert [one.partition for one in partitions if FILTERS[name](one, 2)] == let_through


@pytest.mark.parametrize(
    ("name", "collides"), [("orders", False), ("or.ders", True), ("or_ders", True)]
)
def test_names_whose_metrics_could_collide(name: str, collides: bool) -> None:
    assert topic_lines.may_collide(name) is collides


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, ["a", "ab", "b.c"]),
        ("a", ["a"]),
        ("a.*", ["a", "ab"]),
        ("a,b.c", ["a", "b.c"]),
        ('"a"', ["a"]),
        ("c", []),
    ],
)
def test_names_match_as_a_whole(pattern: str | None, found: list[str]) -> None:
    assert matching(["b.c", "ab", "a"], pattern) == found


def test_a_pattern_that_is_none_says_where() -> None:
    with pytest.raises(InvalidRequest, match=r"'\(' is no regular expression"):
        topic_pattern("(")


def test_an_assignment_is_read() -> None:
    assert read_assignment("1:2,2:3") == {0: [1, 2], 1: [2, 3]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1:x", "is no assignment"),
        ("", "is no assignment"),
        ("9" * 23, "is no assignment"),
        ("9" * 5000, "is no assignment"),
        ("-1", "is no assignment"),
        ("1:1", "partition 0 names a broker twice"),
        ("1:2,3", "partition 1 has 1 replicas, partition 0 has 2"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        read_assignment(text)
