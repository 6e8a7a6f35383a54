"""What a batch read plans, and what it says before it begins where something is wrong."""

from __future__ import annotations

import logging

import pytest

from spark_kit.logs import FakeLogs, FakeTopic
from tidelog.errors import InvalidConfig, InvalidPartitions, UnknownTopic
from tidelog_spark.batch_planning import plan_batch
from tidelog_spark.data_loss import DataLoss
from tidelog_spark.filters import Bounds
from tidelog_spark.options import batch_options


def plan(selection: dict[str, str] | None = None, **options: str) -> list[tuple[str, int, int]]:
    """The tasks over orders, whose logs go from 5 to 20 and from 0 to 10."""
    logs = FakeLogs(orders=FakeTopic("id", [20, 10], [5, 0]))
    given = {"kafka.bootstrap.servers": "localhost:9094"} | (selection or {"subscribe": "orders"})
    tasks = plan_batch(batch_options(given | options), logs, Bounds())
    return [(str(one.partition), one.start, one.end or -1) for one in tasks]


def test_all_that_is_there() -> None:
    assert plan() == [("orders-0", 5, 20), ("orders-1", 0, 10)]


def test_assigned_partitions_alone() -> None:
    assert plan({"assign": '{"orders": [1]}'}) == [("orders-1", 0, 10)]
    with pytest.raises(InvalidPartitions, match="'orders' has no partition 2: it has 2"):
        plan({"assign": '{"orders": [2]}'})


def test_topics_that_do_not_exist() -> None:
    with pytest.raises(UnknownTopic, match="'ordres' does not exist"):
        plan({"subscribe": "ordres"})


def test_a_pattern_that_matches_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert plan({"subscribePattern": "o"}) == []  # a match is one of the whole name
    assert "matches no topic" in caplog.text


def test_from_here_to_there() -> None:
    assert plan(
        startingOffsets='{"orders": {"0": 7, "1": -2}}',
        endingOffsets='{"orders": {"0": 9, "1": -1}}',
    ) == [("orders-0", 7, 9), ("orders-1", 0, 10)]
    assert plan(startingTimestamp="1007", endingTimestamp="1009") == [
        ("orders-0", 7, 9),
        ("orders-1", 7, 9),
    ]


def test_backwards_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="orders-0 is to be read from 9 to 7, backwards"):
        plan(
            startingOffsets='{"orders": {"0": 9, "1": 0}}',
            endingOffsets='{"orders": {"0": 7, "1": 0}}',
        )


def test_offsets_that_are_gone_or_not_yet_there() -> None:
    early, late = '{"orders": {"0": 2, "1": 0}}', '{"orders": {"0": 20, "1": 99}}'
    with pytest.raises(DataLoss, match="orders-0 begins at offset 5: the records from 2"):
        plan(startingOffsets=early)
    with pytest.raises(DataLoss, match="orders-1 ends at offset 10, before 99, which endingOff"):
        plan(endingOffsets=late)
    with pytest.raises(DataLoss, match="orders-1 ends at offset 10, before 99, which startingOff"):
        plan(startingOffsets=late)
    assert plan(startingOffsets=late, failOnDataLoss="false") == []
    assert plan(startingOffsets=early, endingOffsets=late, failOnDataLoss="false") == plan()
