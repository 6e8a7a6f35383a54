"""An asyncio client belongs to the event loop that first used it.

Its connections and tasks run there; from another loop or thread they can't be waited for. The
asyncio clients ask before they do anything. Invariant: a wrong loop is named as such, not found out
by an error from deep inside.
"""

from __future__ import annotations

import asyncio
import os

from tidelog.errors import ForkedClient, InvalidRequest
from tidelog.forking import FORK_HINT


class OneLoop:
    """See the module."""

    __slots__ = ("_client", "_loop", "_process_id")

    def __init__(self, client: str) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process_id = 0

    def check(self) -> None:
        """The first call decides which loop it is; InvalidRequest in any other.

        A child process is told that it is one: its loops are others, too, but that is no help.
        """
        if self._loop is not None and self._process_id != os.getpid():
            raise ForkedClient(
                f"The {self._client} was first used by process {self._process_id},"
                f" this is {os.getpid()}",
                hint=FORK_HINT,
            )
        running = asyncio._get_running_loop()
        if running is None:
            raise InvalidRequest(
                f"The {self._client} was used where no event loop runs",
                hint="Use it inside of the coroutine that asyncio.run() is given; the clients"
                " without Async in their names need no loop",
            )
        if self._loop is None:
            self._loop, self._process_id = running, os.getpid()
        elif self._loop is not running:
            raise self.error()

    def error(self) -> InvalidRequest:
        """What is said to those on another loop."""
        is_closed = self._loop is not None and self._loop.is_closed()
        state = "which is closed" if is_closed else "which runs in another thread"
        return InvalidRequest(
            f"The {self._client} was first used on another event loop, {state}",
            hint="Make one on each loop, inside of the coroutine that asyncio.run() is given",
        )
