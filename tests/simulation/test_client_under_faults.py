"""The SDK keeps its promises under kills, cuts, frozen programs and hasty closes, by seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.history import History, Verdict
from simulation.runner import run_seed
from simulation.scenarios.client import CLIENT

TESTS = Path(__file__).parent.parent
BLOCKS = 4
SEEDS_A_BLOCK = 8


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_promise_of_the_sdk_is_broken(block: int, request: pytest.FixtureRequest) -> None:
    first = request.config.getoption("--seed") * 1000 + block * SEEDS_A_BLOCK
    histories: list[History] = [
        run_seed(CLIENT, seed).result for seed in range(first, first + SEEDS_A_BLOCK)
    ]
    verdicts = [batch.verdict for history in histories for batch in history.batches]
    for verdict in (Verdict.OK, Verdict.REFUSED, Verdict.UNKNOWN):
        assert verdicts.count(verdict) >= SEEDS_A_BLOCK, verdict
    assert sum(len(history.reads) for history in histories) > 100 * SEEDS_A_BLOCK
    ended = [span for history in histories for span in history.spans if span.end_offset is not None]
    assert len(ended) > 3 * SEEDS_A_BLOCK


def test_two_runs_of_the_sdk_are_one_run_under_any_hash_seed() -> None:
    outputs = []
    for hash_seed in (0, 1):
        command = [sys.executable, "-m", "simulation.runner", CLIENT.name, "--seed", "3"]
        environment = os.environ | {"PYTHONPATH": str(TESTS), "PYTHONHASHSEED": str(hash_seed)}
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        outputs.append(found.stdout)
    assert outputs[0] == outputs[1]
    assert "digest" in outputs[0]
