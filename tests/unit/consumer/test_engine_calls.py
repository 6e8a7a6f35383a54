"""What a call to a broker fails with: who was cancelled, the task or only the call."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from tidelog.engine.calls import translated
from tidelog.errors import BrokerUnreachable


def test_a_call_whose_channel_was_closed_is_a_lost_connection() -> None:
    async def asks() -> None:
        with translated("one:1"):
            raise asyncio.CancelledError

    async def begins_too_late() -> None:
        with translated("one:1"):
            raise grpc.aio.UsageError("Channel is closed.")

    for ask in (asks, begins_too_late):
        with pytest.raises(BrokerUnreachable, match="one:1") as raised:
            asyncio.run(ask())
        assert raised.value.retriable


def test_a_task_that_was_cancelled_stays_so() -> None:
    async def asks() -> None:
        with translated("one:1"):
            await asyncio.Event().wait()

    async def run() -> None:
        asking = asyncio.create_task(asks())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asks()

    asyncio.run(run())
