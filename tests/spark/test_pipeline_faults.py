"""An error that nobody foresaw is a failed try of its sink: the others go on, and end in order."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from tidelog_spark.streams.pipeline import running, status
from tidelog_spark.streams.pipeline.reading import pipeline_of
from tidelog_spark.streams.pipeline.running import run
from tidelog_spark.streams.pipeline.specification import Pipeline, Sink


class Query:
    """As much of a query of Spark's as the runner asks for; `progress` makes its batches."""

    def __init__(self, progress: Callable[[], list[Any]] = list, *, looks: int = 1) -> None:
        self._progress = progress
        self._looks = looks
        self.stopped = False
        self.lastProgress = None
        self.status = {"isTriggerActive": False, "isDataAvailable": False}

    @property
    def isActive(self) -> bool:
        self._looks -= 1
        return self._looks > 0 and not self.stopped

    @property
    def recentProgress(self) -> list[Any]:
        return self._progress()

    def exception(self) -> None:
        """It ended in order."""

    def stop(self) -> None:
        self.stopped = True


class Stage:
    """Runs two sinks without Spark, whose queries a test has made up, a list for each sink."""

    def __init__(self, folder: Path) -> None:
        text = f"""\
name: copies
checkpoints: {folder / "state"}
restart: {{attempts: 2, first_pause: 1 millisecond}}
sources: {{lines: {{topic: lines}}}}
sinks: {{bad: {{from: lines, topic: one}}, good: {{from: lines, topic: other}}}}
"""
        self.pipeline = pipeline_of(text, "p.yaml")
        self.queries: dict[str, list[Query | Exception]] = {}
        self.told: list[str] = []

    def start(self, _pipeline: Pipeline, sink: Sink, *_rest: object, **_options: object) -> Query:
        query = self.queries[sink.name].pop(0)
        if isinstance(query, Exception):
            raise query
        return query

    def run(self, **queries: list[Query | Exception]) -> int:
        self.queries = queries
        return run(Mock(), self.pipeline, available_now=True, tell=self.told.append)

    def states(self) -> dict[str, tuple[str, int]]:
        """The state and the failures of each sink, as the status has them."""
        rows = status.status(self.pipeline)
        return {row["sink"]: (row["state"], row["failures"]) for row in rows}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """In place of Spark."""
    made = Stage(tmp_path)
    monkeypatch.setattr(running, "build", lambda _spark, _pipeline: {})
    monkeypatch.setattr(running, "start", made.start)
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.001)
    return made


def fails(error: Exception) -> Callable[[], list[Any]]:
    def progress() -> list[Any]:
        raise error

    return progress


def ends_the_run() -> list[Any]:
    signal.raise_signal(signal.SIGTERM)
    return []


def test_a_start_that_fails_of_something_unforeseen_is_tried_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    assert stage.run(bad=[KeyError("x"), Query()], good=[Query(looks=20)]) == 0
    assert stage.told == ["bad: try 1 of 3 failed: KeyError: 'x'; starts again in 0.001 s"]
    assert stage.states() == {"bad": ("done", 1), "good": ("done", 0)}
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.getMessage().startswith("bad: unforeseen")


def test_a_query_that_was_lost_is_stopped_before_the_next_begins(stage: Stage) -> None:
    lost = Query(fails(ValueError("no such\nfield")), looks=10**6)
    assert stage.run(bad=[lost, Query()], good=[Query()]) == 0
    assert lost.stopped
    assert "bad: try 1 of 3 failed: ValueError: no such field; starts again" in stage.told[0]


def test_a_fault_that_stays_ends_the_run_like_any_failure(stage: Stage) -> None:
    good = Query(looks=10**6)
    assert stage.run(bad=[TypeError("odd")] * 3, good=[good]) == 1
    assert stage.told[-1] == "bad: try 3 of 3 failed: TypeError: odd; gave up"
    assert good.stopped
    assert stage.states() == {"bad": ("failed", 3), "good": ("stopped", 0)}


def test_java_that_is_gone_is_no_fault_of_one_sink(stage: Stage) -> None:
    good = Query(looks=10**6)
    with pytest.raises(Py4JNetworkError):
        stage.run(bad=[Py4JNetworkError("Answer from Java side is empty")], good=[good])
    assert stage.told == []


def test_each_sink_is_stopped_though_that_fails_for_another(stage: Stage) -> None:
    def progress() -> list[Any]:
        if any("told to end" in line for line in stage.told):
            raise ValueError("odd")
        return []

    bad, good = Query(progress, looks=10**6), Query(ends_the_run, looks=10**6)
    with pytest.raises(ValueError, match="odd"):
        stage.run(bad=[bad], good=[good])
    assert (bad.stopped, good.stopped) == (True, True)
    assert stage.states()["good"] == ("stopped", 0)
