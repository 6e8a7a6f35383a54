"""Back-pressure by bytes: how much data the broker holds at once because others are slow.

Produce handlers add what they wait for. While the sum is above the limit
(`queued.max.request.bytes`) streams stop reading and unary calls are refused, so that a slow disk
slows its producers down instead of filling memory. HTTP/2 flow control carries the stop to the
client. Fetch handlers add their answers until
these are sent, and read less ahead for everybody while many clients don't take theirs.
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

    @property
    def room_bytes(self) -> int:
        """How much there may still be."""
        return max(self.bytes_max - self.bytes, 0)

    def add(self, size_bytes: int) -> None:
        """Counts a request or an answer in."""
        self.bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        """Counts it out, and lets those go on who waited for that."""
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
