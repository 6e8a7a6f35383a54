"""What every example needs: a Spark session, a cluster, topics of its own, and a folder.

Each example imports it from the folder in which it lies itself. Without `--bootstrap-server` the
cluster is a node of this run that is gone when the example has ended.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from tidelog import Admin
from tidelog_node.testing.throw_away import throw_away_node
from tidelog_spark import register

SETTINGS: Final = {
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class Playground:
    """Where an example plays."""

    spark: SparkSession
    bootstrap: str
    folder: Path

    def topic(self, name: str, partitions: int = 2) -> str:
        """A fresh topic, so that an example may be run again at the same cluster."""
        fresh = f"{name}-{secrets.token_hex(4)}"
        with Admin(self.bootstrap) as admin:
            admin.create_topic(fresh, partitions=partitions)
        return fresh

    def checkpoint(self, name: str) -> str:
        """A folder for the progress of one query."""
        return str(self.folder / name)


def play(example: Callable[[Playground], None], description: str) -> int:
    """Runs an example as a program."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap-server", help="use this cluster, not one of this run")
    address = parser.parse_args().bootstrap_server
    with tempfile.TemporaryDirectory(prefix="tidelog-example-") as folder:
        if address:
            _play(example, address, Path(folder))
        else:
            with throw_away_node() as own:
                _play(example, own, Path(folder))
    return 0


def _play(example: Callable[[Playground], None], bootstrap: str, folder: Path) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tidelog-example")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    try:
        example(Playground(spark, bootstrap, folder))
    finally:
        spark.stop()
