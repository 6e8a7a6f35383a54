"""The examples of docs/spark-writing.md do what the page says."""

from __future__ import annotations

from pathlib import Path

from docs.blocks import DOCUMENTED_ADDRESS, blocks_of
from pyspark.sql import SparkSession

from spark_kit.topics import Topics
from support.tree import ROOT
from tidelog_node.testing import InProcessCluster

PAGE = ROOT / "docs" / "spark-writing.md"


def test_the_page_does_what_it_says(
    spark: SparkSession, tidelog_cluster: InProcessCluster, tmp_path: Path
) -> None:
    """On a cluster of its own: other pages use the same names of topics."""
    topics = Topics(tidelog_cluster.address)
    names = {"spark": spark, "checkpoint": str(tmp_path)}
    blocks = [block for block in blocks_of(PAGE.read_text()) if block.language == "py"]
    assert len(blocks) == 2
    for block in blocks:
        exec(block.text.replace(DOCUMENTED_ADDRESS, topics.bootstrap), names)
    (loud,) = topics.records("loud-orders")
    assert (loud.key, loud.value) == (b"customer-42", b"TWO COFFEES")
