"""One Spark session for all tests, small and quick to start, and wholly gone afterwards.

`local[2,3]`: two threads, and three attempts a task, or retries would never be tested. What workers
inherit (interpreter, paths) is set before the JVM starts, since nothing set later reaches them.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from support.tree import ROOT
from tools.java import find_java, missing_java

MASTER: Final = "local[2,3]"
#: A JVM that starts quickly and stays small: no second compiler, no collector threads.
JVM_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JVM_FLAGS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
#: Print hundreds of lines of Java for each error that a test provokes.
_TALKATIVE: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: Turns a JVM that would never end into a failure.
_END_LIMIT_S: Final = 30.0


class JavaMissing(Exception):
    """Spark can't run here; the message says why."""


def spark_environment(temporary: Path | None = None) -> dict[str, str]:
    """What Spark's processes have to inherit: the interpreter, the modules of tests, and Java.

    What they leave behind when they are killed lies in `temporary` then.
    """
    java = find_java()
    if java is None:
        raise JavaMissing(missing_java())
    tests = ROOT / "tests"
    worker_site = tests / "spark_kit" / "worker_site"
    paths = [str(worker_site), str(tests), str(ROOT), os.environ.get("PYTHONPATH", "")]
    places = {}
    if temporary is not None:
        temporary.mkdir(exist_ok=True)
        places = {
            "SPARK_LOCAL_DIRS": str(temporary),
            "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={temporary}",
            "TMPDIR": str(temporary),
        }
    return places | {
        "JAVA_HOME": str(java.home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONWARNINGS": "ignore",  # those of Spark's own modules, in processes that are Spark's
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }


@contextmanager
def spark_session(
    folder: Path, *, master: str = MASTER, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session whose files lie in `folder`. Raises `JavaMissing` where there can be none."""
    with mock.patch.dict(os.environ, spark_environment()):
        time.tzset()
        builder = SparkSession.builder.master(master).appName("tidelog-tests")
        chosen = {
            **SETTINGS,
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **(settings or {}),
        }
        for name, value in chosen.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            # Its threads would otherwise count as left behind by the first test that needs them.
            start_callbacks: Callable[[object], None] = ensure_callback_server_started
            start_callbacks(SparkContext._gateway)
            yield session
        finally:
            _end(session)
    time.tzset()


def _end(session: SparkSession) -> None:
    """Stops Spark and its JVM, so that neither a process nor a thread is left."""
    gateway = SparkContext._gateway
    assert gateway is not None
    session.stop()
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    process = gateway.proc
    process.stdin.close()
    process.wait(_END_LIMIT_S)
