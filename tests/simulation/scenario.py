"""A scenario: what is run in a simulated world, and how the world varies from seed to seed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from simulation.loop import Schedule
from simulation.network import Weather
from simulation.randomness import Randomness
from simulation.world import World


def changing_weather(random: Random) -> Weather:
    """From seed to seed another network: some are perfect, some lose every twentieth segment."""
    return Weather(
        latency_s=(0.0001, random.choice((0.0005, 0.002, 0.02))),
        slow_chance=random.choice((0.0, 0.01, 0.1)),
        slow_latency_s=random.choice((0.1, 1.0)),
        loss_chance=random.choice((0.0, 0.0, 0.01, 0.05)),
        window_bytes=random.choice((16 * 1024, 64 * 1024, 1024 * 1024)),
    )


def changing_schedule(random: Random) -> Schedule:
    """From seed to seed another scheduler: first come first served, or more or less unfair."""
    return Schedule(shuffle=random.random() < 0.8, defer_chance=random.choice((0.0, 0.05, 0.3)))


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is run, and how its world varies with the seed."""

    name: str
    main: Callable[[World], Coroutine[Any, Any, Any]]
    weather: Callable[[Random], Weather] = changing_weather
    schedule: Callable[[Random], Schedule] = changing_schedule

    def world(self, seed: int) -> World:
        """The world of one seed."""
        swarm = Randomness(seed).stream("swarm")
        return World(seed, weather=self.weather(swarm), schedule=self.schedule(swarm))
