"""Filters that Spark pushes: they cut ranges, and never leave out what they let through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import LongType, StructField, StructType

from spark_kit.logs import FakeLogs, FakeTopic
from tidelog_spark.batch_planning import plan_batch
from tidelog_spark.filters import Bounds
from tidelog_spark.options import batch_options
from tidelog_spark.reader import FilteringReader, TidelogReader, batch_reader

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OPTIONS = {"kafka.bootstrap.servers": "localhost:9094", "subscribe": "a,b"}


def read(*filters: Filter, **options: str) -> dict[str, tuple[int, int | None]]:
    """What is read of a-0 and b-0 (0 to 100) and b-1 (20 to 50) under these filters."""
    logs = FakeLogs(a=FakeTopic("1", [100]), b=FakeTopic("2", [100, 50], [0, 20]))
    bounds = Bounds()
    for one in filters:
        bounds = bounds.narrowed(one)
    tasks = plan_batch(batch_options(OPTIONS | options), logs, bounds)
    return {str(one.partition): (one.start, one.end) for one in tasks}


def at(milliseconds: float) -> datetime:
    """A time after the timestamp of the first record."""
    return EPOCH + timedelta(milliseconds=1_000 + milliseconds)


WHOLE = {"a-0": (0, 100), "b-0": (0, 100), "b-1": (20, 50)}


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([], WHOLE),
        ([EqualTo(("topic",), "a")], {"a-0": (0, 100)}),
        ([In(("partition",), (1, 7))], {"b-1": (20, 50)}),
        ([In(("partition",), (0, 1)), EqualNullSafe(("partition",), 1)], {"b-1": (20, 50)}),
        ([EqualTo(("topic",), "c")], {}),
        ([GreaterThan(("offset",), 30)], {"a-0": (31, 100), "b-0": (31, 100), "b-1": (31, 50)}),
        ([GreaterThanOrEqual(("OFFSET",), 60)], {"a-0": (60, 100), "b-0": (60, 100)}),
        ([LessThan(("offset",), 30)], {"a-0": (0, 30), "b-0": (0, 30), "b-1": (20, 30)}),
        ([LessThanOrEqual(("offset",), 10)], {"a-0": (0, 11), "b-0": (0, 11)}),
        ([EqualTo(("offset",), 25)], {"a-0": (25, 26), "b-0": (25, 26), "b-1": (25, 26)}),
        ([In(("offset",), (25, 27))], {"a-0": (25, 28), "b-0": (25, 28), "b-1": (25, 28)}),
        ([GreaterThanOrEqual(("timestamp",), at(60))], {"a-0": (60, 100), "b-0": (60, 100)}),
        ([EqualTo(("timestamp",), at(99))], {"a-0": (99, 100), "b-0": (99, 100)}),
        ([GreaterThan(("timestamp",), at(98.5))], {"a-0": (98, 100), "b-0": (98, 100)}),
        ([LessThan(("timestamp",), at(5))], WHOLE),
        ([IsNotNull(("value",)), Not(EqualTo(("partition",), 0))], WHOLE),
        ([EqualTo(("value",), b"x"), EqualTo(("topic", "x"), "a")], WHOLE),
        ([GreaterThan(("timestamp",), EPOCH - timedelta(days=1))], WHOLE),
    ],
)
def test_filters_cut(filters: list[Filter], left: dict[str, tuple[int, int]]) -> None:
    assert read(*filters) == left


def test_what_is_cut_is_split_afterwards() -> None:
    assert read(EqualTo(("topic",), "a"), GreaterThanOrEqual(("offset",), 90)) == {"a-0": (90, 100)}
    logs = FakeLogs(a=FakeTopic("1", [100]), b=FakeTopic("2", [0]))
    options = batch_options(OPTIONS | {"maxRecordsPerPartition": "5"})
    tasks = plan_batch(options, logs, Bounds(offset_from=90))
    assert [(one.start, one.end) for one in tasks] == [(90, 95), (95, 100)]


def test_only_a_reader_that_was_asked_to_takes_filters_and_all_go_back() -> None:
    """Spark refuses a reader that has the method while its push-down is off."""
    schema = StructType([StructField("offset", LongType())])
    plain = batch_reader(OPTIONS, schema)
    assert type(plain) is TidelogReader
    filtering = batch_reader(OPTIONS | {"pushFilters": "true"}, schema)
    assert isinstance(filtering, FilteringReader)
    filters: list[Filter] = [EqualTo(("topic",), "a"), IsNotNull(("value",))]
    assert list(filtering.pushFilters(filters)) == filters


def test_a_late_end_is_left_to_the_tasks() -> None:
    assert read(endingOffsets="latest-each-read") == {
        "a-0": (0, None),
        "b-0": (0, None),
        "b-1": (20, None),
    }
