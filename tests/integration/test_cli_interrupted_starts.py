"""Ctrl-C while the `tidelog` command is still being imported: it ends, and shows no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.hang_guard import HANG_S

#: Does what the script does, and has its own SIGINT sent when a certain module is looked for.
SCRIPT = """
import importlib.abc, os, signal, sys

class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
if sys.argv[2] == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from tidelog.cli import main
sys.exit(main(["--version"]))
"""


def interrupted_at(module: str, heed: str) -> tuple[int, bytes, bytes]:
    """The code, the output and the errors of a command that is interrupted there."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, module, heed],
        capture_output=True,
        check=False,
        timeout=HANG_S,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "module", ["tidelog.cli.command", "tidelog.nearest", "tidelog.cli.verb", "tidelog_node.verbs"]
)
def test_an_interrupted_start_ends_without_a_traceback(module: str) -> None:
    assert interrupted_at(module, "heeded") == (130, b"", b"")


@pytest.mark.parametrize("module", ["tidelog.cli.command", "tidelog_node.verbs"])
def test_who_ignores_interrupts_starts_nevertheless(module: str) -> None:
    code, out, err = interrupted_at(module, "ignored")
    assert (code, out[:8], err) == (0, b"tidelog ", b"")
