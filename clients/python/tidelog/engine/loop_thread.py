"""The event loop behind a synchronous client: one daemon thread that runs one loop.

Sync clients hand coroutines to it and wait; user threads never touch gRPC. It knows the process it
was made in, so that a client used after a fork says so instead of hanging.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from tidelog.engine.bell import Bell
from tidelog.errors import ClientClosed, ForkedClient
from tidelog.forking import FORK_HINT

Result = TypeVar("Result")

#: What still runs after its client has closed is cancelled then.
ENDING_S: Final = 1.0
#: What a client's last work may take once somebody has interrupted the wait for it.
INTERRUPTED_S: Final = 5.0


class _Call(Generic[Result]):
    """A call under way, and who waits for it."""

    __slots__ = ("_ended", "_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._work = work
        self._task: asyncio.Task[Result] | None = None
        self._ended = Bell()

    def begin(self) -> None:
        """On the loop: does the work in a task."""
        self._task = asyncio.get_running_loop().create_task(self._work, name="tidelog-call")
        self._task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[Result]) -> None:
        _forget(task)
        self.release()

    def release(self) -> None:
        """Lets go who waits."""
        self._ended.ring()

    def cancel(self) -> None:
        """On the loop: nobody waits any more."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()

    def wait(self, limit_s: float | None) -> bool:
        """False when the limit has passed."""
        return self._ended.wait(limit_s)

    @property
    def has_ended(self) -> bool:
        """Whether there is a result, or an error of the work's own."""
        return self._task is not None and self._task.done() and not self._task.cancelled()

    def result(self) -> Result:
        """What the work returned, or raised."""
        assert self._task is not None
        return self._task.result()

    def give_up(self) -> None:
        """Nothing will begin it any more."""
        if self._task is None:
            self._work.close()


class LoopThread:
    """A running loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process_id = os.getpid()
        self._calls: set[_Call[Any]] = set()
        self._is_ending = False
        self._has_ended = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_the_rest())
        # Whoever has not found this yet has been found by us: nobody waits for a call for ever.
        self._has_ended = True
        for call in list(self._calls):
            call.release()
        self.loop.close()

    @property
    def is_alive(self) -> bool:
        """False once stopped, and in a child process."""
        return self._thread.is_alive() and os.getpid() == self._process_id

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread, and so must not wait for it."""
        return threading.current_thread() is self._thread

    def check(self) -> None:
        """Raises when the loop can't serve this caller."""
        if os.getpid() != self._process_id:
            raise ForkedClient(
                f"{self._name} was made by process {self._process_id}, this is {os.getpid()}",
                hint=FORK_HINT,
            )
        if self._is_ending or not self._thread.is_alive():
            raise self._closed()

    def call(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Runs `work` on the loop and waits for its result; TimeoutError after the limit."""
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        call = _Call(work)
        self._calls.add(call)
        try:
            return self._outcome(call, timeout_s)
        except BaseException:
            with suppress(RuntimeError):  # the loop is closed, and all that ran on it has ended
                self.loop.call_soon_threadsafe(call.cancel)
            raise
        finally:
            self._calls.discard(call)

    def _outcome(self, call: _Call[Result], timeout_s: float | None) -> Result:
        try:
            self.loop.call_soon_threadsafe(call.begin)
        except RuntimeError:  # closed since
            call.give_up()
            raise self._closed() from None
        if self._has_ended:
            call.release()
        if not call.wait(timeout_s):
            raise TimeoutError
        if not call.has_ended:
            call.give_up()
            raise ClientClosed(f"{self._name} was closed during the call")
        return call.result()

    def finish(
        self, closing: Callable[[], Coroutine[Any, Any, None]], *, waits: bool = True
    ) -> None:
        """Runs a client's last work, then ends; waits for that unless the caller must not."""
        if not self.is_alive:
            return
        if not waits or self.is_current:
            self.loop.call_soon_threadsafe(self._finish_unwaited, closing)
            return
        if self._is_ending:
            self.stop()
            return
        last = _LastWork(closing)
        try:
            self.call(last.do())
        except BaseException:
            # A second Ctrl-C, say: the work was cancelled and comes to its end in a hurry.
            with suppress(RuntimeError):  # the loop is closed, and so is the client
                self.loop.call_soon_threadsafe(last.hurry)
                last.ended.wait(INTERRUPTED_S)
            raise
        finally:
            self.stop()

    def _finish_unwaited(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self.loop.create_task(_LastWork(closing).do(), name=f"{self._name}-closing")
        task.add_done_callback(lambda _: self._end())

    def stop(self) -> None:
        """Ends the loop and its thread."""
        if not self.is_alive:
            return
        self._end()
        self._thread.join()

    def join(self, limit_s: float | None) -> None:
        """Waits for an end that has begun, at most so long."""
        self._thread.join(limit_s)

    def _end(self) -> None:
        self._is_ending = True
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _closed(self) -> ClientClosed:
        return ClientClosed(f"{self._name} is closed")


class _LastWork:
    """What a client does last. It may be cut off; it is begun, whatever comes between."""

    def __init__(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._closing = closing
        self._has_begun = False
        self.ended = Bell()

    async def do(self) -> None:
        """Closes the client, then gives the tasks that gRPC keeps for ended calls time to end."""
        self._has_begun = True
        try:
            await self._closing()
        finally:
            try:
                await _leave_nothing()
            finally:
                self.ended.ring()

    def hurry(self) -> None:
        """On the loop, when it was cancelled: if before its first step, it does that now."""
        if not self._has_begun:
            task = asyncio.get_running_loop().create_task(self.do())
            task.add_done_callback(_forget)
            asyncio.get_running_loop().call_soon(task.cancel)


def _forget(task: asyncio.Task[Any]) -> None:
    """Takes note of how it ended: else asyncio complains where nobody waits any more."""
    if not task.cancelled():
        task.exception()


async def _leave_nothing() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=ENDING_S)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _cancel_the_rest() -> None:
    """Ends calls that came with the end; they have not had their first step yet."""
    await asyncio.sleep(0)
    late = asyncio.all_tasks() - {asyncio.current_task()}
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=ENDING_S)
