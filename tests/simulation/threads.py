"""Threads on the simulator's time, for what services hand to theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelog_runtime.threads import BlockingCall, attempt


class SimulatedThreads:
    """Each call happens at a seeded moment, and is heard of at a later one."""

    async def run(self, calls: Sequence[BlockingCall], /) -> list[OSError | None]:
        """See `Threads`."""
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, attempt, call) for call in calls))
