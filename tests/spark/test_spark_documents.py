"""The pages about Spark do what they say, and name every option there is."""

from __future__ import annotations

import contextlib
import io
from itertools import pairwise
from typing import Any

from docs.blocks import DOCUMENTED_ADDRESS, blocks_of
from pyspark.sql import SparkSession

from spark_kit.topics import Topics
from support.tree import ROOT
from tidelog.producer.producer import Producer
from tidelog_spark.options import CONSUMER_SETTINGS, SOURCE_NAMES

PAGE = ROOT / "docs" / "spark-reading.md"


def test_every_option_of_a_source_is_documented() -> None:
    text = PAGE.read_text()
    names = [*SOURCE_NAMES, *(f"kafka.{name}" for name in CONSUMER_SETTINGS)]
    assert [name for name in names if f"`{name}" not in text] == []


def test_the_page_about_reading_does_what_it_says(spark: SparkSession, topics: Topics) -> None:
    topics.create_named("orders", partitions=1)
    with Producer(topics.bootstrap) as producer:
        for key, value in (("customer-1", "tea"), ("customer-2", "coffee"), (None, "rope")):
            producer.send("orders", key=key, value=value)
    shared: dict[str, Any] = {"spark": spark}
    printed: dict[int, str] = {}
    blocks = blocks_of(PAGE.read_text())
    for block in blocks:
        if block.language == "py":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(block.text.replace(DOCUMENTED_ADDRESS, topics.bootstrap), shared)
            printed[block.line] = output.getvalue()
    spark.streams.removeListener(shared["listener"])
    spark.catalog.dropTempView("counts")
    said = {
        block.line: after.text
        for block, after in pairwise(blocks)
        if block.language == "py" and after.language == "text"
    }
    assert len(said) == 3
    assert {line: printed[line].strip() for line in said} == {
        line: text.strip() for line, text in said.items()
    }
