"""What `tidelog up` prints for a person: what it says to type works as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.processes import FREE_PORTS
from support.eventually import eventually

PROGRAM = Path(sys.executable).with_name("tidelog")


@contextmanager
def printed(folder: Path, path: str) -> Iterator[list[str]]:
    """The lines that a node has printed once it serves; the node ends with the block."""
    output = folder / "output"
    command = [str(PROGRAM), "up", "--data-dir", str(folder / "data"), *FREE_PORTS]
    with output.open("wb") as stdout, (folder / "log").open("wb") as stderr:
        node = subprocess.Popen(
            command, stdout=stdout, stderr=stderr, env={**os.environ, "PATH": path}
        )
    try:
        eventually(
            lambda: node.poll() is not None or "Ctrl-C" in output.read_text(),
            waiting_for="the node to say how it is stopped",
        )
        assert node.poll() is None, (folder / "log").read_text()
        yield output.read_text().splitlines()
    finally:
        node.kill()
        node.wait()


def typed(line: str, path: str) -> str:
    """What a shell with this PATH prints for the line."""
    return subprocess.run(
        ["/bin/sh", "-c", line],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("on_path", [False, True])
def test_the_lines_to_try_work_as_printed(tmp_path: Path, on_path: bool) -> None:
    path = f"{PROGRAM.parent}:/usr/bin:/bin" if on_path else "/usr/bin:/bin"
    with printed(tmp_path, path) as lines:
        produce = next(line for line in lines if line.startswith("  try ")).split(maxsplit=1)[1]
        consume = lines[lines.index(f"  try        {produce}") + 1].strip()
        assert consume.startswith("tidelog " if on_path else f"{PROGRAM} ")
        typed(produce, path)
        assert typed(f"{consume} --max-messages 1", path) == "hello\n"
