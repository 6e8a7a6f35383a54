"""kill -9 again and again while a stream copies a topic: of workers, executors, driver and broker.

`tests/spark/test_spark_kills.py` runs it for a kill of each kind, `make soak-spark` for many. There
are only processes: a node, a standalone Spark cluster, and a driver that is started again whenever
it is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.processes import ProcessNode, running_node
from spark_kit.copies import Copies, examine
from spark_kit.copy_job import CopyJob
from spark_kit.session import spark_environment
from spark_kit.standalone import StandaloneCluster, parent_of
from spark_kit.topics import Topics
from spark_kit.traced import HELD, HOLD, HOLD_TASKS, WRITING, WRITTEN
from support.eventually import eventually
from tidelog.producer.producer import Producer

PARTITIONS: Final = 2
#: Records that are put into the source for each batch that was written, and how far ahead.
ROWS_PER_BATCH: Final = 4_000
BATCHES_AHEAD: Final = 5
#: Turns what never comes into a failure; says nothing about speed.
HANG_S: Final = 600.0
KINDS: Final = ("worker", "executor", "driver", "broker")


@dataclass(slots=True)
class Outcome:
    """What was done, and what came of it."""

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    #: Of the kills of workers and executors those after the last row's acknowledgement.
    acknowledged_kills: int = 0
    driver_starts: int = 0
    batches: int = 0
    copies: Copies = field(default_factory=lambda: Copies(0, 0, 0, 0))

    def summary(self) -> str:
        """One line."""
        kills = ", ".join(f"{count} {kind}" for kind, count in self.kills.items())
        return (
            f"{sum(self.kills.values())} kills ({kills}; {self.acknowledged_kills} of them of tasks"
            f" that had written all their rows), {self.driver_starts} starts of the driver,"
            f" {self.batches} batches: {self.copies.summary()}"
        )


class KillRun:
    """One run."""

    def __init__(
        self, folder: Path, cluster: StandaloneCluster, node: Node, say: Callable[[str], None]
    ) -> None:
        self.outcome = Outcome()
        self._folder = folder
        self._cluster = cluster
        self._node = node
        self._say = say
        self._expected: list[str] = []
        self._driver: subprocess.Popen[bytes] | None = None
        topics = Topics(node.bootstrap)
        for name in ("source", "target"):
            topics.create_named(name, PARTITIONS)
        self._job = CopyJob(
            master=cluster.master,
            bootstrap=node.bootstrap,
            source="source",
            target="target",
            folder=str(folder),
            rows_per_batch=ROWS_PER_BATCH,
        )
        self._producer: Producer[Any, Any] = Producer(node.bootstrap)

    def run(self, kinds: list[str]) -> Outcome:
        """Kills one after the other, lets the copy end, and compares."""
        try:
            for kind in kinds:
                self._wait(self._is_in_a_batch, f"a batch to kill a {kind} in")
                getattr(self, f"_kill_{kind}")()
                self.outcome.kills[kind] += 1
                done = self._done()
                self._say(f"killed a {kind} after batch {done}")
                self._wait(partial(self._is_beyond, done), f"a batch after the {kind}")
            self._producer.flush()
            self._wait(self._is_copied, "the rest to be copied", feeding=False)
        finally:
            self._end_driver()
            self._producer.close()
        self.outcome.batches = self._done() + 1
        return self.outcome

    # ------------------------------------------------------------------ progress

    def _wait(self, condition: Callable[[], object], what: str, *, feeding: bool = True) -> None:
        """Waits, with the driver kept alive and the source kept full."""

        def look() -> object:
            self._keep_driver()
            if feeding:
                self._feed()
            return condition()

        try:
            eventually(look, HANG_S, waiting_for=what)
        except AssertionError as late:
            late.add_note(self._driver_log())
            raise

    def _feed(self) -> None:
        rows = (self._done() + 1 + BATCHES_AHEAD) * ROWS_PER_BATCH - len(self._expected)
        if rows > 0:
            values = [str(len(self._expected) + number) for number in range(rows)]
            self._producer.send_many("source", values, keys=values)
            self._expected += values

    def _numbers(self, log: str) -> list[int]:
        folder = self._job.checkpoint / log
        return [int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()]

    def _done(self) -> int:
        """The last batch that Spark holds for done; -1 before the first."""
        return max(self._numbers("commits"), default=-1)

    def _is_beyond(self, batch: int) -> bool:
        return self._done() > batch

    def _is_in_a_batch(self) -> bool:
        return max(self._numbers("offsets"), default=-1) > self._done() >= 0

    def _is_copied(self) -> bool:
        if max(self._numbers("offsets"), default=-1) > self._done():
            return False
        written = Topics(self._node.bootstrap).records("target")
        self.outcome.copies = examine(written, self._expected)
        return self.outcome.copies.missing == 0

    # ------------------------------------------------------------------ kills

    def _kill_worker(self) -> None:
        """A Python process of a task."""
        self._kill_task("worker", 0)

    def _kill_executor(self) -> None:
        """The JVM above such a process."""
        self._kill_task("executor", 2)

    def _kill_task(self, kind: str, generations: int) -> None:
        """By turns when all rows of the task are acknowledged, and somewhere before."""
        if self.outcome.kills[kind] % 2:
            self._wait(partial(self._kill_found, WRITING, generations), "a task that writes")
            return
        hold = self._folder / HOLD_TASKS
        hold.touch()
        try:
            self._wait(partial(self._kill_found, WRITTEN, generations), "a task that has written")
        finally:
            hold.unlink()
        self.outcome.acknowledged_kills += 1

    def _kill_found(self, mark: str, generations: int) -> bool:
        """Kills a process that has left this mark, or the one so many generations above it."""
        for path in self._folder.glob(f"{mark}*"):
            victim = int(path.name.removeprefix(mark))
            if victim not in self._cluster.python_workers():
                path.unlink(missing_ok=True)  # it was killed before
                continue
            with contextlib.suppress(ProcessLookupError):
                for _ in range(generations):
                    victim = parent_of(victim)
                os.kill(victim, signal.SIGKILL)
                return True
        return False

    def _kill_driver(self) -> None:
        """Between the sink's commit and Spark's note of it."""
        hold, held = self._folder / HOLD, self._folder / HELD
        hold.touch()
        self._wait(held.exists, "a commit to kill the driver in")
        self._end_driver()
        hold.unlink()
        held.unlink()

    def _kill_broker(self) -> None:
        self._node.kill_and_restart()

    # ------------------------------------------------------------------ the driver

    def _keep_driver(self) -> None:
        if self._driver is not None and self._driver.poll() is None:
            return
        self._end_driver()
        with (self._folder / "driver.log").open("ab") as log:
            self._driver = subprocess.Popen(
                self._job.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **spark_environment(self._folder / "temporary")},
                start_new_session=True,
            )
        self.outcome.driver_starts += 1

    def _end_driver(self) -> None:
        """Kills it with its JVM, which is of the same group."""
        if self._driver is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()
            self._driver = None

    def _driver_log(self) -> str:
        log = self._folder / "driver.log"
        return log.read_text()[-4_000:] if log.exists() else "no driver was started"


class Node:
    """A node that keeps its address and its data through kills."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._life = ExitStack()
        self._process: ProcessNode
        self._start()
        self.bootstrap = self._process.bootstrap

    def kill_and_restart(self) -> None:
        """kill -9, and another one on the same data."""
        self._process.kill()
        self._life.close()
        self._start("--port", self.bootstrap.rpartition(":")[2])

    def stop(self) -> None:
        """Ends it."""
        self._life.close()

    def _start(self, *flags: str) -> None:
        self._process = self._life.enter_context(running_node(self._data_dir, *flags))


@contextmanager
def kill_run(
    folder: Path, cluster: StandaloneCluster, say: Callable[[str], None] = print
) -> Iterator[KillRun]:
    """A run on this Spark cluster, with a node of its own that is gone when the block ends."""
    node = Node(folder / "node")
    try:
        yield KillRun(folder, cluster, node, say)
    finally:
        node.stop()
