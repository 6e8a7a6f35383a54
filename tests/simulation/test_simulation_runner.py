"""Seeds, replay and determinism: the same seed is the same run, in any process."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from simulation.loop import RealWorldTouched
from simulation.randomness import Randomness
from simulation.runner import (
    SEEDS_FILE,
    ScenarioFailed,
    known_seeds,
    load_scenario,
    main,
    replay_line,
    run_seed,
    run_seeds,
)
from simulation.scenarios.pings import FORGETFUL, PINGS
from simulation.world import World, run

TESTS = Path(__file__).parent.parent


def digests_in_a_new_process(scenario: str, *, hash_seed: int, count: int = 4) -> str:
    """What the runner prints, digests among it, in a Python of its own."""
    command = [sys.executable, "-m", "simulation.runner", scenario, "--count", str(count)]
    environment = os.environ | {"PYTHONPATH": str(TESTS), "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_seed_gives_one_digest_under_any_hash_seed() -> None:
    first = digests_in_a_new_process(PINGS.name, hash_seed=0)
    assert first == digests_in_a_new_process(PINGS.name, hash_seed=1)
    assert len({line.split()[3] for line in first.splitlines()}) == 4
    here = run_seed(PINGS, 0)
    assert f"seed 0 digest {here.digest} " in first


def test_the_determinism_check_finds_a_set_that_is_iterated() -> None:
    name = "simulation.scenarios.pings:HASH_ORDER"
    outputs = {digests_in_a_new_process(name, hash_seed=number, count=1) for number in (0, 1)}
    assert len(outputs) == 2


def test_the_scenario_holds_under_many_seeds(request: pytest.FixtureRequest) -> None:
    first = request.config.getoption("--seed")
    outcomes = list(run_seeds(PINGS, range(first, first + 12)))
    assert len({outcome.digest for outcome in outcomes}) == 12


def test_a_planted_mistake_is_found_and_told_with_its_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ScenarioFailed) as failure:
        list(run_seeds(FORGETFUL, range(50)))
    story = str(failure.value)
    assert "increments were acknowledged" in story
    line = next(line for line in story.splitlines() if line.startswith("replay: "))
    seed = int(line.rpartition(" ")[2])
    assert line == "replay: " + replay_line(FORGETFUL, seed)
    arguments = line.partition("simulation.runner ")[2].split()
    assert main(arguments) == 1
    assert capsys.readouterr().err.strip() == story.strip()


def test_the_seeds_that_once_failed() -> None:
    for name, seed in known_seeds(SEEDS_FILE.read_text()):
        run_seed(load_scenario(name), seed)


def test_the_seeds_file_is_read_as_it_says() -> None:
    text = "# comment\n\nmodule:NAME 17  lost a record  # really\n"
    assert known_seeds(text) == [("module:NAME", 17)]


def test_streams_of_chance_do_not_disturb_each_other() -> None:
    quiet, busy = Randomness(5), Randomness(5)
    for _ in range(100):
        busy.stream("network").random()
    drawn = quiet.stream("disk").random()
    assert drawn == busy.stream("disk").random()
    assert drawn != Randomness(6).stream("disk").random()
    assert drawn != quiet.stream("network").random()


def _tidelog_module(source: str) -> types.ModuleType:
    module = types.ModuleType("tidelog_broker.planted")
    module.__dict__.update(time=time, random=random, os=os)
    exec(source, module.__dict__)
    return module


@pytest.mark.parametrize("call", ["time.time()", "random.random()", "os.urandom(4)"])
def test_tidelogs_code_may_not_touch_the_real_world(call: str) -> None:
    planted = _tidelog_module(f"def touch():\n    return {call}\n")

    async def scenario(world: World) -> None:
        assert time.time() > 0
        try:
            planted.touch()
        except RealWorldTouched:
            world.trace.record("swallowed, as a broad except clause would")
        await asyncio.sleep(1)

    with pytest.raises(RealWorldTouched, match=r"tidelog_broker\.planted called"):
        run(scenario, 0)
    assert planted.touch() is not None


def test_wall_clocks_drift_apart_and_may_jump() -> None:
    async def scenario(world: World) -> None:
        one, two = world.wall_clock("one"), world.wall_clock("two")
        before = one.now_ms(), two.now_ms()
        assert before[0] != before[1]
        await asyncio.sleep(3000)
        assert abs((one.now_ms() - before[0]) - 3_000_000) <= 600
        assert one.now_ms() - before[0] != two.now_ms() - before[1]
        now = one.now_ms()
        one.jump(-10)
        assert one.now_ms() == now - 10_000

    run(scenario, 0)
