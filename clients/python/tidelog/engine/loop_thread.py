"""The event loop behind a synchronous client: one daemon thread that runs one loop.

Sync clients hand coroutines to it and wait; user threads never touch gRPC. It knows the process it
was made in, so that a client used after a fork says so instead of hanging. Invariants: a client's
last work is begun, whoever is interrupted where; and whether the loop has ended is its own word. (A
`Thread.join` that was interrupted says so of threads that run, up to Python 3.12.)
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from tidelog.engine.bell import Bell, Bells
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
        self._is_stopped = False
        self._has_ended = False
        self._is_over = False
        self._ends = Bells()
        self._last: _LastWork | None = None
        self._unwaited: asyncio.Task[None] | None = None
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.set_event_loop(self.loop)
            self.loop.run_forever()
            self._end_the_rest()
        finally:
            # Whoever has not found this yet has been found by us: nobody waits for a call for ever.
            self._has_ended = True
            for call in list(self._calls):
                call.release()
            self.loop.close()
            self._is_over = True
            self._ends.ring()

    def _end_the_rest(self) -> None:
        """What came with the end has its first step and is ended; a client's last work is begun."""
        run = self.loop.run_until_complete
        run(asyncio.sleep(0))
        begun_late = None if self._last is None else self._last.hurry(self.loop)
        if begun_late is not None:
            with suppress(asyncio.CancelledError):
                run(begun_late)
        run(_cancel_the_rest())

    @property
    def is_alive(self) -> bool:
        """False once the loop has ended, and in a child process."""
        return not self._is_over and os.getpid() == self._process_id

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread, and so must not wait for it."""
        return threading.current_thread() is self._thread

    def check(self) -> None:
        """Raises when the loop can't serve this caller, nor end what he waits for."""
        if os.getpid() != self._process_id:
            raise ForkedClient(
                f"{self._name} was made by process {self._process_id}, this is {os.getpid()}",
                hint=FORK_HINT,
            )
        if self._is_over:
            raise self._closed()

    def _check_open(self) -> None:
        """Raises when the loop takes no more calls."""
        self.check()
        if self._is_ending:
            raise self._closed()

    def call(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Runs `work` on the loop and waits for its result; TimeoutError after the limit."""
        try:
            self._check_open()
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
        last = self._last = _LastWork(closing)
        try:
            self.call(last.do())
        except BaseException:
            # A second Ctrl-C, say: the work was cancelled and comes to its end in a hurry.
            with suppress(RuntimeError):  # the loop is closed, and so is the client
                self.loop.call_soon_threadsafe(last.hurry, self.loop)
                last.ended.wait(INTERRUPTED_S)
            raise
        finally:
            self.stop()

    def _finish_unwaited(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last = _LastWork(closing)
        self._unwaited = self.loop.create_task(self._last.do(), name=f"{self._name}-closing")
        self._unwaited.add_done_callback(lambda _: self._end())

    def cut_off(self) -> None:
        """The last work that nobody waits for comes to its end in a hurry."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._cut_off)

    def _cut_off(self) -> None:
        if self._unwaited is not None:
            self._unwaited.cancel()

    def stop(self) -> None:
        """Ends the loop and its thread."""
        if not self.is_alive:
            return
        self._end()
        self.join(None)

    def join(self, limit_s: float | None) -> bool:
        """Waits for an end that has begun, at most so long; whether it came."""
        if not self._ends.wait_for(lambda: self._is_over, limit_s):
            return False
        self._thread.join()  # it has nothing left to do
        return True

    def _end(self) -> None:
        self._is_ending = True
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._stop_once)

    def _stop_once(self) -> None:
        """A second stop would cut off how the loop ends after the first."""
        if not self._is_stopped:
            self._is_stopped = True
            self.loop.stop()

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

    def hurry(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
        """On the loop, when nobody will begin it any more: it is begun now, and soon cut off."""
        if self._has_begun:
            return None
        task = loop.create_task(self.do())
        task.add_done_callback(_forget)
        loop.call_soon(task.cancel)
        return task


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
    """Ends calls that came with the end."""
    late = asyncio.all_tasks() - {asyncio.current_task()}
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=ENDING_S)
