"""The event loop behind a synchronous client: one daemon thread that runs one loop.

Sync clients hand coroutines to it and wait; user threads never touch gRPC. It knows the process it
was made in, so that a client used after a fork says so instead of hanging.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from tidelog.errors import ClientClosed, ForkedClient
from tidelog.forking import FORK_HINT

Result = TypeVar("Result")

#: What still runs after its client has closed is cancelled then.
ENDING_S: Final = 1.0
#: What a client's last work may take once somebody has interrupted the wait for it.
INTERRUPTED_S: Final = 5.0


class LoopThread:
    """A running loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process_id = os.getpid()
        #: Held for moments: what is called before the end comes to run, or is refused.
        self._ending = threading.Lock()
        self._has_ended = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        late = asyncio.all_tasks(self.loop)
        if late:  # calls that came with the end: who made them waits to be told
            for task in late:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(late, timeout=ENDING_S))

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
        if self._has_ended or not self._thread.is_alive():
            raise ClientClosed(f"{self._name} is closed")

    def call(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Runs `work` on the loop and waits for its result; TimeoutError after the limit."""
        try:
            future = self._begin(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result(timeout_s)
        except CancelledError:
            raise ClientClosed(f"{self._name} was closed during the call") from None
        except BaseException:
            future.cancel()
            raise

    def _begin(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        self.check()
        with self._ending:
            self.check()
            return asyncio.run_coroutine_threadsafe(work, self.loop)

    def finish(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a client's last work, then ends; also from the loop itself, where it can't wait."""
        if not self.is_alive:
            return
        if threading.current_thread() is self._thread:
            last = self.loop.create_task(_leave_nothing(closing()), name=f"{self._name}-closing")
            last.add_done_callback(lambda _: self._end())
            return
        ended = threading.Event()
        try:
            self.call(_telling(_leave_nothing(closing()), ended))
        except BaseException:
            # A second Ctrl-C, say: the work was cancelled and comes to its end in a hurry.
            ended.wait(INTERRUPTED_S)
            raise
        finally:
            self.stop()

    def stop(self) -> None:
        """Ends the loop and its thread."""
        if not self.is_alive:
            return
        self._end()
        self._thread.join()
        self.loop.close()

    def _end(self) -> None:
        with self._ending:
            self._has_ended = True
            self.loop.call_soon_threadsafe(self.loop.stop)


async def _leave_nothing(closing: Coroutine[Any, Any, None]) -> None:
    """Closes a client, then gives the tasks that gRPC keeps for ended calls time to end."""
    try:
        await closing
    finally:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await asyncio.wait(rest, timeout=ENDING_S)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


async def _telling(work: Coroutine[Any, Any, None], ended: threading.Event) -> None:
    """Does the work; also who has stopped waiting for it learns of its end."""
    try:
        await work
    finally:
        ended.set()
