"""Every example does what it says, and what it draws can be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import limits
import orders
import pytest
import sessions
import wordcount
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import showing
from playground import Playground
from spark_kit.topics import Topics
from tidelog_spark.source import register


@pytest.fixture
def ground(spark: SparkSession, topics: Topics, tmp_path: Path) -> Playground:
    """The examples' ground, at the tests' node and in the tests' session."""
    register(spark)
    return Playground(spark, topics.bootstrap, tmp_path)


def test_words_are_counted(ground: Playground, capsys: pytest.CaptureFixture[str]) -> None:
    wordcount.example(ground)
    shown = capsys.readouterr().out.splitlines()
    assert shown[:4] == ["word  count", "----  -----", "the      12", "log       4"]
    assert shown[-8].startswith(f"the  {'█' * showing.BAR_CELLS} 12")


def test_sessions_are_those_of_the_clicks(ground: Playground) -> None:
    found = sessions.run(ground)
    assert len(found) == sum(sessions.VISITS_AN_HOUR)
    clicks = sessions.clicks()
    assert sum(count for *_, count, _ in found) == len(clicks)
    user, start, minutes, count, pages = found[0]
    own = sorted(click["at"] for click in clicks if click["user"] == user)
    assert (len(own), len({c["page"] for c in clicks if c["user"] == user})) == (count, pages)
    lasted = datetime.fromisoformat(own[-1]) - datetime.fromisoformat(own[0])
    assert start == datetime.fromisoformat(own[0]).replace(tzinfo=None)
    assert minutes == pytest.approx(lasted.total_seconds() / 60, abs=0.1)


def test_orders_find_their_customers(ground: Playground) -> None:
    rows = orders.run(ground)
    assert sum(count for _, count, _ in rows) == orders.ORDERS
    assert {country for country, _, _ in rows} == {*orders.COUNTRIES, "(left)"}
    assert [turnover for *_, turnover in rows] == sorted((row[2] for row in rows), reverse=True)


def test_limits_are_told_once_and_forgotten_after_a_day(ground: Playground) -> None:
    pytest.importorskip("pandas", reason="transformWithState asks for pandas")
    by_value: Callable[[object], None] = cloudpickle.register_pickle_by_value
    by_value(limits)  # as a program's own classes are
    before = ground.spark.conf.get(limits.PROVIDER)
    assert before is not None
    try:
        assert limits.run(ground) == [("ada", 115.0), ("cy", 250.0), ("ada", 110.0)]
    finally:
        ground.spark.conf.set(limits.PROVIDER, before)


def test_bars_and_columns_fill_the_space() -> None:
    assert showing.bars([("a", 4.0), ("bb", 1.0), ("c", 0.001), ("d", 0.0)]).splitlines() == [
        f"a  {'█' * 40} 4",
        f"bb {'█' * 10} 1",
        "c  ▏ 0.00",
        "d   0",
    ]
    lines = showing.columns([("6:00", 1.0), ("7:00", 6.0), ("8:00", 3.0), ("9:00", 0.0)])
    assert lines.splitlines() == [
        "6 ┤  ██",
        "  ┤  ██",
        "  ┤  ██",
        "  ┤  ████",
        "  ┤  ████",
        "0 ┤██████",
        "  └────────",
        "   6:00 9:00",
    ]


def test_a_table_puts_numbers_at_the_right() -> None:
    rows = [("a", 1_000), ("bb", 2)]
    assert (
        showing.table(("name", "n"), rows) == "name      n\n----  -----\na     1,000\nbb        2"
    )
    assert showing.table(("name", "n"), []) == "name  n\n----  -"
