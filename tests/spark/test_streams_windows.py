"""Windows, sessions and joins of two streams: flat rows, and state that is bounded in time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from tidelog.errors import InvalidConfig
from tidelog_spark.streams import join_within, sessions, windowed

START = datetime(2026, 1, 1)
CLICKS = "user STRING, at TIMESTAMP"


class Streamed:
    """Rows that come as a stream: each list of them is one file, and so one batch."""

    def __init__(self, spark: SparkSession, folder: Path, ddl: str) -> None:
        self._spark = spark
        self._folder = folder
        self._ddl = ddl
        folder.mkdir()

    def add(self, *rows: tuple[object, ...]) -> None:
        """Makes the next batch."""
        made = self._spark.createDataFrame(rows, self._ddl).coalesce(1)
        made.write.mode("append").json(str(self._folder))

    @property
    def rows(self) -> DataFrame:
        """The stream."""
        reader = self._spark.readStream.schema(self._ddl).option("maxFilesPerTrigger", 1)
        return reader.json(str(self._folder))


def written(frame: DataFrame, folder: Path, *order: str) -> list[Row]:
    """What a stream appends until its input ends."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "state")).trigger(availableNow=True)
    query.start().awaitTermination()
    spark = frame.sparkSession
    return spark.read.schema(frame.schema).parquet(str(folder / "out")).orderBy(*order).collect()


def after(minutes: float) -> datetime:
    """A time of the test."""
    return START + timedelta(minutes=minutes)


@pytest.fixture
def clicks(spark: SparkSession, tmp_path: Path) -> Streamed:
    """Clicks of two users, and a late one that ends all windows before it."""
    streamed = Streamed(spark, tmp_path / "clicks", CLICKS)
    streamed.add(("a", after(0)), ("a", after(4)), ("b", after(4)), ("a", after(20)))
    streamed.add(("b", after(600)))
    return streamed


def shown(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    """Rows with times as minutes since the start."""
    return [
        tuple(
            (value - START).total_seconds() / 60 if isinstance(value, datetime) else value
            for value in row
        )
        for row in rows
    ]


def test_windows_are_flat_rows(clicks: Streamed, tmp_path: Path) -> None:
    counts = windowed(
        clicks.rows,
        *("at", "10 minutes"),
        late="1 minute",
        keys=["user"],
        aggregates=[sql.count("*").alias("clicks")],
    )
    assert counts.columns == ["start", "end", "user", "clicks"]
    assert shown(written(counts, tmp_path, "start", "user")) == [
        (0, 10, "a", 2),
        (0, 10, "b", 1),
        (20, 30, "a", 1),
    ]


def test_windows_may_overlap(clicks: Streamed, tmp_path: Path) -> None:
    counts = windowed(
        clicks.rows,
        *("at", "10 minutes"),
        slide="5 minutes",
        late="1 minute",
        aggregates=[sql.count("*").alias("clicks")],
    )
    assert shown(written(counts, tmp_path, "start"))[:2] == [(-5, 5, 3), (0, 10, 3)]


def test_sessions_end_when_nothing_comes_for_a_while(clicks: Streamed, tmp_path: Path) -> None:
    found = sessions(
        clicks.rows,
        *("at", "5 minutes"),
        late="1 minute",
        keys=["user"],
        aggregates=[sql.count("*").alias("clicks")],
    )
    assert shown(written(found, tmp_path, "start", "user")) == [
        (0, 9, "a", 2),
        (4, 9, "b", 1),
        (20, 25, "a", 1),
    ]


def test_aggregates_of_nothing_and_sessions_of_nobody_are_refused(clicks: Streamed) -> None:
    with pytest.raises(InvalidConfig, match="nothing to aggregate"):
        windowed(clicks.rows, "at", "1 minute", late="1 minute", aggregates=[])
    with pytest.raises(InvalidConfig, match="sessions need keys"):
        sessions(clicks.rows, "at", "1 minute", late="1 minute", aggregates=[], keys=[])


@pytest.fixture
def payments(spark: SparkSession, tmp_path: Path) -> Streamed:
    """Payments of orders: one in time, one too late, one for nothing."""
    streamed = Streamed(spark, tmp_path / "payments", "id INT, paid TIMESTAMP")
    streamed.add((1, after(5)), (2, after(90)), (9, after(5)))
    streamed.add((10, after(600)))
    return streamed


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Streamed:
    """Two orders, and one much later."""
    streamed = Streamed(spark, tmp_path / "orders", "id INT, ordered TIMESTAMP")
    streamed.add((1, after(0)), (2, after(0)))
    streamed.add((11, after(600)))
    return streamed


def test_partners_within_the_time_are_joined(
    orders: Streamed, payments: Streamed, tmp_path: Path
) -> None:
    paid = join_within(
        orders.rows,
        payments.rows,
        on=["id"],
        times=("ordered", "paid"),
        within="1 hour",
        late="1 minute",
    )
    assert paid.columns == ["id", "ordered", "paid"]
    assert shown(written(paid, tmp_path, "id")) == [(1, 0, 5)]


def test_who_finds_no_partner_is_told_when_the_time_is_over(
    orders: Streamed, payments: Streamed, tmp_path: Path
) -> None:
    joined = join_within(
        orders.rows,
        payments.rows,
        on=["id"],
        times=("ordered", "paid"),
        within="1 hour",
        late="1 minute",
        how="full",
    )
    assert shown(written(joined, tmp_path, "id")) == [
        (1, 0, 5),
        (2, 0, None),
        (2, None, 90),
        (9, None, 5),
    ]


def test_joins_that_cannot_be_meant_are_refused(spark: SparkSession) -> None:
    left = spark.createDataFrame([], "id INT, at TIMESTAMP, n INT")
    right = spark.createDataFrame([], "id INT, paid TIMESTAMP, n INT")
    wanted: dict[str, Any] = {"times": ("at", "paid"), "within": "1 hour", "late": "1 minute"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"on": ["id"]}, "both sides have a column 'n'"),
        ({"on": ["idd"]}, "the left side has no column 'idd'"),
        ({"on": []}, "needs columns that are equal"),
        ({"on": ["id"], "how": "outer"}, "none of inner, left, right, full"),
    ]
    for changed, words in cases:
        with pytest.raises(InvalidConfig, match=words):
            join_within(left, right, **(wanted | changed))
