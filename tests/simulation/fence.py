"""A fence around the code under test: real clocks, real chance and threads are out of reach.

While a simulation runs, Tidelog's own modules that call one of these fail the run, with the name of
the module. Everybody else (asyncio, pytest, logging) may go on using them.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from simulation.loop import RealWorldTouched, SimulationLoop

FENCED: tuple[tuple[Any, str], ...] = (
    (time, "time"),
    (time, "time_ns"),
    (time, "monotonic"),
    (time, "monotonic_ns"),
    (time, "sleep"),
    (os, "urandom"),
    (uuid, "uuid1"),
    (uuid, "uuid4"),
    (random, "random"),
    (random, "randint"),
    (random, "randrange"),
    (random, "randbytes"),
    (random, "getrandbits"),
    (random, "uniform"),
    (random, "choice"),
    (random, "sample"),
    (random, "shuffle"),
    (threading.Thread, "start"),
)


@contextmanager
def fenced(loop: SimulationLoop) -> Iterator[None]:
    """Put the fence up for the time of one simulation."""
    originals = [(owner, name, getattr(owner, name)) for owner, name in FENCED]
    try:
        for owner, name, original in originals:
            setattr(owner, name, _guard(loop, f"{owner.__name__}.{name}", original))
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _guard(loop: SimulationLoop, what: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def guard(*args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        if caller.startswith("tidelog"):
            story = f"{caller} called {what}: use the port that it was given instead"
            loop.report_touch(story)
            raise RealWorldTouched(story)
        return original(*args, **kwargs)

    return guard
