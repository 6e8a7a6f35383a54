"""Runs scenarios under seeds, and tells a failure so that it can be run again.

A scenario is named "module:NAME". To replay one seed, or to look for a failing one:

    PYTHONPATH=tests python -m simulation.runner simulation.scenarios.pings:PINGS --seed 7
    PYTHONPATH=tests python -m simulation.runner simulation.scenarios.pings:PINGS --count 200
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulation.loop import SimulationError
from simulation.scenario import Scenario
from simulation.world import Outcome, World, run
from tidelog.cli.flags import whole_number

SEEDS_FILE = Path(__file__).parent / "seeds" / "seeds.txt"
TRACE_LINES_SHOWN = 50


class ScenarioFailed(SimulationError):
    """A scenario failed under a seed; the message has the line that replays it."""


def run_seed(scenario: Scenario, seed: int) -> Outcome[Any]:
    """Run one seed; ScenarioFailed tells what, where, and how to see it again."""
    world = scenario.world(seed)
    try:
        return run(scenario.main, seed, world=world)
    except Exception as error:
        raise ScenarioFailed(_story(scenario, world, error)) from error


def run_seeds(scenario: Scenario, seeds: range) -> Iterator[Outcome[Any]]:
    """Run many seeds, one after the other; stops at the first that fails."""
    for seed in seeds:
        yield run_seed(scenario, seed)


def replay_line(scenario: Scenario, seed: int) -> str:
    """The one line that runs this seed again."""
    return f"PYTHONPATH=tests python -m simulation.runner {scenario.name} --seed {seed}"


def _story(scenario: Scenario, world: World, error: Exception) -> str:
    lines = "\n".join(world.trace.last_lines(TRACE_LINES_SHOWN))
    return (
        f"{scenario.name} failed under seed {world.seed} at t={world.now():.6f}: {error!r}\n"
        f"replay: {replay_line(scenario, world.seed)}\n"
        f"the last {TRACE_LINES_SHOWN} lines of its trace:\n{lines}"
    )


def load_scenario(name: str) -> Scenario:
    """The scenario "module:NAME"."""
    module, _, attribute = name.partition(":")
    scenario = getattr(importlib.import_module(module), attribute or "SCENARIO")
    assert isinstance(scenario, Scenario), f"{name} is not a Scenario"
    return scenario


def known_seeds(text: str) -> list[tuple[str, int]]:
    """Scenario and seed of each line "module:NAME seed  what it caught"; # begins a comment."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [(parts[0], int(parts[1])) for parts in lines if parts]


def main(arguments: list[str] | None = None) -> int:
    """Replay a seed, or try many."""
    parser = argparse.ArgumentParser(prog="python -m simulation.runner", description=__doc__)
    parser.add_argument("scenario", help='"module:NAME"')
    parser.add_argument("--seed", type=int, default=0, help="the (first) seed")
    count = whole_number(least=1)
    parser.add_argument("--count", type=count, default=1, help="how many seeds to try")
    options = parser.parse_args(arguments)
    try:
        scenario = load_scenario(options.scenario)
    except (ImportError, AttributeError, ValueError) as error:
        parser.error(f"there is no scenario {options.scenario!r}: {error}")
    for seed in range(options.seed, options.seed + options.count):
        try:
            outcome = run_seed(scenario, seed)
        except ScenarioFailed as failure:
            print(failure, file=sys.stderr)
            return 1
        print(
            f"seed {seed} digest {outcome.digest} virtual_s {outcome.virtual_s:.3f} "
            f"steps {outcome.steps} messages {outcome.messages}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
