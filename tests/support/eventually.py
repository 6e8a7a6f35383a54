"""Waiting for something that another process does, in tests of the integration level.

Below that level time is virtual and nothing waits. The deadline is no limit on speed: it only
turns a wait that would never end into a failure that says what was waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

Seen = TypeVar("Seen")

POLL_INTERVAL_SECONDS: Final = 0.02


def eventually(
    predicate: Callable[[], Seen], deadline_seconds: float = 60.0, *, waiting_for: str = ""
) -> Seen:
    """Calls `predicate` until what it returns is true, and returns that.

    Raises `AssertionError`, with what the predicate said last, when the deadline passes first.
    """
    give_up_at = time.monotonic() + deadline_seconds
    while True:
        seen = predicate()
        if seen:
            return seen
        if time.monotonic() >= give_up_at:
            wanted = waiting_for or getattr(predicate, "__name__", "the condition")
            raise AssertionError(
                f"{wanted} did not come within {deadline_seconds} s: last {seen!r}"
            )
        time.sleep(POLL_INTERVAL_SECONDS)


async def eventually_async(
    predicate: Callable[[], Awaitable[Seen]],
    deadline_seconds: float = 60.0,
    *,
    waiting_for: str = "",
) -> Seen:
    """The same for a predicate that has to be awaited."""
    give_up_at = time.monotonic() + deadline_seconds
    while True:
        seen = await predicate()
        if seen:
            return seen
        if time.monotonic() >= give_up_at:
            wanted = waiting_for or getattr(predicate, "__name__", "the condition")
            raise AssertionError(
                f"{wanted} did not come within {deadline_seconds} s: last {seen!r}"
            )
        await asyncio.sleep(POLL_INTERVAL_SECONDS)
