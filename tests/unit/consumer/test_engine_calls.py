"""What a call to a broker fails with: who was cancelled, the task or only the call."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from tidelog.engine.calls import in_words, translated
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


def test_a_failed_connection_is_told_without_grpcs_inner_workings() -> None:
    refused = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to"
        " connect to remote host: connect: Connection refused (111)"
    )
    assert in_words(refused) == "the connection was refused: nothing listens there"
    mute = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: connection"
        " attempt timed out before receiving SETTINGS frame"
    )
    assert "says nothing" in in_words(mute)
    assert in_words("something new") == "something new"
