"""The program that does what a pipeline does, for those who go on without the runner.

`tidelog streams run --print-python` shows it. Invariant: it builds the same views and starts the
same queries as `building.py`; a test runs both and compares what they write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog_spark.streams.pipeline.session import DEFAULTS
from tidelog_spark.streams.pipeline.specification import Pipeline, Sink, Source, View

HEAD: Final = '''\
"""{name}: what `tidelog streams run {file}` runs, as a program."""

from pyspark.sql import SparkSession

from tidelog_spark import register, streams

BOOTSTRAP = {bootstrap!r}
CHECKPOINTS = {checkpoints!r}

builder = SparkSession.builder.appName({name!r})
for name, value in {settings}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
register(spark)
'''
TAIL: Final = """\
for query in queries:
    query.awaitTermination()
"""


def program(pipeline: Pipeline, *, available_now: bool = False) -> str:
    """The program's text."""
    settings = {**DEFAULTS, **pipeline.spark}
    head = HEAD.format(
        name=pipeline.name,
        file=pipeline.file,
        bootstrap=pipeline.bootstrap,
        checkpoints=pipeline.checkpoints.rstrip("/"),
        settings=_mapping(settings, ""),
    )
    parts = [_source(part) if isinstance(part, Source) else _view(part) for part in pipeline.parts]
    sinks = [_sink(sink, available_now=available_now) for sink in pipeline.sinks]
    return "\n".join([head, *parts, "queries = []\n", *sinks, TAIL])


def _source(source: Source) -> str:
    arguments = ["spark", repr(source.topic or None), "bootstrap=BOOTSTRAP"]
    arguments += [f"value={source.value!r}", f"key={source.key!r}"]
    arguments += [f"malformed={source.malformed!r}"] if source.malformed != "keep" else []
    if source.watermark:
        arguments.append(f"watermark={(source.watermark.column, source.watermark.delay)!r}")
    options = dict(source.options)
    if not source.is_table:
        by_pattern = {"subscribePattern": source.pattern} if source.pattern else {}
        options = {"startingOffsets": source.start, **by_pattern, **options}
    if options:
        arguments.append(f"options={options!r}")
    call = _call("table" if source.is_table else "stream", arguments)
    return f"rows = streams.{call}\nrows.createOrReplaceTempView({source.name!r})\n"


def _view(view: View) -> str:
    quotes = "'''" if '"""' in view.sql else '"""'
    text = view.sql.replace("\\", "\\\\").replace(quotes, "\\" + "\\".join(quotes))
    lines = [f"rows = spark.sql(\n    {quotes}\n{text}\n{quotes}\n)"]
    if view.watermark:
        both = f"{view.watermark.column!r}, {view.watermark.delay!r}"
        lines.append(f"rows = rows.withWatermark({both})")
    lines.append(f"rows.createOrReplaceTempView({view.name!r})\n")
    return "\n".join(lines)


def _sink(sink: Sink, *, available_now: bool) -> str:
    checkpoint = f'f"{{CHECKPOINTS}}/{sink.name}"'
    lines = [f"rows = spark.table({sink.view!r})"]
    if sink.kind == "topic":
        arguments = ["rows", repr(sink.target), "bootstrap=BOOTSTRAP", f"checkpoint={checkpoint}"]
        arguments += [f"key={list(sink.key)!r}"] if sink.key else []
        arguments += [f"value={sink.value!r}"] if sink.value else []
        arguments += [f"delete_when={sink.delete_when!r}"] if sink.delete_when else []
        arguments += [f"options={sink.options!r}"] if sink.options else []
        name = "changelog" if sink.mode == "update" else "to_topic"
        lines.append(f"writer = streams.{_call(name, arguments)}")
    else:
        lines.append(f"writer = rows.writeStream.outputMode({sink.mode!r})")
        if sink.options:
            lines.append(f"writer = writer.options(**{sink.options!r})")
        lines.append(f'writer = writer.option("checkpointLocation", {checkpoint})')
    if sink.kind == "parquet":
        lines.append(f'writer = writer.format("parquet").option("path", {sink.target!r})')
    elif sink.kind == "console":
        lines.append('writer = writer.format("console")')
    trigger = "availableNow=True" if available_now else f"processingTime={sink.trigger!r}"
    if available_now or sink.trigger:
        lines.append(f"writer = writer.trigger({trigger})")
    begin = f"writer.toTable({sink.target!r})" if sink.kind == "table" else "writer.start()"
    lines.append(f"writer = writer.queryName({sink.name!r})")
    return "\n".join([*lines, f"queries.append({begin})\n"])


def _call(name: str, arguments: Iterable[str]) -> str:
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{inner})"


def _mapping(settings: dict[str, str], indent: str) -> str:
    inner = "".join(f"{indent}    {name!r}: {value!r},\n" for name, value in settings.items())
    return f"{{\n{inner}{indent}}}"
