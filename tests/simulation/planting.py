"""Looks for one planted bug, in a process of its own: `python -m simulation.planting NAME`.

`test_mutants` starts it with `TIDELOG_PURE=1`, since the methods of compiled modules can't be
replaced. Ends with 0 if the simulation has found the bug, and says with which seed.
"""

from __future__ import annotations

import functools
import sys

from simulation.mutants import MUTANTS
from simulation.runner import ScenarioFailed, run_seeds
from simulation.scenario import Scenario
from simulation.scenarios.broker import broker_under_faults
from tidelog_broker import COMPILED

#: Every mutant has to be found within so many seeds; most are within ten.
SEEDS_MAX = 150


def main(name: str) -> int:
    """The exit status."""
    assert not COMPILED, "the bugs are planted in the sources: set TIDELOG_PURE=1"
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    scenario = Scenario(mutant.name, functools.partial(broker_under_faults, faults=mutant.faults))
    seeds = range(mutant.first_seed, mutant.first_seed + SEEDS_MAX)
    try:
        with mutant.plant():
            list(run_seeds(scenario, seeds))
    except ScenarioFailed as failure:
        print(failure)
        return 0
    print(f"{SEEDS_MAX} seeds passed")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
