"""The simulator: all of Tidelog on virtual time, a false network and a false disk, by a seed."""

from simulation.loop import Schedule, SimulationError
from simulation.network import Weather
from simulation.world import Outcome, World, run

__all__ = ["Outcome", "Schedule", "SimulationError", "Weather", "World", "run"]
