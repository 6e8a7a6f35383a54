"""The simulation finds planted bugs of the SDK: what it would not find, it does not test."""

from __future__ import annotations

import functools

import pytest

from simulation.client_mutants import MUTANTS
from simulation.mutants import Mutant
from simulation.runner import ScenarioFailed, run_seeds
from simulation.scenario import Scenario
from simulation.scenarios.client import client_under_faults

#: Every mutant has to be found within so many seeds; most are within five.
SEEDS_MAX = 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_bug_of_the_sdk_is_found(mutant: Mutant) -> None:
    scenario = Scenario(mutant.name, functools.partial(client_under_faults, faults=mutant.faults))
    with mutant.plant(), pytest.raises(ScenarioFailed, match="broken promises"):
        list(run_seeds(scenario, range(SEEDS_MAX)))
