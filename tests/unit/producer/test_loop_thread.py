"""The loop behind synchronous clients: calls that come with its end are told, not forgotten."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

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


def test_a_call_that_a_signal_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that closes a client may interrupt this very client, in the same thread."""
    thread = LoopThread("test-loop")
    schedule = thread.loop.call_soon_threadsafe

    def interrupted(*given: Any, **named: Any) -> object:
        monkeypatch.setattr(thread.loop, "call_soon_threadsafe", schedule)
        thread.stop()
        return schedule(*given, **named)

    monkeypatch.setattr(thread.loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(ClientClosed, match="test-loop is closed"):
        thread.call(never())


def test_a_call_that_does_not_end_when_cancelled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.engine.loop_thread.ENDING_S", 0)
    thread = LoopThread("test-loop")
    begun, told = threading.Event(), threading.Event()

    async def stubborn() -> None:
        begun.set()
        while not told.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    def call() -> None:
        with pytest.raises(ClientClosed, match="during the call"):
            thread.call(stubborn())
        told.set()

    caller = threading.Thread(target=call)
    caller.start()
    begun.wait()
    close = thread.loop.close
    monkeypatch.setattr(thread.loop, "close", lambda: None)
    thread.stop()
    caller.join(30)
    assert told.is_set()
    # Only now it ends: a task that is pending when its loop goes is complained of.
    for task in asyncio.all_tasks(thread.loop):
        task.cancel()
        with suppress(asyncio.CancelledError):
            thread.loop.run_until_complete(task)
    close()


@pytest.mark.parametrize(
    "interrupts",
    [
        pytest.param("!", id="before the loop has heard of the work"),
        pytest.param("+", id="when it has"),
        pytest.param("! !", id="and again, before it is told to hurry"),
    ],
)
def test_the_last_work_is_begun_whatever_interrupts_the_wait_for_it(
    monkeypatch: pytest.MonkeyPatch, interrupts: str
) -> None:
    """Each sign is a word to the loop: a signal comes before it (!), behind it (+), or not ( )."""
    thread = LoopThread("test-loop")
    schedule = thread.loop.call_soon_threadsafe
    signs = iter(interrupts)
    ended: list[str] = []

    async def closing() -> None:
        try:
            ended.append("begun")
            await never()
        finally:
            ended.append("ended")

    def interrupted(*given: Any, **named: Any) -> object:
        sign = next(signs, " ")
        heard = None if sign == "!" else schedule(*given, **named)
        if sign != " ":
            raise KeyboardInterrupt
        return heard

    monkeypatch.setattr(thread.loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.finish(closing)
    assert ended == ["begun", "ended"]
    assert not thread.is_alive


def test_many_stops_at_once_are_one() -> None:
    for _ in range(50):
        thread = LoopThread("test-loop")
        together = threading.Barrier(3)

        def stop(thread: LoopThread = thread, together: threading.Barrier = together) -> None:
            together.wait()
            thread.stop()

        stoppers = [threading.Thread(target=stop) for _ in range(3)]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join()
        assert thread.loop.is_closed()
        assert not thread.is_alive
