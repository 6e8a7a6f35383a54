"""A pipeline against a real node: rows arrive, failures are retried, its end is an orderly one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

import tidelog
from spark_kit.topics import Topics
from tidelog_spark.source import register
from tidelog_spark.streams.pipeline import status
from tidelog_spark.streams.pipeline.printing import program
from tidelog_spark.streams.pipeline.reading import pipeline_of
from tidelog_spark.streams.pipeline.running import run
from tidelog_spark.streams.pipeline.specification import Pipeline

CLICKS = [{"user": user, "page": f"/{number}"} for number, user in enumerate("abcab")]
USERS = {"a": "Ada", "b": "Bo"}


@pytest.fixture(autouse=True)
def _format_is_known(spark: SparkSession) -> None:
    register(spark)


class Ground:
    """Topics with clicks and users, and a folder for what pipelines make of them."""

    def __init__(self, topics: Topics, folder: Path) -> None:
        self.topics = topics
        self.folder = folder
        self.clicks = topics.create()
        self.users = topics.create(partitions=1)
        self.out = topics.create()
        with tidelog.Producer(topics.bootstrap) as producer:
            for click in CLICKS:
                producer.send(self.clicks, value=json.dumps(click))
            for key, name in USERS.items():
                producer.send(self.users, key=key, value=json.dumps({"name": "?"}))
                producer.send(self.users, key=key, value=json.dumps({"name": name}))

    def pipeline(
        self, sinks: str = "", *, topic: str = "", more: str = "", checkpoints: str = "state"
    ) -> Pipeline:
        """Clicks with the names of their users, and sinks of a test: usually just one."""
        sinks = sinks or f"  out: {{from: clicks, topic: {self.out}, key: user}}\n"
        text = f"""\
name: clicks
bootstrap: {self.topics.bootstrap}
checkpoints: {self.folder / checkpoints}
restart: {{attempts: 2, first_pause: 1 millisecond}}
{more}
sources:
  clicks:
    topic: {topic or self.clicks}
    value: "user STRING, page STRING"
    options: {{maxOffsetsPerTrigger: 3}}
  users: {{table: {self.users}, key: string, value: "name STRING"}}
views:
  named: SELECT user, page, name FROM clicks LEFT JOIN users ON user = users._key
  counted: SELECT user, count(*) AS n FROM clicks GROUP BY user
sinks:
{sinks}"""
        return pipeline_of(text, "p.yaml")

    def written(self, topic: str) -> list[tuple[str, object]]:
        """Keys and values of a topic, in a stable order."""
        records = self.topics.records(topic)
        pairs = [
            ((one.key or b"").decode(), json.loads(one.value) if one.value is not None else None)
            for one in records
        ]
        return sorted(pairs, key=repr)


@pytest.fixture
def ground(topics: Topics, tmp_path: Path) -> Ground:
    """Fresh topics and a fresh folder."""
    return Ground(topics, tmp_path)


NAMED = sorted(
    [
        (
            click["user"],
            {
                key: value
                for key, value in {**click, "name": USERS.get(click["user"])}.items()
                if value
            },
        )
        for click in CLICKS
    ],
    key=repr,
)


def quietly(_line: str) -> None:
    """Progress that nobody looks at."""


def test_rows_go_to_every_kind_of_sink(spark: SparkSession, ground: Ground) -> None:
    changes = ground.topics.create()
    pipeline = ground.pipeline(f"""\
  out: {{from: named, topic: {ground.out}, key: user}}
  files: {{from: named, parquet: {ground.folder / "files"}}}
  rows: {{from: clicks, table: clicks_kept}}
  changes: {{from: counted, topic: {changes}, key: user, mode: update, delete_when: n < 2}}
  screen: {{from: clicks, console: true}}
