"""The Spark session of a pipeline: what its file says, and what streams need to run well.

`command.py` opens it for the verbs that need Spark. Invariant: whatever the file says goes before
what is set here, and a master that spark-submit or the environment chose stays.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.conf import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.errors import InvalidConfig, TidelogError
from tidelog_spark.source import register
from tidelog_spark.streams.pipeline.java_log import without_what_is_told
from tidelog_spark.streams.pipeline.specification import Pipeline
from tidelog_spark.streams.pipeline.words import words_of

LOG_LEVEL: Final = "spark.log.level"
DEFAULTS: Final = {
    # Spark measures every row of a batch otherwise, which costs up to 40 % and grows with nulls.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
    # A state store per partition and batch: 200 of them would be most of the time of a batch.
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    LOG_LEVEL: "ERROR",
}
#: What Spark's own Python writes to the standard error of the errors that we tell in words.
TALKATIVE: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def session_of(pipeline: Pipeline) -> Iterator[SparkSession]:
    """The session, ended with the block; raises `InvalidConfig` where Spark cannot start."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise InvalidConfig(
            "Spark needs Java 17 or newer, and there is none on the path and no JAVA_HOME",
            hint="On Debian: apt-get install default-jre-headless (as root)",
        )
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = SparkConf()
    builder = SparkSession.builder.appName(pipeline.name)
    if not given.contains("spark.master") and "spark.master" not in pipeline.spark:
        builder = builder.master("local[*]")
    for name, value in {**DEFAULTS, **pipeline.spark}.items():
        if name in pipeline.spark or not given.contains(name):
            builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        home = os.environ.get("JAVA_HOME")
        java = f"JAVA_HOME={home}" if home else f"{shutil.which('java')}"
        raise InvalidConfig(
            f"Spark could not start: {words_of(error)}",
            hint=f"It needs Java 17 or newer, and took that of {java}",
        ) from None
    register(spark)
    asked_for_all = LOG_LEVEL in pipeline.spark or given.contains(LOG_LEVEL)
    try:
        with nullcontext() if asked_for_all else without_what_is_told(spark):
            yield spark
    except (Py4JError, ConnectionError) as error:
        if isinstance(error, Py4JJavaError):
            raise
        raise TidelogError(
            "Spark's Java process has ended, and all queries with it",
            hint="The next run goes on from the checkpoints. To end one between two batches, send"
            " SIGTERM to this process alone (for systemd: KillMode=mixed)",
        ) from None
    finally:
        with suppress(Py4JError, ConnectionError):
            spark.stop()
