"""The examples of docs/spark-writing.md do what the page says."""

from __future__ import annotations

from pathlib import Path

from docs.blocks import DOCUMENTED_ADDRESS, blocks_of
from pyspark.sql import SparkSession

from spark_kit.topics import Topics
from support.tree import ROOT

PAGE = ROOT / "docs" / "spark-writing.md"
TOPICS = ("orders", "loud-orders")


def on_topics_of_its_own(text: str, bootstrap: str) -> str:
    """The example on this node, where other pages use the same names of topics."""
    for name in TOPICS:
        text = text.replace(f'"{name}"', f'"{name}-of-writing"')
    return text.replace(DOCUMENTED_ADDRESS, bootstrap)


def test_the_page_does_what_it_says(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    names = {"spark": spark, "checkpoint": str(tmp_path)}
    blocks = [block for block in blocks_of(PAGE.read_text()) if block.language == "py"]
    assert len(blocks) == 2
    for block in blocks:
        exec(on_topics_of_its_own(block.text, topics.bootstrap), names)
    (loud,) = topics.records("loud-orders-of-writing")
    assert (loud.key, loud.value) == (b"customer-42", b"TWO COFFEES")
