"""What signals do to a node as a process, whatever it is doing when they come."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

import pytest
from storage_kit.batches import batch

from faults.full_node import FULL
from harness.client import Client
from harness.processes import node_process, running_node
from support.eventually import eventually

CLEAN_MARKER: Final = "clean"

#: A node that begins as if SIGHUP were set so by who started it; tests must not depend on that.
BEGUN_WITH: Final = """
import signal, sys
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
from tidelog.cli import main
sys.exit(main(["up", *sys.argv[2:]]))
"""


def begun_with(hangup: signal.Handlers) -> tuple[str, ...]:
    return ("-c", BEGUN_WITH, hangup.name)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_closed_terminal_stops_a_node_in_order(data_dir: Path) -> None:
    with running_node(data_dir, entry=begun_with(signal.SIG_DFL)) as node:
        node.send_signal(signal.SIGHUP)
        assert node.exit_code() == 0
        assert node.complaints() == []
    assert (data_dir / CLEAN_MARKER).exists()


def test_a_closed_terminal_leaves_nothing_of_an_ephemeral_node(tmp_path: Path) -> None:
    with running_node(
        None,
        "--ephemeral",
        entry=begun_with(signal.SIG_DFL),
        environment={"TMPDIR": str(tmp_path)},
        log_folder=tmp_path,
    ) as node:
        assert list(tmp_path.glob("tidelog-*"))
        node.send_signal(signal.SIGHUP)
        assert node.exit_code() == 0
    assert list(tmp_path.glob("tidelog-*")) == []


async def produce_one(address: str) -> None:
    async with Client(address) as client:
        assert not (await client.produce("orders", batch(b"x"))).HasField("error")


def test_a_node_under_nohup_outlives_its_terminal(data_dir: Path) -> None:
    with running_node(data_dir, entry=begun_with(signal.SIG_IGN)) as node:
        node.send_signal(signal.SIGHUP)
        # A node that stops takes no more writes.
        asyncio.run(produce_one(node.bootstrap))
        node.terminate()
        assert node.exit_code() == 0
    assert (data_dir / CLEAN_MARKER).exists()


def test_a_start_that_waits_for_space_ends_when_it_is_told_to(
    data_dir: Path, tmp_path: Path
) -> None:
    full = tmp_path / FULL
    full.touch()
    with node_process(data_dir, entry=("-m", "faults.full_node")) as node:
        eventually(
            lambda: node.has_ended or "the controller's term ended" in node.log,
            waiting_for="the disk to be full",
        )
        node.terminate()
        assert node.exit_code() == 0
        assert node.output == ""
        assert "Traceback" not in node.log
    full.unlink()
    with running_node(data_dir) as node:
        node.terminate()
        assert node.exit_code() == 0
