"""Back-pressure by bytes: how much written but unanswered data the broker holds at once.

Produce handlers add what they wait for and stop reading while the sum is above the limit
(`queued.max.request.bytes`), so that a slow disk slows its producers down instead of filling
memory. HTTP/2 flow control carries the stop to the client.
"""

from __future__ import annotations

import asyncio


class InFlightBytes:
    """A sum with a limit that callers wait on."""

    __slots__ = ("_waiters", "bytes", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def has_room(self) -> bool:
        """True below the limit: one request may overshoot it, the next one waits."""
        return self.bytes < self.bytes_max

    def add(self, size_bytes: int) -> None:
        """Counts a request in."""
        self.bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        """Counts a request out, and lets those go on who waited for it."""
        self.bytes -= size_bytes
        if self._waiters and self.has_room:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait_for_room(self) -> None:
        """Returns once the sum is below the limit."""
        while not self.has_room:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
