"""Blocking calls off the event loop: the port through which services sync files.

`adapters.sync_threads` runs them in real threads, the simulator on its own time. The invariants:
each call is made once, and what it says of the outside world, an `OSError`, is its own outcome;
whoever stops waiting does not stop the call, and `idle` tells when none is under way any more.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

BlockingCall = Callable[[], None]
#: What came of each call.
Outcome = list[OSError | None]


class RunsCalls(Protocol):
    """What the group commit needs of threads."""

    def run(self, calls: Sequence[BlockingCall], /) -> Awaitable[Outcome]:
        """See `Threads`."""


class Threads(ABC):
    """Somewhere to wait for disks."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[Outcome]] = set()

    async def run(self, calls: Sequence[BlockingCall], /) -> Outcome:
        """Make all calls, in any order and several at once; what came of each, in their order.

        Anything that is not an `OSError` is a fault in the program and is raised.
        """
        outcome = self._begin(calls)
        self._under_way.add(outcome)
        outcome.add_done_callback(self._under_way.discard)
        return await asyncio.shield(outcome)

    async def idle(self) -> None:
        """Return when no call is under way, also of those for which nobody waits any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    @abstractmethod
    def _begin(self, calls: Sequence[BlockingCall]) -> asyncio.Future[Outcome]:
        """Have the calls made."""


def attempt(call: BlockingCall) -> OSError | None:
    """Make one call; its error belongs to whoever it was for."""
    try:
        call()
    except OSError as error:
        return error
    return None
