"""Runs the sinks of a pipeline until they are done, fail for good, or somebody ends the run.

`tidelog streams run` calls it with the session and the pipeline. Invariant: a query that failed is
started again from its checkpoint, later each time, while the others go on; when the run is told to
end, the batch that a query is in ends first, so that nothing is written twice for it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from types import FrameType
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.errors import TidelogError
from tidelog_spark.streams.pipeline import metrics
from tidelog_spark.streams.pipeline.building import build, start
from tidelog_spark.streams.pipeline.figures import Figures, State, now
from tidelog_spark.streams.pipeline.specification import Pipeline, Sink
from tidelog_spark.streams.pipeline.status import note
from tidelog_spark.streams.pipeline.words import words_of_failure

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.1
BOUNDARY_LOOK_SECONDS: Final = 0.01

Tell = Callable[[str], None]


class SinkRun:
    """One sink: its query, and what is known of it."""

    def __init__(self, pipeline: Pipeline, sink: Sink, tell: Tell) -> None:
        self.sink = sink
        self.figures = Figures(
            pipeline.name, sink.name, process_id=os.getpid(), host=socket.gethostname()
        )
        self._pipeline = pipeline
        self._tell = tell
        self._query: StreamingQuery | None = None
        self._failures_in_a_row = 0
        self._start_at = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return self.figures.state in ("done", "failed", "stopped")

    def look(self, built: dict[str, DataFrame], *, available_now: bool) -> None:
        """Starts the query when it is time, takes in its batches, sees whether it has ended.

        Whatever goes wrong with it is a try of this sink that failed; raised is what concerns all
        of them: Java is gone, the file is wrong, or there is no place for notes or words.
        """
        try:
            self._look(built, available_now=available_now)
        except (PySparkException, Py4JJavaError) as error:
            self._lost(error)
        except (TidelogError, Py4JError, OSError):
            raise
        except Exception as error:  # a fault of ours: its words alone would not do to find it
            logger.exception("%s: unforeseen, taken as a try that failed", self.sink.name)
            self._lost(error)

    def _look(self, built: dict[str, DataFrame], *, available_now: bool) -> None:
        if self._query is None:
            if time.monotonic() >= self._start_at:
                self._start(built, available_now=available_now)
            return
        is_active = self._query.isActive
        self._take_in(self._query)
        if is_active:
            return
        failure = self._query.exception()
        self._query = None
        if failure is not None:
            self._failed(failure)
        else:
            self._enter("done" if available_now else "stopped")

    def stop(self, hurry: Event) -> None:
        """Ends the query between two batches; at once when there is a hurry."""
        query, self._query = self._query, None
        if query is not None:
            try:
                if query.isActive:
                    _wait_for_boundary(query, hurry)
                self._take_in(query)
            finally:
                query.stop()
        if not self.has_ended:
            self._enter("stopped")

    def _start(self, built: dict[str, DataFrame], *, available_now: bool) -> None:
        try:
            self._query = start(self._pipeline, self.sink, built, available_now=available_now)
        except (PySparkException, Py4JJavaError) as error:
            self._failed(error, for_good=isinstance(error, AnalysisException))
            return
        self._enter("running")

    def _take_in(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            if self.figures.add(progress):
                self._failures_in_a_row = 0
                self._tell(self.figures.line(progress.numInputRows))
                note(self._pipeline, self.figures)

    def _lost(self, error: Exception) -> None:
        """A try failed on our side: its query may still be at work, which the next would meet."""
        query, self._query = self._query, None
        if query is not None:
            try:
                query.stop()
            except (PySparkException, Py4JJavaError) as another:
                # Spark ends it when the same query is started again.
                logger.warning("%s does not stop: %s", self.sink.name, words_of_failure(another))
        self._failed(error)

    def _failed(self, error: Exception, *, for_good: bool = False) -> None:
        self.figures.failures += 1
        self._failures_in_a_row += 1
        restart = self._pipeline.restart
        self.figures.error = words_of_failure(error)
        pause_ms = restart.pause_ms(self._failures_in_a_row)
        is_over = for_good or self._failures_in_a_row > restart.attempts
        self._tell(self._words_of_try(pause_ms, is_over=is_over, for_good=for_good))
        if is_over:
            self._enter("failed")
            return
        self._start_at = time.monotonic() + pause_ms / 1000
        self._enter("waiting")

    def _words_of_try(self, pause_ms: int, *, is_over: bool, for_good: bool) -> str:
        """All there is to say of a try that failed, in one line."""
        tries = f"try {self._failures_in_a_row} of {self._pipeline.restart.attempts + 1}"
        then = f"starts again in {pause_ms / 1000:g} s"
        if is_over:
            then = "gave up, since it would fail again" if for_good else "gave up"
        return f"{self.sink.name}: {tries} failed: {self.figures.error}; {then}"

    def _enter(self, state: State) -> None:
        self.figures.state = state
        self.figures.updated = now()
        note(self._pipeline, self.figures)


def run(spark: SparkSession, pipeline: Pipeline, *, available_now: bool, tell: Tell) -> int:
    """Runs every sink; returns 0 when all ended in order, 1 when one failed for good."""
    built = build(spark, pipeline)
    runs = [SinkRun(pipeline, sink, tell) for sink in pipeline.sinks]
    figures = [one.figures for one in runs]
    with (
        metrics.served(pipeline.metrics_port, figures) as port,
        _signals() as (end, hurry),
        ExitStack() as ends,  # each sink is stopped, even if that fails for another one
    ):
        for one in reversed(runs):
            ends.callback(one.stop, hurry)
        if port is not None:
            tell(f"metrics at port {port}")
        while not end.is_set() and not _is_over(runs):
            for one in runs:
                if not one.has_ended:
                    one.look(built, available_now=available_now)
            end.wait(LOOK_SECONDS)
        if end.is_set():
            tell("told to end: waiting for the batches that are under way")
    return 1 if any(one.figures.state == "failed" for one in runs) else 0


def _is_over(runs: list[SinkRun]) -> bool:
    """Whether all have ended, or one failed for good, which ends the others too."""
    states = [one.figures.state for one in runs]
    return "failed" in states or all(one.has_ended for one in runs)


def _wait_for_boundary(query: StreamingQuery, hurry: Event) -> None:
    """Returns when the batch of this moment is committed, or when there was none.

    Spark has no such call. What begins in between is no further than its planning: it is planned
    again from the same offsets, and has written nothing.
    """
    before = _last_batch(query)
    while query.isActive and not hurry.wait(BOUNDARY_LOOK_SECONDS):
        status = query.status
        if not status["isTriggerActive"] or not status["isDataAvailable"]:
            return
        if _last_batch(query) != before:
            return


def _last_batch(query: StreamingQuery) -> tuple[int, str]:
    progress = query.lastProgress
    return (progress.batchId, progress.timestamp) if progress else (-1, "")


@contextmanager
def _signals() -> Iterator[tuple[Event, Event]]:
    """Events for SIGTERM and Ctrl-C: the first asks for an end, the second for a quick one."""
    end, hurry = Event(), Event()

    def note_signal(_number: int, _frame: FrameType | None) -> None:
        (hurry if end.is_set() else end).set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, note_signal) for number in numbers}
    try:
        yield end, hurry
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
