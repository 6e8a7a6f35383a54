"""Blocking calls off the event loop: the port through which services sync files.

`adapters.sync_threads` runs them in real threads, `adapters.kernel_syncs` leaves the syncs of
files to the kernel, the simulator runs them on its own time. The invariants: each call is made
once, and what it says of the outside world, an `OSError`, is its own outcome; whoever stops
waiting does not stop the call, and `idle` tells when none is under way any more.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

BlockingCall = Callable[[], None]
#: What came of each call.
Outcome = list[OSError | None]
#: Takes what came of a round, or the fault that ended it.
Tell = Callable[[Outcome | BaseException], None]


class RunsCalls(Protocol):
    """What the group commit needs of threads."""

    def run(self, calls: Sequence[BlockingCall], /) -> Awaitable[Outcome]:
        """See `Threads`."""


class Threads(ABC):
    """Somewhere to wait for disks."""

    def __init__(self) -> None:
        self._under_way = 0
        self._idle_waiters: list[asyncio.Future[None]] = []

    async def run(self, calls: Sequence[BlockingCall], /) -> Outcome:
        """Make all calls, in any order and several at once; what came of each, in their order.

        Anything that is not an `OSError` is a fault in the program and is raised.
        """
        # A future of its own rather than a shielded one: rounds are many, and that costs each of
        # them a turn of the event loop.
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._begin(calls, partial(self._end, outcome))
        self._under_way += 1
        return await outcome

    def _end(self, outcome: asyncio.Future[Outcome], made: Outcome | BaseException) -> None:
        self._under_way -= 1
        if not outcome.done():
            if isinstance(made, BaseException):
                outcome.set_exception(made)
            else:
                outcome.set_result(made)
        if not self._under_way:
            for waiter in self._idle_waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle_waiters.clear()

    async def idle(self) -> None:
        """Return when no call is under way, also of those for which nobody waits any more."""
        while self._under_way:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    @abstractmethod
    def _begin(self, calls: Sequence[BlockingCall], tell: Tell) -> None:
        """Have the calls made, and the loop `tell` of it once, in a later turn."""

    @abstractmethod
    def close(self) -> None:
        """Return when all that was handed over is done; nothing more is taken."""


def attempt(call: BlockingCall) -> OSError | None:
    """Make one call; its error belongs to whoever it was for."""
    try:
        call()
    except OSError as error:
        return error
    return None
