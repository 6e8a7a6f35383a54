"""The pages on Spark do what they say: examples, the pipeline's file, and the move from Kafka."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from docs.blocks import DOCUMENTED_ADDRESS, blocks_of
from docs.test_documents_hold import tables
from pyspark.sql import SparkSession

import tidelog
from harness.processes import running_node
from spark_kit.topics import Topics
from support.tree import ROOT
from tidelog_spark.source import register
from tidelog_spark.streams.pipeline import metrics
from tidelog_spark.streams.pipeline.checking import validate
from tidelog_spark.streams.pipeline.reading import RESTART, SINK, SOURCE, TOP, VIEW, pipeline_of
from tidelog_spark.streams.pipeline.running import run

DOCS: Final = ROOT / "docs"
MOVING: Final = "spark-from-kafka.md"


@pytest.fixture(autouse=True)
def _format_is_known(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    """A node of the test's own: pages have names for their topics, and not each its own."""
    with running_node(tmp_path / "node" / "data", "--config", "flush.policy=os") as node:
        yield Topics(node.bootstrap)


def run_page(page: str, names: dict[str, Any], bootstrap: str) -> None:
    """Runs the `py` blocks of a page in one namespace; compares what those print with a `text`."""
    expected_of: dict[int, str] = {}
    blocks = blocks_of((DOCS / page).read_text())
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language == "py" and following and following.language == "text":
            expected_of[block.line] = following.text
    for block in blocks:
        if block.language != "py":
            continue
        printed = io.StringIO()
        source = "\n" * (block.line - 1) + block.text.replace(DOCUMENTED_ADDRESS, bootstrap)
        with contextlib.redirect_stdout(printed):
            exec(compile(source, page, "exec"), names)
        expected = expected_of.get(block.line)
        if expected is not None:
            assert printed.getvalue().strip() == expected.strip(), f"{page}:{block.line}"


def test_the_first_page_does_what_it_says(spark: SparkSession, topics: Topics) -> None:
    run_page("spark.md", {"__name__": "__main__"}, topics.bootstrap)


def test_the_page_on_streams_does_what_it_says(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    names = {"__name__": "__main__", "spark": spark, "folder": str(tmp_path)}
    run_page("streams.md", names, topics.bootstrap)
    assert sorted(record.key or b"" for record in topics.records("named-clicks")) == [
        *(b"ada", b"ada", b"ada", b"bo")
    ]
    (block,) = [
        one for one in blocks_of((DOCS / "streams.md").read_text()) if one.language == "yaml"
    ]
    text = block.text.replace(" state/", f" {tmp_path}/state/")
    pipeline = pipeline_of(text, "clicks.yaml", bootstrap=topics.bootstrap)
    validate(spark, pipeline)
    assert run(spark, pipeline, available_now=True, tell=lambda _line: None) == 0
    assert len(topics.records("clicks-with-names")) == 5
    hourly = spark.read.parquet(str(tmp_path / "state" / "hourly"))
    assert {(row.country, row.clicks) for row in hourly.collect()} >= {("GB", 2), ("DK", 1)}


def test_the_page_on_streams_names_every_field_and_series() -> None:
    text = (DOCS / "streams.md").read_text()
    fields = {*TOP, *SOURCE, *VIEW, *SINK, *RESTART, "delay", "column"}
    named = set(re.findall(r"\b[a-z_]+\b", text))
    assert fields - named == set()
    listed = set(re.findall(r"`tidelog_streams_(\w+)`", text))
    assert listed == {name for name, *_ in metrics.SERIES}


def moved_job(*, leaving_out: str = "") -> str:
    """The job of the page after the edits that its table lists, and no others."""
    (block,) = [one for one in blocks_of((DOCS / MOVING).read_text()) if one.language == "py"]
    (edits,) = [rows for rows in tables(MOVING) if rows[0][:2] == ["from", "to"]]
    text = block.text
    for row in edits[1:]:
        before, after = (cell.strip("`") for cell in row[:2])
        assert before in text, before
        text = text if before == leaving_out else text.replace(before, after)
    return text


def test_a_job_moves_from_kafka_by_the_listed_edits(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    for name in ("orders", "large-orders", "counts"):
        topics.create_named(name, partitions=1)
    with tidelog.Producer(topics.bootstrap) as producer:
        for key, amount in [("a", "99"), ("a", "100"), ("b", "250"), ("b", "300")]:
            producer.send("orders", key=key, value=amount, headers={"at": "desk"})
    names = {"spark": spark, "checkpoint": str(tmp_path)}
    exec(moved_job().replace(DOCUMENTED_ADDRESS, topics.bootstrap), names)
    large = [(one.key, one.value, one.headers[0][1]) for one in topics.records("large-orders")]
    assert large == [(b"a", b"100", b"desk"), (b"b", b"250", b"desk"), (b"b", b"300", b"desk")]
    counts = sorted((one.key, one.value) for one in topics.records("counts"))
    assert counts == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.parametrize("edit", ['format("kafka")', ".save()"])
def test_each_edit_is_needed(
    spark: SparkSession, topics: Topics, tmp_path: Path, edit: str
) -> None:
    names = {"spark": spark, "checkpoint": str(tmp_path)}
    for name in ("orders", "large-orders", "counts"):
        topics.create_named(name, partitions=1)
    job = moved_job(leaving_out=edit).replace(DOCUMENTED_ADDRESS, topics.bootstrap)
    with pytest.raises(Exception, match=r"Failed to find|ErrorIfExists") as refused:
        exec(job, names)
    assert not isinstance(refused.value, NameError | SyntaxError)


def test_what_a_pipeline_may_leave_out_is_what_the_page_says() -> None:
    text = "name: n\ncheckpoints: c\nsources: {a: {topic: a}}\nsinks: {o: {from: a, console: true}}"
    pipeline = pipeline_of(text, "p.yaml")
    assert pipeline == replace(pipeline, bootstrap=DOCUMENTED_ADDRESS, views=(), spark={})
    page = (DOCS / "streams.md").read_text()
    restart = pipeline.restart
    pauses = (restart.first_pause_ms, restart.longest_pause_ms)
    assert (restart.attempts, *pauses) == (10, 1_000, 60_000)
    assert "`attempts` (10), `first_pause` (1 second), `longest_pause` (1 minute)" in page
