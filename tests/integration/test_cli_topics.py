"""`tidelog topics` against a running node: every action, every filter, every refusal."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator

import pytest

from tidelog.cli import main
from tidelog_node.testing import InProcessCluster

Topics = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
    """An error that was caught keeps its call, and so a thread of grpc's, until it is collected."""
    yield
    gc.collect()


@pytest.fixture
def topics(tidelog_cluster: InProcessCluster, capsys: pytest.CaptureFixture[str]) -> Topics:
    """Runs `tidelog topics`: its code, output and errors."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["topics", "--bootstrap-server", tidelog_cluster.address, *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_topic_is_created_listed_described_and_deleted(topics: Topics) -> None:
    created = topics("--create", "--topic", "orders", "--partitions", "2")
    assert created == (0, "Created topic orders.\n", "")
    topics("--create", "--topic", "alpha")
    assert topics("--list") == (0, "alpha\norders\n", "")
    code, shown, _ = topics("--describe", "--topic", "orders")
    assert code == 0
    assert re.fullmatch(
        r"Topic: orders\tTopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: \n"
        r"\tTopic: orders\tPartition: 0\tLeader: (\d+)\tReplicas: \1\tIsr: \1\tElr: \t"
        r"LastKnownElr: N/A\n"
        r"\tTopic: orders\tPartition: 1\tLeader: \1\tReplicas: \1\tIsr: \1\tElr: \t"
        r"LastKnownElr: N/A\n",
        shown,
    )
    assert topics("--delete", "--topic", "orders") == (0, "", "")
    assert topics("--list") == (0, "alpha\n", "")


def test_configs_are_set_and_shown(topics: Topics) -> None:
    topics("--create", "--topic", "plain")
    words = ("--config", "retention.ms=1000", "--config", "max.message.bytes=2000")
    assert topics("--create", "--topic", "set", *words)[0] == 0
    _, shown, _ = topics("--describe", "--topics-with-overrides")
    assert shown.startswith("Topic: set\t")
    assert shown.endswith("\tConfigs: max.message.bytes=2000,retention.ms=1000\n")
    assert shown.count("\n") == 1


def test_partitions_are_only_added(topics: Topics) -> None:
    topics("--create", "--topic", "orders", "--partitions", "2")
    assert topics("--alter", "--topic", "orders", "--partitions", "4") == (0, "", "")
    assert "PartitionCount: 4\t" in topics("--describe", "--topic", "orders")[1]
    assert topics("--alter", "--topic", "orders", "--partitions", "3") == (
        1,
        "Error while executing topic command : The topic orders currently has 4 partition(s);"
        " 3 would not be an increase.\n",
        "",
    )


def test_replicas_are_placed_by_hand(topics: Topics) -> None:
    topics("--create", "--topic", "first")
    described = json.loads(topics("--describe", "--json")[1])
    broker = described[0]["partitions"][0]["leader"]
    assignment = f"{broker},{broker},{broker}"
    assert topics("--create", "--topic", "placed", "--replica-assignment", assignment)[0] == 0
    more = f"{assignment},{broker}"
    words = ("--alter", "--topic", "placed", "--partitions", "4", "--replica-assignment", more)
    assert topics(*words) == (0, "", "")
    assert "PartitionCount: 4\t" in topics("--describe", "--topic", "placed")[1]


def test_names_are_patterns(topics: Topics) -> None:
    for name in ("orders-eu", "orders-us", "payments"):
        topics("--create", "--topic", name)
    assert topics("--list", "--topic", "orders-.*")[1] == "orders-eu\norders-us\n"
    assert topics("--delete", "--topic", "orders-eu,payments") == (0, "", "")
    assert topics("--list")[1] == "orders-us\n"


def test_a_topic_is_described_by_its_id(topics: Topics) -> None:
    topics("--create", "--topic", "orders")
    topics("--create", "--topic", "payments")
    (shown,) = json.loads(topics("--describe", "--topic", "orders", "--json")[1])
    code, out, _ = topics("--describe", "--topic-id", shown["topic_id"], "--topic", "payments")
    assert code == 0
    assert out.startswith(f"Topic: orders\tTopicId: {shown['topic_id']}\t")
    code, out, _ = topics("--describe", "--topic-id", "A" * 22)
    assert code == 1
    assert out.endswith(f"TopicId '{'A' * 22}' does not exist as expected.\n")
    assert topics("--describe", "--topic-id", "A" * 22, "--if-exists") == (0, "", "")


def test_filters_print_partitions_only(topics: Topics) -> None:
    topics("--create", "--topic", "orders")
    assert topics("--describe", "--under-replicated-partitions") == (0, "", "")
    assert topics("--describe", "--unavailable-partitions") == (0, "", "")
    assert topics("--describe", "--under-min-isr-partitions") == (0, "", "")
    code, shown, _ = topics("--describe", "--at-min-isr-partitions")
    assert code == 0
    assert shown.startswith("\tTopic: orders\tPartition: 0\t")
    assert json.loads(topics("--describe", "--unavailable-partitions", "--json")[1]) == []


def test_names_that_may_collide_are_warned_of(topics: Topics) -> None:
    assert topics("--create", "--topic", "my.topic") == (
        0,
        "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore"
        " ('_') could collide. To avoid issues it is best to use either, but not both.\n"
        "Created topic my.topic.\n",
        "",
    )


def test_json(topics: Topics) -> None:
    code, out, err = topics("--create", "--topic", "my_topic", "--partitions", "3", "--json")
    assert err.startswith("WARNING: Due to limitations in metric names")
    created = json.loads(out)["created"]
    assert (code, created["topic"], created["partition_count"]) == (0, "my_topic", 3)
    assert json.loads(topics("--list", "--json")[1]) == ["my_topic"]
    words = ("--create", "--topic", "my_topic", "--if-not-exists", "--json")
    assert json.loads(topics(*words)[1]) == {"created": None}
    code, out, err = topics("--delete", "--topic", "gone", "--json")
    assert (code, out) == (1, "")
    assert err.startswith("Error while executing topic command : Topic 'gone'")


def test_what_is_there_or_not_can_be_allowed(topics: Topics) -> None:
    topics("--create", "--topic", "orders")
    assert topics("--create", "--topic", "orders", "--if-not-exists") == (0, "", "")
    for action in ("--delete", "--describe"):
        assert topics(action, "--topic", "gone", "--if-exists") == (0, "", "")
    words = ("--alter", "--topic", "gone", "--partitions", "3", "--if-exists")
    assert topics(*words) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--create", "--topic", "orders"), "Topic 'orders' exists already"),
        (("--describe", "--topic", "ordres"), "Did you mean 'orders'?"),
        (("--delete", "--topic", "ordres"), "Topic 'ordres' does not exist as expected."),
        (("--create", "--topic", "a b"), "'a b' has characters that are not allowed"),
        (
            ("--create", "--topic", "a", "--config", "retention.mss=1"),
            "Did you mean 'retention.ms'",
        ),
        (("--create", "--topic", "a", "--config", "retention.ms=x"), "Invalid value 'x'"),
        (("--create", "--topic", "a", "--replication-factor", "3"), "Start more brokers"),
        (("--describe", "--topic", "("), "is no regular expression"),
    ],
)
def test_a_refusal_is_one_line_that_helps(
    topics: Topics, words: tuple[str, ...], part: str
) -> None:
    topics("--create", "--topic", "orders")
    code, out, err = topics(*words)
    assert (code, err) == (1, "")
    assert out.startswith("Error while executing topic command : ")
    assert part in out
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "Command must include exactly one action"),
        (("--list", "--describe"), "Command must include exactly one action"),
        (("--create",), "--topic is missing"),
        (("--alter", "--topic", "a"), "add --partitions N"),
        (("--list", "--partitions", "3"), "--partitions goes with --create or --alter only"),
        (("--alter", "--topic", "a", "--config", "a=b"), "--config goes with --create only"),
        (("--create", "--topic", "a", "--if-exists"), "--if-exists goes with"),
        (
            ("--create", "--topic", "a", "--partitions", "1", "--replica-assignment", "1"),
            "--replica-assignment and --partitions cannot be used together",
        ),
        (
            ("--describe", "--unavailable-partitions", "--topics-with-overrides"),
            "cannot be used together",
        ),
    ],
)
def test_flags_that_cannot_be_are_refused(
    topics: Topics, words: tuple[str, ...], part: str
) -> None:
    code, out, err = topics(*words)
    assert (code, out) == (2, "")
    assert part in err


def test_a_flag_without_effect_says_so(topics: Topics) -> None:
    code, _, err = topics("--describe", "--partition-size-limit-per-response", "10")
    assert code == 0
    assert "has no effect here" in err


def test_a_stopped_broker_is_told_of(topics: Topics, tidelog_cluster: InProcessCluster) -> None:
    tidelog_cluster.stop()
    code, out, _ = topics("--list")
    assert code == 1
    assert "None of the brokers could be reached" in out
    assert "`tidelog doctor`" in out
