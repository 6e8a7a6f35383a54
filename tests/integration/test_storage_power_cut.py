"""A real process loses power again and again; under `commit` nothing acknowledged goes with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from storage_kit.batches import headers
from storage_kit.directories import TOPIC_ID, open_directory

from faults.power_cut_writer import CONFIG, PARTITIONS
from tidelog.model import PartitionId
from tidelog_runtime.adapters.local_disk import LocalDisk

TESTS = Path(__file__).parents[1]


def acknowledged_until_killed(root: Path, policy: str, lines: int) -> dict[int, int]:
    """Let the writer acknowledge so much, kill it, and return the last end of each partition."""
    ends = dict.fromkeys(range(PARTITIONS), 0)
    command = [sys.executable, "-m", "faults.power_cut_writer", str(root), policy]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            partition, end = process.stdout.readline().split()
            ends[int(partition)] = int(end)
        process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                partition, end = line.split()
                ends[int(partition)] = int(end)
    return ends


def ends_on_disk(root: Path) -> tuple[dict[int, int], bool]:
    """Where each log ends after recovery, with every batch read; whether the evidence is intact."""
    directory = open_directory(LocalDisk(root))
    ends = {}
    for number in range(PARTITIONS):
        log = directory.open_partition(PartitionId(TOPIC_ID, number), "cut", CONFIG, now_ms=1)
        offset = 0
        while offset < log.log_end:
            found = headers(log.read(offset, 1 << 20, end=log.log_end))
            assert found[0].base_offset == offset
            offset = found[-1].next_offset
        ends[number] = log.log_end
    intact = directory.durable_evidence_intact
    directory.abandon()
    return ends, intact


def test_commit_survives_power_cuts(tmp_path: Path) -> None:
    acknowledged = dict.fromkeys(range(PARTITIONS), 0)
    for cut in range(5):
        acknowledged |= acknowledged_until_killed(tmp_path, "commit", 60 + 37 * cut)
        found, intact = ends_on_disk(tmp_path)
        assert intact
        assert all(found[number] >= acknowledged[number] for number in found), (cut, found)


@pytest.mark.parametrize("policy", ["interval", "os"])
def test_the_cut_is_a_real_one(tmp_path: Path, policy: str) -> None:
    acknowledged = acknowledged_until_killed(tmp_path, policy, 200)
    found, _ = ends_on_disk(tmp_path)
    assert any(found[number] < acknowledged[number] for number in found)
