"""A standalone Spark cluster of the pyspark package's own classes: a master and two workers.

Executors are processes here, so they can really be killed; a worker starts another one then. All of
it is gone when the block ends, whatever the test did.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from spark_kit.session import JVM_FLAGS, spark_environment
from support.eventually import eventually

SPARK_HOME: Final = Path(pyspark.__file__).parent
WORKERS: Final = 2
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
_START_LIMIT_S: Final = 180.0


class StandaloneCluster:
    """A running one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers: list[int] = []
        self.master = ""

    def start(self) -> None:
        """Starts the master and its workers; returns once they know each other."""
        flags = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = self._daemon("master", "org.apache.spark.deploy.master.Master", *flags)
        (self.master, *_) = eventually(
            lambda: _MASTER.findall(log.read_text()), _START_LIMIT_S, waiting_for="the master"
        )
        for number in range(WORKERS):
            name = f"worker{number}"
            place = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name)]
            kind = "org.apache.spark.deploy.worker.Worker"
            log = self._daemon(name, kind, *flags, *place, self.master)
            self._workers.append(self._processes[-1].pid)
            eventually(
                lambda log=log: _REGISTERED in log.read_text(),  # type: ignore[misc]
                _START_LIMIT_S,
                waiting_for=name,
            )

    def executors(self) -> list[int]:
        """The executors that run now."""
        return [
            child
            for worker in self._workers
            for child in children_of(worker)
            if "CoarseGrainedExecutorBackend" in command_of(child)
        ]

    def python_workers(self) -> list[int]:
        """The processes below executors that run tasks in Python."""
        daemons = [child for executor in self.executors() for child in children_of(executor)]
        return [task for daemon in daemons for task in children_of(daemon)]

    def stop(self) -> None:
        """Ends every process, executors and what they started with them."""
        below = [*self.python_workers(), *self.executors()]
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        for process_id in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)

    def _daemon(self, name: str, kind: str, *arguments: str) -> Path:
        """Starts one of the cluster's own processes; returns where its log is."""
        environment = {
            **os.environ,
            **spark_environment(self._folder / "temporary"),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": _scala_version(),
        }
        java = Path(environment["JAVA_HOME"]) / "bin" / "java"
        retries = "-Dspark.deploy.maxExecutorRetries=-1"
        place = environment["SPARK_SUBMIT_OPTS"]
        command = [str(java), "-Xmx256m", *JVM_FLAGS.split(), retries, place]
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "-cp", f"{SPARK_HOME}/jars/*", kind, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self._processes.append(process)
        return log


def _scala_version() -> str:
    """What Spark's scripts would say; executors are not started without it."""
    (core,) = (SPARK_HOME / "jars").glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """One for the length of a block; its files lie in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = StandaloneCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def children_of(process_id: int) -> list[int]:
    """The processes that a process has started and that run now."""
    try:
        tasks = Path(f"/proc/{process_id}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:
        return []  # it ended while we looked


def parent_of(process_id: int) -> int:
    """The process that has started a process. Raises ProcessLookupError once it has ended."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError as gone:
        raise ProcessLookupError(process_id) from gone
    return int(fields[1])


def command_of(process_id: int) -> str:
    """The command line of a process; nothing of one that has ended."""
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""
