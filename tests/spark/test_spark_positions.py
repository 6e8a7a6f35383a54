"""Positions into offsets: as Spark's Kafka connector means them."""

from __future__ import annotations

import pytest

from spark_kit.logs import FakeLogs, FakeTopic
from tidelog.errors import InvalidConfig, OffsetOutOfRange
from tidelog.model import TopicPartition
from tidelog_spark.positions import (
    AtOffsets,
    AtTime,
    Earliest,
    Latest,
    Position,
    moves_with_time,
    resolve,
)

BOTH = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


def found(position: Position) -> list[int]:
    """The offsets of both partitions, whose logs go from 5 to 20 and from 0 to 10."""
    logs = FakeLogs(orders=FakeTopic("id", [20, 10], [5, 0]))
    offsets = resolve(position, BOTH, logs)
    return [offsets[one] for one in BOTH]


def test_both_ends() -> None:
    assert found(Earliest()) == [5, 0]
    assert found(Latest()) == [20, 10]


def test_offsets_and_the_special_ones() -> None:
    assert found(AtOffsets("startingOffsets", {"orders": {0: 7, 1: 3}})) == [7, 3]
    assert found(AtOffsets("startingOffsets", {"orders": {0: -2, 1: -1}})) == [5, 10]


def test_times() -> None:
    assert found(AtTime("startingTimestamp", 1_008, or_latest=False)) == [8, 8]
    by_partition = {"orders": {0: 1_019, 1: 1_000}}
    assert found(AtTime("startingOffsetsByTimestamp", by_partition, or_latest=False)) == [19, 0]


def test_a_time_after_the_last_record() -> None:
    assert found(AtTime("endingTimestamp", 1_015, or_latest=True)) == [15, 10]
    with pytest.raises(OffsetOutOfRange, match="orders-1 has no record as late as 1015 ms"):
        found(AtTime("startingTimestamp", 1_015, or_latest=False))


def test_every_partition_has_to_be_named_and_no_other() -> None:
    with pytest.raises(InvalidConfig, match="says nothing of orders-1"):
        found(AtOffsets("startingOffsets", {"orders": {0: 7}}))
    with pytest.raises(InvalidConfig, match=r"names orders-2, .* not among"):
        found(AtOffsets("startingOffsets", {"orders": {0: 7, 1: 7, 2: 7}}))


def test_which_positions_move() -> None:
    moving: list[Position] = [
        Latest(),
        AtTime("t", 5, or_latest=True),
        AtOffsets("o", {"orders": {0: -1}}),
    ]
    still: list[Position] = [
        Earliest(),
        AtTime("t", 5, or_latest=False),
        AtOffsets("o", {"orders": {0: -2}}),
    ]
    assert all(moves_with_time(one) for one in moving)
    assert not any(moves_with_time(one) for one in still)
