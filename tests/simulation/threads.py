"""Threads on the simulator's time, for what services hand to theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelog_runtime.threads import BlockingCall, Outcome, Threads, attempt


class SimulatedThreads(Threads):
    """Each call happens at a seeded moment, and is heard of at a later one."""

    def _begin(self, calls: Sequence[BlockingCall]) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        return asyncio.gather(*(loop.run_in_executor(None, attempt, call) for call in calls))
