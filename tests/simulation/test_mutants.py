"""The simulation finds planted bugs: what it would not find, it does not test."""

from __future__ import annotations

import functools

import pytest

from simulation.mutants import MUTANTS, Mutant
from simulation.runner import ScenarioFailed, run_seeds
from simulation.scenario import Scenario
from simulation.scenarios.broker import broker_under_faults

#: Every mutant has to be found within so many seeds; most are within ten.
SEEDS_MAX = 150


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    scenario = Scenario(mutant.name, functools.partial(broker_under_faults, faults=mutant.faults))
    seeds = range(mutant.first_seed, mutant.first_seed + SEEDS_MAX)
    with mutant.plant(), pytest.raises(ScenarioFailed, match="broken promises"):
        list(run_seeds(scenario, seeds))
