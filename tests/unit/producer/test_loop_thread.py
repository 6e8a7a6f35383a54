"""The loop behind synchronous clients: calls that come with its end are told, not forgotten."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tidelog import ClientClosed
from tidelog.engine.loop_thread import LoopThread


async def never() -> None:
    await asyncio.Event().wait()


def test_a_call_that_comes_with_the_end_is_told() -> None:
    thread = LoopThread("test-loop")
    is_busy, goes_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        is_busy.set()
        goes_on.wait()

    thread.loop.call_soon_threadsafe(stand_still)
    is_busy.wait()
    ended: list[BaseException] = []

    def call() -> None:
        try:
            thread.call(never())
        except ClientClosed as closed:
            ended.append(closed)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    while not thread.loop._ready:  # type: ignore[attr-defined]
        threading.Event().wait(0)
    stopper = threading.Thread(target=thread.stop)
    stopper.start()
    goes_on.set()
    stopper.join()
    caller.join(30)
    assert "during the call" in str(ended)


def test_a_call_behind_the_end_is_refused() -> None:
    thread = LoopThread("test-loop")
    thread.stop()
    with pytest.raises(ClientClosed, match="test-loop is closed"):
        thread.call(never())
    thread.stop()
