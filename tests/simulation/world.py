"""One simulated world: a loop, a network, clocks and all chance in it, made from one seed.

A scenario is a coroutine function that is given a world. The runner runs it; tests may as well.
The invariant: whatever went wrong unnoticed inside (an unhandled error, a task's exception that
nobody looked at, a call from a real thread) fails the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from simulation.clocks import DriftingClock
from simulation.disk import DEFAULT_CAPACITY_BYTES, SimulatedDisk
from simulation.fence import fenced
from simulation.loop import Schedule, SimulationError, SimulationLoop
from simulation.network import Network, Weather
from simulation.process import Process
from simulation.randomness import Randomness
from simulation.trace import Trace

_Result = TypeVar("_Result")
#: Virtual time that tasks have to end after their scenario did.
WIND_DOWN_S = 60.0
#: How often a frozen coroutine is told to end.
CLOSES_MAX = 20


class UnhandledErrors(SimulationError):
    """Something failed where nobody looked."""


class World:
    """What a scenario has at hand."""

    def __init__(
        self, seed: int, *, schedule: Schedule | None = None, weather: Weather | None = None
    ) -> None:
        self.seed = seed
        self.randomness = Randomness(seed)
        self.trace = Trace()
        self.loop = SimulationLoop(self.stream("schedule"), self.trace, schedule)
        self.network = Network(self.loop, self.stream("network"), weather)
        self.processes: list[Process] = []

    def stream(self, name: str) -> Random:
        """A named stream of chance, independent of all others."""
        return self.randomness.stream(name)

    def process(self, name: str) -> Process:
        """A new process; a restarted service is a new process too."""
        process = Process(name, self.loop)
        self.processes.append(process)
        return process

    def disk(
        self,
        host: str,
        *,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        whole_volume: bool = False,
    ) -> SimulatedDisk:
        """An empty disk for a host; what is done to it becomes part of the trace."""
        trace = self.trace

        def observe(operation: str, path: str) -> None:
            trace.fold_bytes(f"{host} {operation} {path}".encode())

        return SimulatedDisk(
            self.stream(f"disk/{host}"),
            name=host,
            capacity_bytes=capacity_bytes,
            whole_volume=whole_volume,
            observe=observe,
        )

    def wall_clock(self, host: str) -> DriftingClock:
        """The wall clock of a host."""
        return DriftingClock(self.loop.time, self.stream(f"clock/{host}"))

    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self.loop.time()


@dataclass(frozen=True, slots=True)
class Outcome(Generic[_Result]):
    """What a run gave, and how much it took."""

    result: _Result
    digest: str
    virtual_s: float
    steps: int
    messages: int


def run(
    scenario: Callable[[World], Coroutine[Any, Any, _Result]],
    seed: int,
    *,
    world: World | None = None,
) -> Outcome[_Result]:
    """Run a scenario to its end in a new world (or in one prepared for it)."""
    world = world or World(seed)
    loop = world.loop
    try:
        with fenced(loop):
            result = loop.run_until_complete(scenario(world))
            _wind_down(world)
        if loop.unhandled:
            raise UnhandledErrors("; ".join(loop.unhandled))
        return Outcome(
            result, world.trace.digest(), loop.time(), loop.steps, world.network.messages_sent
        )
    finally:
        loop.close()
        _bury(world)


def _wind_down(world: World) -> None:
    """Cancel what still runs and let it end; frozen tasks of killed processes stay frozen."""
    loop = world.loop
    frozen = {
        task for process in world.processes for task in process.live_tasks() if process.stopped
    }
    left = [task for task in loop.tasks_alive() if task not in frozen]
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=WIND_DOWN_S))
    loop.run_until_complete(loop.shutdown_asyncgens())
    stuck = [task.get_name() for task in left if not task.done()]
    if stuck:
        raise SimulationError(f"tasks that do not end when cancelled: {', '.join(stuck)}")


def _bury(world: World) -> None:
    """Close the coroutines that will never run again, so that Python does not complain.

    Their `finally` blocks find no loop; what they say about that is of no interest.
    """
    said_before, logging.root.manager.disable = logging.root.manager.disable, logging.CRITICAL
    try:
        _close_all(world)
    finally:
        logging.root.manager.disable = said_before


def _close_all(world: World) -> None:
    for task in world.loop.tasks_alive():
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine = task.get_coro()
        if coroutine is not None:
            _close(coroutine)


def _close(coroutine: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> None:
    """A coroutine may refuse to end as often as it awaits something while it ends."""
    for _ in range(CLOSES_MAX):
        try:
            coroutine.close()
        except RuntimeError:
            continue
        except BaseException:  # noqa: BLE001 - nobody is left whom it concerns
            return
        return
