"""Names that topics may have, and brokers that their replicas are put on."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tidelog.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
    NotEnoughReplicas,
)
from tidelog_controller.core.names import check_name, check_open_to
from tidelog_controller.core.placement import check_assignment, place
from tidelog_runtime.principal import ANONYMOUS, INTERNAL


@pytest.mark.parametrize("name", ["a", "orders-eu.2024_q1", "A" * 249, "...", "-", "__internal"])
def test_legal_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a\x00", "x" * 100_000, "\uff21"]
)
def test_illegal_names(name: str) -> None:
    with pytest.raises(InvalidTopic) as refusal:
        check_name(name)
    assert len(str(refusal.value)) < 600


def test_internal_topics_are_closed_to_clients() -> None:
    check_open_to("__consumer_offsets", INTERNAL)
    check_open_to("_a", ANONYMOUS)
    with pytest.raises(InvalidTopic, match="closed to User:anonymous"):
        check_open_to("__consumer_offsets", ANONYMOUS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (3, 1), (3, 2), (3, 3), (5, 3), (7, 4)])
def test_replicas_are_spread_evenly(brokers: int, replicas: int, seed: int) -> None:
    live = [10 * number for number in range(brokers)]
    partitions = range(4, 4 + brokers * max(1, brokers - 1) * 2)
    placed = place(partitions, replicas, live, Random(seed))
    assert list(placed) == list(partitions)
    for chosen in placed.values():
        assert len(set(chosen)) == replicas
        assert set(chosen) <= set(live)
    leaders = Counter(chosen[0] for chosen in placed.values())
    held = Counter(broker for chosen in placed.values() for broker in chosen)
    assert set(leaders.values()) == {len(partitions) // brokers}
    assert set(held.values()) == {len(partitions) * replicas // brokers}


def test_the_load_of_a_broker_that_fails_is_spread() -> None:
    placed = place(range(60), 2, [1, 2, 3, 4], Random(1))
    heirs = Counter(chosen[1] for chosen in placed.values() if chosen[0] == 1)
    assert set(heirs) == {2, 3, 4}


@pytest.mark.parametrize("replication_factor", [-1, 0, 32_768])
def test_factors_that_can_never_be(replication_factor: int) -> None:
    with pytest.raises(InvalidReplicationFactor):
        place(range(1), replication_factor, [1, 2, 3], Random(0))


@pytest.mark.parametrize("live", [[], [1], [1, 2]])
def test_too_few_brokers_is_a_passing_state(live: list[int]) -> None:
    with pytest.raises(NotEnoughReplicas, match=f"{len(live)} live at the moment") as refusal:
        place(range(1), 3, live, Random(0))
    assert refusal.value.retriable


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ({0: [1]}, "1 partitions does not fit"),
        ({0: [1], 2: [1]}, "2 partitions does not fit"),
        ({0: [1], 1: [1, 2]}, "different numbers"),
        ({0: [], 1: []}, "different numbers"),
        ({0: [1, 2], 1: [2, 2]}, "two replicas of partition 1"),
    ],
)
def test_assignments_that_contradict_themselves(
    assignment: dict[int, list[int]], words: str
) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=words):
        check_assignment(assignment, range(2), [1, 2, 3])


def test_an_assignment_to_a_broker_that_does_not_live() -> None:
    with pytest.raises(NotEnoughReplicas, match=r"do not live: \[7, 9\]"):
        check_assignment({0: [9, 1], 1: [7, 1]}, range(2), [1, 2, 3])
    assert check_assignment({1: [2, 1], 0: [3, 2]}, range(2), [1, 2, 3]) == {0: (3, 2), 1: (2, 1)}
