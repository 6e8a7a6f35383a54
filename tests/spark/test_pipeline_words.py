"""What is told of a try that failed is one line with its cause, whichever way Java said it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError, escape_new_line
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelog_spark.streams.pipeline import status
from tidelog_spark.streams.pipeline.reading import pipeline_of
from tidelog_spark.streams.pipeline.running import SinkRun
from tidelog_spark.streams.pipeline.specification import Pipeline
from tidelog_spark.streams.pipeline.words import words_of, words_of_failure

FRAMES = """
\tat java.base/java.lang.Thread.run(Thread.java:840)
\tat org.apache.spark.sql.Run$.$anonfun$run$1(Run.scala:42)
\t... 90 more"""
NOT_A_DIRECTORY = "org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory"
LOST_TASK = "Job aborted due to stage failure: Lost task 0.0 (TID 1): java.io.IOException: no space"


class JavaThrowable:
    """As much of a Java error as py4j hands over."""

    _target_id = "o1"

    def __init__(self, text: str, cause: JavaThrowable | None = None) -> None:
        self._text = text
        self._cause = cause
        self._gateway_client = self

    def send_command(self, _command: str) -> str:
        """What Java answers when py4j asks for the stack: yes, a string."""
        return f"ys{escape_new_line(self._text + FRAMES)}"

    def toString(self) -> str:
        return self._text

    def getCause(self) -> JavaThrowable | None:
        return self._cause


def java_error(throwable: JavaThrowable) -> Exception:
    """Py4j's error, whose text has the whole stack."""
    error: Exception = Py4JJavaError("An error occurred while calling o88.start.\n", throwable)
    assert str(error).endswith("90 more")
    return error


class WithCause(PySparkException):
    """An error of a query as PySpark hands it over."""

    def __init__(self, message: str, cause: PySparkException) -> None:
        super().__init__(message)
        self._cause = cause


@pytest.mark.parametrize(
    ("throwable", "words"),
    [
        (JavaThrowable(NOT_A_DIRECTORY), NOT_A_DIRECTORY),
        (JavaThrowable(f"a.B: first\nsecond{FRAMES}"), "a.B: first"),
        (JavaThrowable(f"a.B: \n first{FRAMES}"), "a.B: first"),
        (JavaThrowable("a.B: [SOME_CODE.PART] no luck SQLSTATE: 42000"), "a.B: no luck"),
        (JavaThrowable(f"a.B: {LOST_TASK}{FRAMES}"), f"a.B: {LOST_TASK}"),
        (JavaThrowable("a.B"), "a.B"),
        (JavaThrowable("a.B", JavaThrowable("c.D: null", JavaThrowable("e.F: this"))), "e.F: this"),
        (JavaThrowable("a.B: Exception thrown in wait: ", JavaThrowable("c.D: it")), "c.D: it"),
        (JavaThrowable("a.B", JavaThrowable("c.D")), "a.B"),
    ],
)
def test_of_an_error_of_java_its_first_line_is_told(throwable: JavaThrowable, words: str) -> None:
    assert words_of_failure(java_error(throwable)) == words


def test_causes_that_go_round_come_to_an_end() -> None:
    round_about = JavaThrowable("a.B")
    round_about._cause = round_about
    assert words_of(java_error(round_about)) == "a.B"


@pytest.mark.parametrize(
    "message",
    [
        f"{LOST_TASK}{FRAMES}\n\nDriver stacktrace:",
        f"{LOST_TASK}\n\nDriver stacktrace:\n=== Streaming Query ===\nIdentifier: out",
        f"{LOST_TASK}\n=== Streaming Query ===\nIdentifier: out\nLogical Plan:\n+- ~Project",
        f"{LOST_TASK}\n\nJVM stacktrace:\norg.apache.spark.Run.run(Run.scala:42){FRAMES}",
    ],
)
def test_of_spark_s_own_words_none_of_stack_and_plan_is_told(message: str) -> None:
    assert words_of_failure(PySparkException(message)) == LOST_TASK


def test_where_a_query_failed_without_words_its_cause_is_told() -> None:
    cause = PySparkException("java.lang.NullPointerException")
    query = WithCause("null\n=== Streaming Query ===\nIdentifier: out", cause)
    assert words_of_failure(query) == "java.lang.NullPointerException"


def pipeline_to(folder: Path, target: str) -> Pipeline:
    """One sink that is never started again."""
    return pipeline_of(
        f"""\
name: copies
checkpoints: {folder / "state"}
restart: {{attempts: 0}}
sources: {{ticks: {{topic: ticks}}}}
sinks: {{out: {{from: ticks, {target}}}}}
""",
        "p.yaml",
    )


def told_of(
    spark: SparkSession, pipeline: Pipeline, spoil: Callable[[], None] | None = None
) -> str:
    """The one line that is told of the failure, which the status must have too."""
    told: list[str] = []
    (sink,) = pipeline.sinks
    one = SinkRun(pipeline, sink, told.append)
    ticks: DataFrame = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    while not one.has_ended:
        one.look({"ticks": ticks}, available_now=False)
        if spoil is not None and one.figures.batches:
            spoil()
            spoil = None
        time.sleep(0.02)
    (row,) = status.status(pipeline)
    assert told[-1] == f"out: try 1 of 1 failed: {row['error']}; gave up"
    return str(row["error"])


def test_a_start_that_java_refuses_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "out").touch()
    error = told_of(spark, pipeline_to(tmp_path, "console: true"))
    assert error.startswith("org.apache.hadoop.fs.FileAlreadyExistsException: Destination exists")
    assert error.endswith("/state/out")


def test_a_batch_that_java_fails_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "files"

    def spoil() -> None:
        files.rename(tmp_path / "moved")
        files.touch()

    error = told_of(spark, pipeline_to(tmp_path, f"parquet: {files}"), spoil)
    assert str(files) in error
    assert not re.search(r"\bat \S+\(|Streaming Query", error), error
