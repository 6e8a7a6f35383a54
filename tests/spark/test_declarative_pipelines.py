"""Spark's declarative pipelines work over topics as the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from docs.blocks import DOCUMENTED_ADDRESS, blocks_of
from pyspark.sql import SparkSession

import tidelog
from spark_kit.session import spark_environment
from spark_kit.topics import Topics
from support.tree import ROOT

PAGE = ROOT / "docs" / "spark-declarative-pipelines.md"


def test_a_flow_goes_from_topic_to_topic(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topics.create_named("loud-drinks", partitions=1)
    topics.create_named("drinks-to-shout", partitions=1)
    with tidelog.Producer(topics.bootstrap) as producer:
        producer.send("drinks-to-shout", key="a", value="tea")
    for block in blocks_of(PAGE.read_text()):
        text = block.text.replace(DOCUMENTED_ADDRESS, topics.bootstrap)
        text = text.replace('"drinks"', '"drinks-to-shout"')
        text = text.replace("/tmp/drinks-state", str(tmp_path / "state"))
        if block.language in ("yaml", "py"):
            name = text.partition("\n")[0].removeprefix("# ")
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    assert (tmp_path / "spark-pipeline.yml").exists()
    ran = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run"],
        cwd=tmp_path,
        env=os.environ
        | spark_environment()
        | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert topics.values("loud-drinks") == ["TEA"]
