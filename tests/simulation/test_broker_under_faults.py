"""The broker keeps its promises under kills, power cuts, bad networks and bad disks, by seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.history import History, Verdict
from simulation.randomness import Randomness
from simulation.runner import run_seed
from simulation.scenarios.broker import ALL_FAULTS, BROKER, broker_under_faults
from simulation.workload.plan import draw_plan
from simulation.world import run

TESTS = Path(__file__).parent.parent
BLOCKS = 3
SEEDS_A_BLOCK = 20


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_promise_is_broken(block: int, request: pytest.FixtureRequest) -> None:
    first = request.config.getoption("--seed") * 1000 + block * SEEDS_A_BLOCK
    histories: list[History] = [
        run_seed(BROKER, seed).result for seed in range(first, first + SEEDS_A_BLOCK)
    ]
    batches = [batch for history in histories for batch in history.batches]
    verdicts = {batch.verdict for batch in batches}
    assert verdicts >= {Verdict.OK, Verdict.UNKNOWN}
    assert sum(batch.verdict is Verdict.OK for batch in batches) > 100 * SEEDS_A_BLOCK
    assert sum(len(history.reads) for history in histories) > 100 * SEEDS_A_BLOCK


def test_every_fault_is_drawn_and_most_runs_leave_some_out() -> None:
    plans = [
        draw_plan(Randomness(seed).stream("plan"), ALL_FAULTS)
        for seed in range(BLOCKS * SEEDS_A_BLOCK)
    ]
    assert {fault for plan in plans for fault in plan.faults} == set(ALL_FAULTS)
    assert all(len(plan.faults) < len(ALL_FAULTS) for plan in plans)
    assert {plan.flush_policy for plan in plans} == {"commit", "interval", "os"}


@pytest.mark.parametrize("fault", ALL_FAULTS)
def test_one_fault_again_and_again(fault: str, seed: int) -> None:
    run(lambda world: broker_under_faults(world, (fault,)), seed)


def test_runs_of_a_seed_are_one_run_under_any_hash_seed_and_whether_compiled_or_not() -> None:
    outputs = []
    for hash_seed, pure in (("0", "0"), ("1", "0"), ("0", "1")):
        command = [sys.executable, "-m", "simulation.runner", BROKER.name, "--count", "2"]
        environment = os.environ | {
            "PYTHONPATH": str(TESTS),
            "PYTHONHASHSEED": hash_seed,
            "TIDELOG_PURE": pure,
        }
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        outputs.append(found.stdout)
    assert outputs[0] == outputs[1] == outputs[2]
    assert outputs[0].count("digest") == 2
