"""gRPC's poller is chosen before gRPC is loaded, by a name that this gRPC knows."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from tidelog_runtime.polling import OLDER_POLLER, VARIABLE, choose_older_poller

#: Ends the process where gRPC is about to be loaded, and says what is chosen there.
WATCHED_NODE: Final = f"""
import os, sys
from tidelog.cli.command import main

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get({VARIABLE!r}))
            sys.exit(0)

sys.meta_path.insert(0, Watch())
main(["up"])
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    inherited = {name: text for name, text in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=inherited | environment,
    )


def test_a_node_chooses_before_it_loads_grpc() -> None:
    assert run(WATCHED_NODE).stdout == f"{OLDER_POLLER}\n"


def test_the_environment_decides_where_it_has_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    choose_older_poller()
    assert os.environ[VARIABLE] == ""


def test_this_grpc_knows_what_is_chosen() -> None:
    known = run("import grpc", **{VARIABLE: OLDER_POLLER})
    unknown = run("import grpc", **{VARIABLE: "-no_such_poller"})
    assert "Unknown experiment" in unknown.stderr
    assert "Unknown experiment" not in known.stderr
