"""Producer ids for this broker's clients, taken from the controller in blocks.

A block costs one durable write of the controller; what is left of it when the broker stops is
never handed out again.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.model import ProducerId
from tidelog_runtime.control import Controller

BLOCK: Final = 1_000


class ProducerIds:
    """The block in use."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next(self) -> ProducerId:
        """An id that nobody had before."""
        async with self._refill:
            if self._next == self._end:
                self._next = await self._controller.allocate_producer_ids(BLOCK)
                self._end = self._next + BLOCK
            self._next += 1
            return ProducerId(self._next - 1)
