"""Blocking calls off the event loop: the port through which services sync files.

`adapters.sync_threads` runs them in real threads, the simulator on its own time. The invariant:
each call is made once, and what it says of the outside world, an `OSError`, is its own outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

BlockingCall = Callable[[], None]


class Threads(Protocol):
    """Somewhere to wait for disks."""

    def run(self, calls: Sequence[BlockingCall], /) -> Awaitable[list[OSError | None]]:
        """Make all calls, in any order and several at once; what came of each, in their order.

        Anything that is not an `OSError` is a fault in the program and is raised.
        """


def attempt(call: BlockingCall) -> OSError | None:
    """Make one call; its error belongs to whoever it was for."""
    try:
        call()
    except OSError as error:
        return error
    return None
