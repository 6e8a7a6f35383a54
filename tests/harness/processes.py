"""A node as a process of its own: started, killed, stopped, and its log read afterwards.

What it prints goes into files beside the data directory, so that neither side ever waits for a
pipe to be read. Whatever happens in a test, the process is gone when the block ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.eventually import eventually
from support.tree import ROOT

FREE_PORTS: Final = ("--port", "0", "--metrics-port", "0", "--internal-port", "0")
#: Turns a test that would hang into one that fails; says nothing about speed.
HANG_S: Final = 60.0
#: How a line of a log for people begins that nobody needs to worry about.
INFORMATION: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d INFO ")
UP: Final = ("-m", "tidelog_node")


class ProcessNode:
    """One process that is a node, or was to become one."""

    def __init__(self, arguments: Sequence[str], log_folder: Path, environment: dict[str, str]):
        log_folder.mkdir(parents=True, exist_ok=True)
        number = len(list(log_folder.glob("*.stderr")))
        self._stdout = log_folder / f"{number}.stdout"
        self._stderr = log_folder / f"{number}.stderr"
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
            )
        self._ready: dict[str, str] = {}

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def bootstrap(self) -> str:
        """Where clients connect, once it serves."""
        return str(self._ready["bootstrap"])

    @property
    def metrics_url(self) -> str:
        """Where it is scraped."""
        return str(self._ready["metrics"])

    def wait_until_ready(self) -> None:
        """Returns once the node serves; fails with its words if it ends before."""
        eventually(self._is_ready_or_gone, waiting_for="the node to serve")
        assert self._ready, f"the node ended with {self._process.returncode}:\n{self.log}"

    def _is_ready_or_gone(self) -> bool:
        gone = self._process.poll() is not None
        line, newline, _ = self._stdout.read_text().partition("\n")
        if newline:
            self._ready = json.loads(line)
        return gone or bool(newline)

    @property
    def output(self) -> str:
        """What it has written to its standard output."""
        return self._stdout.read_text()

    @property
    def log(self) -> str:
        """What it has written to its standard error."""
        return self._stderr.read_text()

    def log_lines(self) -> list[str]:
        """The lines of its log."""
        return self.log.splitlines()

    def complaints(self) -> list[str]:
        """The lines of its log that are more than information."""
        return [line for line in self.log_lines() if not INFORMATION.match(line)]

    @property
    def resident_bytes(self) -> int:
        """Memory it holds now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """kill -9: nothing is said, nothing is written."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """SIGTERM: asks it to stop in order."""
        self._process.terminate()

    def interrupt(self) -> None:
        """SIGINT, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def send_signal(self, number: signal.Signals) -> None:
        """Any other signal."""
        self._process.send_signal(number)

    def exit_code(self) -> int:
        """Waits for its end; one that never comes fails the test."""
        return self._process.wait(timeout=HANG_S)

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None


@contextmanager
def node_process(
    data_dir: Path | None,
    *flags: str,
    entry: Sequence[str] = UP,
    environment: dict[str, str] | None = None,
    log_folder: Path | None = None,
) -> Iterator[ProcessNode]:
    """Starts the process and waits for nothing; kills it if it is still there at the end.

    Its log goes beside the data directory; where it has none, `log_folder` says where.
    """
    place = ("--data-dir", str(data_dir)) if data_dir is not None else ()
    arguments = [*entry, "--json", *FREE_PORTS, *place, *flags]
    if log_folder is None:
        assert data_dir is not None, "a node without a data directory needs a place for its log"
        log_folder = data_dir.parent / f"{data_dir.name}-log"
    paths = [str(ROOT / "tests"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    inherited = {key: text for key, text in os.environ.items() if not key.startswith("TIDELOG_")}
    node = ProcessNode(
        arguments,
        log_folder,
        {**inherited, "PYTHONPATH": os.pathsep.join(paths), **(environment or {})},
    )
    try:
        yield node
    finally:
        with contextlib.suppress(ProcessLookupError):
            node.kill()


@contextmanager
def running_node(
    data_dir: Path | None,
    *flags: str,
    entry: Sequence[str] = UP,
    environment: dict[str, str] | None = None,
    log_folder: Path | None = None,
) -> Iterator[ProcessNode]:
    """The same, once it serves."""
    with node_process(
        data_dir, *flags, entry=entry, environment=environment, log_folder=log_folder
    ) as node:
        node.wait_until_ready()
        yield node