""")
    lines: list[str] = []
    try:
        assert run(spark, pipeline, available_now=True, tell=lines.append) == 0, lines
        assert ground.written(ground.out) == NAMED
        files = spark.read.parquet(str(ground.folder / "files"))
        assert sorted(files.select("user", "page").collect()) == sorted(
            (click["user"], click["page"]) for click in CLICKS
        )
        assert sorted(spark.table("clicks_kept").select("user").collect()) == [
            (one,) for one in "aabbc"
        ]
    finally:
        spark.sql("DROP TABLE IF EXISTS clicks_kept")
    now = {one.key: one.value and json.loads(one.value) for one in ground.topics.records(changes)}
    assert now == {b"a": {"user": "a", "n": 2}, b"b": {"user": "b", "n": 2}, b"c": None}
    assert any("out: batch 0  " in line for line in lines), lines
    found = {row["sink"]: row for row in status.status(pipeline)}
    assert {row["state"] for row in found.values()} == {"done"}
    assert (found["out"]["rows"], found["out"]["behind"]) == (5, 0)
    assert found["out"]["offsets"][0][ground.clicks].keys() == {"0", "1"}
    assert "done" in status.table(list(found.values()))


def test_the_next_run_goes_on_where_the_last_one_ended(spark: SparkSession, ground: Ground) -> None:
    pipeline = ground.pipeline()
    assert run(spark, pipeline, available_now=True, tell=quietly) == 0
    with tidelog.Producer(ground.topics.bootstrap) as producer:
        producer.send(ground.clicks, value=json.dumps({"user": "z", "page": "/z"}))
    assert run(spark, pipeline, available_now=True, tell=quietly) == 0
    assert [key for key, _ in ground.written(ground.out)] == ["a", "a", "b", "b", "c", "z"]


def test_the_printed_program_does_the_same(spark: SparkSession, ground: Ground) -> None:
    pipeline = ground.pipeline(f"  out: {{from: named, topic: {ground.out}, key: user}}\n")
    text = program(pipeline, available_now=True)
    exec(compile(text, "printed.py", "exec"), {"__name__": "__main__"})
    assert ground.written(ground.out) == NAMED
    # It has the runner's checkpoints too: the runner finds nothing left to do.
    assert run(spark, pipeline, available_now=True, tell=quietly) == 0
    assert ground.written(ground.out) == NAMED


def test_a_failure_is_retried_until_its_reason_has_gone(
    spark: SparkSession, ground: Ground
) -> None:
    late = f"{ground.out}-late"
    pipeline = ground.pipeline(topic=late)
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        if "starts again" in line:
            ground.topics.create_named(late, 1)

    assert run(spark, pipeline, available_now=True, tell=tell) == 0
    words = f"out: try 1 of 3 failed: Topic '{late}' does not exist"
    assert any(words in line for line in lines), lines
    [row] = status.status(pipeline)
    assert (row["state"], row["failures"]) == ("done", 1)


def test_a_failure_that_stays_ends_the_run(spark: SparkSession, ground: Ground) -> None:
    pipeline = ground.pipeline(topic="never-made")
    lines: list[str] = []
    assert run(spark, pipeline, available_now=True, tell=lines.append) == 1
    tries = [line.partition(" failed: ")[0] for line in lines]
    assert tries == ["out: try 1 of 3", "out: try 2 of 3", "out: try 3 of 3"]
    assert lines[-1].endswith("; gave up")
    [row] = status.status(pipeline)
    assert row["state"] == "failed"
    assert "never-made" in row["error"]


def test_what_spark_refuses_is_not_tried_again(spark: SparkSession, ground: Ground) -> None:
    pipeline = ground.pipeline("  rows: {from: counted, table: counts, mode: complete}\n")
    lines: list[str] = []
    assert run(spark, pipeline, available_now=True, tell=lines.append) == 1
    (line,) = lines
    assert "not supported in Data Source parquet" in line
    assert line.endswith("; gave up, since it would fail again")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_between_two_batches(
    spark: SparkSession, ground: Ground, number: signal.Signals
) -> None:
    pipeline = ground.pipeline(more="metrics_port: 0")
    lines: list[str] = []
    pages: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        if "batch 0" in line:
            port = next(one.rpartition(" ")[2] for one in lines if one.startswith("metrics"))
            with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                pages.append(answer.read().decode())
            os.kill(os.getpid(), number)

    assert run(spark, pipeline, available_now=False, tell=tell) == 0
    [row] = status.status(pipeline)
    assert row["state"] == "stopped"
    assert run(spark, pipeline, available_now=True, tell=quietly) == 0
    assert [key for key, _ in ground.written(ground.out)] == ["a", "a", "b", "b", "c"]
    assert 'tidelog_streams_batches_total{pipeline="clicks",sink="out"} 1\n' in pages[0]
    assert 'tidelog_streams_rows_total{pipeline="clicks",sink="out"}' in pages[0]
