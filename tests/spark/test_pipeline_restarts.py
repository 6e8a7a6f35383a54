"""How often a query that fails is started again; no Spark is needed to count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from support.tree import ROOT
from tidelog_spark.streams.pipeline import running, status
from tidelog_spark.streams.pipeline.java_log import TOLD_IN_WORDS
from tidelog_spark.streams.pipeline.reading import pipeline_of
from tidelog_spark.streams.pipeline.running import SinkRun
from tidelog_spark.streams.pipeline.specification import Pipeline

PAGE = ROOT / "docs" / "streams.md"
FAILS = "[SOME_CONDITION] no luck, and\nnone tomorrow SQLSTATE: 42000"


def pipeline_with(attempts: int, folder: Path) -> Pipeline:
    text = f"""\
name: copies
checkpoints: {folder / "state"}
restart: {{attempts: {attempts}, first_pause: 1 millisecond, longest_pause: 2 milliseconds}}
sources: {{lines: {{topic: lines}}}}
sinks: {{out: {{from: lines, topic: out}}}}
"""
    return pipeline_of(text, "p.yaml")


def run_of_failures(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """How often the query is started, and what is told, when no start ever comes to a batch."""
    starts: list[str] = []
    told: list[str] = []

    def start(*_arguments: object, **_keywords: object) -> None:
        starts.append("start")
        raise PySparkException(FAILS)

    monkeypatch.setattr(running, "start", start)
    (sink,) = pipeline.sinks
    one = SinkRun(pipeline, sink, told.append)
    while not one.has_ended:
        one.look({}, available_now=True)
    return len(starts), told


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_attempts_counts_the_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    pipeline = pipeline_with(attempts, tmp_path)
    starts, _ = run_of_failures(pipeline, monkeypatch)
    assert starts == 1 + attempts
    (row,) = status.status(pipeline)
    assert (row["state"], row["failures"]) == ("failed", 1 + attempts)


def test_each_try_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = run_of_failures(pipeline_with(2, tmp_path), monkeypatch)
    cause = "failed: no luck, and none tomorrow"
    assert told == [
        f"out: try 1 of 3 {cause}; starts again in 0.001 s",
        f"out: try 2 of 3 {cause}; starts again in 0.002 s",
        f"out: try 3 of 3 {cause}; gave up",
    ]


@pytest.mark.parametrize(
    ("message", "is_told"),
    [
        ("Query out [id = 1, runId = 2] terminated with error", True),
        ("Exception in task 0.0 in stage 0.0 (TID 0)", True),
        ("[queryId = 77f5b] Task 0 in stage 0.0 failed 1 times; aborting job", True),
        ("Uncaught exception in thread main", False),
        ("Error running the cleaner. Aborting task", False),
        ("Lost executor 3 on here: the container was killed", False),
    ],
)
def test_only_lines_of_the_query_s_own_failure_are_left_out(message: str, is_told: bool) -> None:
    assert any(re.fullmatch(pattern, message) for pattern in TOLD_IN_WORDS) == is_told


def test_the_page_says_what_attempts_counts() -> None:
    page = PAGE.read_text()
    assert "is started again from its checkpoint, later each time, `attempts` times" in page
    assert "`attempts: 0` starts nothing again" in page
