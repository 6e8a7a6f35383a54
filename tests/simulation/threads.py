"""Threads on the simulator's time, for what services hand to theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelog_runtime.threads import BlockingCall, Outcome, Tell, Threads, attempt


class SimulatedThreads(Threads):
    """Each call happens at a seeded moment, and is heard of at a later one."""

    def _begin(self, calls: Sequence[BlockingCall], tell: Tell) -> None:
        def end(made: asyncio.Task[Outcome]) -> None:
            tell(made.exception() or made.result())

        asyncio.ensure_future(_make_all(calls)).add_done_callback(end)

    def close(self) -> None:
        """There is nothing to give back."""


async def _make_all(calls: Sequence[BlockingCall]) -> Outcome:
    """As real threads do: a call that goes wrong keeps no other from being made and waited for."""
    loop = asyncio.get_running_loop()
    made = [loop.run_in_executor(None, attempt, call) for call in calls]
    if made:
        await asyncio.wait(made)
    return [call.result() for call in made]
