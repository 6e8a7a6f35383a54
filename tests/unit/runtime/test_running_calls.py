"""Who is let into a full listener: nobody but probes, and of those so many."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from simulation.world import World, run
from tidelog_runtime.adapters.running_calls import PROBE, PROBES_MAX, SAY_AGAIN_S, RunningCalls

HANDLER: Any = object()
LIMIT = 3


class Listener:
    """Calls that are let in or refused, each in a task that lasts until it is told to end."""

    def __init__(self) -> None:
        self.calls = RunningCalls(LIMIT)
        self._tasks: list[tuple[asyncio.Task[None], asyncio.Event]] = []

    async def is_let_in(self, method: str) -> bool:
        """Whether a new call of the method is; it goes on."""
        met: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        over = asyncio.Event()

        async def find(_: Any) -> Any:
            return HANDLER

        async def call() -> None:
            details: Any = SimpleNamespace(method=method)
            met.set_result(await self.calls.intercept_service(find, details) is HANDLER)
            await over.wait()

        self._tasks.append((asyncio.create_task(call()), over))
        return await met

    async def end(self, number: int) -> None:
        """One of the calls, refused or not, comes to its end."""
        task, over = self._tasks.pop(number)
        over.set()
        await task

    async def end_all(self) -> None:
        """All of them."""
        for _ in range(len(self._tasks)):
            await self.end(0)
        await self.calls.wait_until_ended()


def test_a_refused_call_takes_no_place() -> None:
    async def run() -> None:
        listener = Listener()
        assert all([await listener.is_let_in("/a/B") for _ in range(LIMIT)])
        assert not any([await listener.is_let_in("/a/B") for _ in range(LIMIT)])
        await listener.end(0)
        assert await listener.is_let_in("/a/B")
        assert not await listener.is_let_in("/a/B")
        await listener.end_all()

    asyncio.run(run())


def test_probes_have_places_of_their_own_and_no_more() -> None:
    async def run() -> None:
        listener = Listener()
        assert all([await listener.is_let_in("/a/B") for _ in range(LIMIT)])
        assert all([await listener.is_let_in(PROBE) for _ in range(PROBES_MAX)])
        assert not await listener.is_let_in(PROBE)
        await listener.end(LIMIT)
        assert not await listener.is_let_in("/a/B")
        assert await listener.is_let_in(PROBE)
        await listener.end_all()

    asyncio.run(run())


def test_a_full_listener_says_so_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        calls = RunningCalls(0)
        for _ in range(3):
            await refuse(calls)
        await asyncio.sleep(SAY_AGAIN_S)
        await refuse(calls)
        assert calls.refused_count == 4

    async def refuse(calls: RunningCalls) -> None:
        async def find(_: Any) -> Any:
            return HANDLER

        async def abort(*_: Any) -> None:
            return

        details: Any = SimpleNamespace(method="/a/B")
        refusal = await calls.intercept_service(find, details)
        await refusal.stream_stream(None, SimpleNamespace(abort=abort))

    run(lambda world: main(), 0, world=World(1))
    first, second = (record.getMessage() for record in caplog.records)
    assert "max.concurrent.rpcs=0" in first
    assert "(1 until now)" in first
    assert "(4 until now)" in second
