"""A pipeline becomes views of a Spark session, and its sinks become queries.

`checking.py` builds to see whether Spark agrees, `running.py` to run. Invariant: what Spark says
against a view or a sink is told with the line of the file, before anything is read.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog_spark.streams import sinks, topics
from tidelog_spark.streams.pipeline.document import InvalidPipeline, Problem
from tidelog_spark.streams.pipeline.specification import Pipeline, Sink, Source, View
from tidelog_spark.streams.pipeline.words import words_of

#: Where Spark's parser and analyser say that it is.
PLACE: Final = re.compile(r"\bline (\d+),? pos \d+")


def build(spark: SparkSession, pipeline: Pipeline) -> dict[str, DataFrame]:
    """Every source and view by its name, in order; raises `InvalidPipeline` with all that is wrong.

    What reads from a part that is wrong is left out: Spark would only say that it can't find that.
    """
    built: dict[str, DataFrame] = {}
    problems: list[Problem] = []
    wrong: list[str] = []
    for part in pipeline.parts:
        spark.catalog.dropTempView(part.name)  # or a view might see one that stands below it
    for part in pipeline.parts:
        if isinstance(part, View) and _mentions(part.sql, wrong):
            wrong.append(part.name)
            continue
        try:
            if isinstance(part, Source):
                frame = _source(spark, pipeline, part)
            else:
                frame = _view(spark, part)
            frame.createOrReplaceTempView(part.name)
        except (PySparkException, InvalidConfig) as error:
            problems.append(_problem(error, part, pipeline))
            wrong.append(part.name)
        else:
            built[part.name] = frame
    if problems:
        raise InvalidPipeline(pipeline.file, problems)
    return built


def _mentions(sql: str, names: list[str]) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE) for name in names)


def start(
    pipeline: Pipeline, sink: Sink, built: dict[str, DataFrame], *, available_now: bool
) -> StreamingQuery:
    """Starts the query of one sink."""
    writer = writer_of(pipeline, sink, built).queryName(sink.name)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif sink.trigger:
        writer = writer.trigger(processingTime=sink.trigger)
    return writer.toTable(sink.target) if sink.kind == "table" else writer.start()


def writer_of(pipeline: Pipeline, sink: Sink, built: dict[str, DataFrame]) -> DataStreamWriter:
    """Spark's writer of one sink; raises `InvalidPipeline` where the view does not fit it."""
    [rows] = [frame for name, frame in built.items() if name.lower() == sink.view.lower()]
    if not rows.isStreaming:
        message = f"sink '{sink.name}' writes '{sink.view}', in which there is no stream"
        raise InvalidPipeline(pipeline.file, [Problem(sink.line, message)])
    try:
        return _writer(pipeline, sink, rows)
    except (PySparkException, InvalidConfig) as error:
        message = f"sink '{sink.name}': {words_of(error)}"
        raise InvalidPipeline(pipeline.file, [Problem(sink.line, message)]) from None


def _writer(pipeline: Pipeline, sink: Sink, rows: DataFrame) -> DataStreamWriter:
    checkpoint = pipeline.checkpoint_of(sink)
    if sink.kind == "topic" and sink.mode == "update":
        return sinks.changelog(
            rows,
            sink.target,
            bootstrap=pipeline.bootstrap,
            checkpoint=checkpoint,
            key=sink.key,
            value=sink.value,
            delete_when=sink.delete_when,
            options=sink.options,
        )
    if sink.kind == "topic":
        return sinks.to_topic(
            rows,
            sink.target,
            bootstrap=pipeline.bootstrap,
            checkpoint=checkpoint,
            key=sink.key,
            value=sink.value,
            options=sink.options,
        )
    writer = rows.writeStream.outputMode(sink.mode).options(**sink.options)
    writer = writer.option("checkpointLocation", checkpoint)
    if sink.kind == "parquet":
        return writer.format("parquet").option("path", sink.target)
    return writer.format("console") if sink.kind == "console" else writer


def _source(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    if source.is_table:
        return topics.table(
            spark,
            source.topic,
            bootstrap=pipeline.bootstrap,
            value=source.value,
            key=source.key,
            malformed=source.malformed,
            options=source.options,
        )
    watermark = source.watermark
    by_pattern = {"subscribePattern": source.pattern} if source.pattern else {}
    return topics.stream(
        spark,
        source.topic or None,
        bootstrap=pipeline.bootstrap,
        value=source.value,
        key=source.key,
        malformed=source.malformed,
        watermark=(watermark.column, watermark.delay) if watermark else None,
        options={"startingOffsets": source.start, **by_pattern, **source.options},
    )


def _view(spark: SparkSession, view: View) -> DataFrame:
    rows = spark.sql(view.sql)
    if view.watermark:
        return rows.withWatermark(view.watermark.column, view.watermark.delay)
    return rows


def _problem(
    error: PySparkException | InvalidConfig, part: Source | View, pipeline: Pipeline
) -> Problem:
    kind = "source" if isinstance(part, Source) else "view"
    words = words_of(error)
    line = part.line
    if isinstance(part, View) and isinstance(error, PySparkException):
        words = _about_missing_view(error, part, pipeline) or words
        place = PLACE.search(str(error))
        line = part.sql_line + int(place[1]) - 1 if place else part.line
    return Problem(line, f"{kind} '{part.name}': {words}")


def _about_missing_view(error: PySparkException, view: View, pipeline: Pipeline) -> str:
    """Better words where a query names something that is not there."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    missing = str((error.getMessageParameters() or {}).get("relationName", "")).strip("`")
    lines = {part.name: part.line for part in pipeline.parts}
    for name, line in lines.items():
        if name.lower() == missing.lower():
            return f"'{missing}' is defined below, on line {line}: a view sees what stands above it"
    above = [name for name, line in lines.items() if line < view.line]
    hint = did_you_mean(missing, above) or f"Above it there is {', '.join(above)}."
    return f"there is no table or view '{missing}'. {hint}"
