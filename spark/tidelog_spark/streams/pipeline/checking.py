"""What Spark thinks of a pipeline, without running it: `validate` and `explain`.

The views are analysed and every sink is checked against what Spark can do in its output mode.
Invariant: no cluster is asked and nothing is written.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelog_spark.streams.pipeline.building import build, writer_of
from tidelog_spark.streams.pipeline.document import InvalidPipeline, Problem
from tidelog_spark.streams.pipeline.specification import Pipeline, Sink
from tidelog_spark.streams.pipeline.words import words_of


def validate(spark: SparkSession, pipeline: Pipeline) -> dict[str, DataFrame]:
    """Raises `InvalidPipeline` for what would be refused when it runs; returns the views."""
    built = build(spark, pipeline)
    problems = []
    for sink in pipeline.sinks:
        try:
            writer_of(pipeline, sink, built)
            _check_mode(spark, sink, built)
        except InvalidPipeline as invalid:
            problems += invalid.problems
        except PySparkException as error:
            problems.append(Problem(sink.line, f"sink '{sink.name}': {words_of(error)}"))
    if problems:
        raise InvalidPipeline(pipeline.file, problems)
    return built


def described(pipeline: Pipeline, built: dict[str, DataFrame]) -> list[str]:
    """Each view with its columns, each sink with where it writes: lines for a reader."""
    lines = []
    for part in pipeline.parts:
        frame = built[part.name]
        kind = "stream" if frame.isStreaming else "table"
        columns = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in frame.schema)
        lines.append(f"{part.name} ({kind}): {columns}")
    for sink in pipeline.sinks:
        target = f"{sink.kind} {sink.target}".strip()
        lines.append(f"{sink.view} -> {target} ({sink.mode})")
    return lines


def plan_of(sink: Sink, built: dict[str, DataFrame]) -> str:
    """How Spark would run the query of a sink."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        # Spark sees the stream only in a plan that is analysed, which that of a query is not yet.
        _rows_of(sink, built).select("*").explain("formatted")
    return shown.getvalue().strip() + "\n"


def _rows_of(sink: Sink, built: dict[str, DataFrame]) -> DataFrame:
    [rows] = [frame for name, frame in built.items() if name.lower() == sink.view.lower()]
    return rows


def _check_mode(spark: SparkSession, sink: Sink, built: dict[str, DataFrame]) -> None:
    """Asks the check that Spark makes when a query starts; its place is Spark's own affair."""
    jvm: Any = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    if not isinstance(checker, JavaClass):
        return  # another Spark keeps it elsewhere: then the start of the query tells
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, sink.mode.capitalize())()
    checker.checkForStreaming(_rows_of(sink, built)._jdf.queryExecution().analyzed(), mode)
