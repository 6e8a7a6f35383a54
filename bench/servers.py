"""Starts what the RPC benches measure, each as a process, and reads its processor time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server process."""

    name: str
    address: str
    pid: int

    def cpu_s(self) -> float:
        """Processor seconds it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def pss_bytes(self) -> int:
        """Memory it holds, shared pages counted in part (PSS)."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        line = next(line for line in text.splitlines() if line.startswith("Pss:"))
        return int(line.split()[1]) * 1024


@contextmanager
def _process(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def bare_server() -> Iterator[Server]:
    """The server that does nothing."""
    with _process([sys.executable, "-m", "bench.bare_server"]) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Server("bare", f"127.0.0.1:{port}", process.pid)


@contextmanager
def broker(data_dir: str | None = None, *flags: str) -> Iterator[Server]:
    """A one-node cluster on free ports; without a data directory it forgets everything."""
    place = ["--data-dir", data_dir] if data_dir else ["--ephemeral"]
    arguments = [
        sys.executable, "-m", "tidelog_node", "--json",
        "--port", "0", "--metrics-port", "0", "--internal-port", "0", *place, *flags,
    ]  # fmt: skip
    with _process(arguments) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield Server("tidelog", ready["bootstrap"], process.pid)
