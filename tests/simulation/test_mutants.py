"""The simulation finds planted bugs: what it would not find, it does not test."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from simulation.mutants import MUTANTS, Mutant
from support.tree import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    command = [sys.executable, "-m", "simulation.planting", mutant.name]
    env = {**os.environ, "TIDELOG_PURE": "1", "PYTHONPATH": str(ROOT / "tests")}
    seen = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert seen.returncode == 0, seen.stdout + seen.stderr
    assert "broken promises" in seen.stdout
