"""Threads that wait for disks, so that the event loop does not.

The group commit hands over whole rounds. A pool of `concurrent.futures` costs a future, three locks
and a wake-up of the event loop for each call; here idle threads take calls of a round as they
come free, and the loop is woken once, by the thread that ends the last one. Which call is whose
is decided by `next` of a counter: one step of the interpreter, so two threads never get the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue

from tidelog_runtime.threads import BlockingCall, Tell, Threads, attempt


class SyncThreads(Threads):
    """At most `limit` threads, begun as they are needed; `close` ends them."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._rounds: SimpleQueue[_Round | None] = SimpleQueue()
        #: A token for each thread that waits: taken with each hand-over, given back by the thread.
        self._idle: deque[None] = deque()

    def _begin(self, calls: Sequence[BlockingCall], tell: Tell) -> None:
        """A round for the threads."""
        loop = asyncio.get_running_loop()
        if not calls:
            loop.call_soon(tell, [])
            return
        if self._closed:
            raise RuntimeError("the threads have ended")
        if not self._threads:
            self._begin_thread()  # without a single one nothing is handed over
            self._idle.append(None)
        now = _Round(calls, tell, loop)
        for _ in range(min(len(calls), self._limit)):
            self._rounds.put(now)
            if self._idle:
                self._idle.pop()
            elif len(self._threads) < self._limit:
                with contextlib.suppress(RuntimeError):  # no more can be had: those there do it all
                    self._begin_thread()

    def _begin_thread(self) -> None:
        name = f"tidelog-sync-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while (now := self._rounds.get()) is not None:
            now.work()
            self._idle.append(None)

    def close(self) -> None:
        """Return when all that was handed over is done and the threads have ended."""
        self._closed = True
        for _ in self._threads:
            self._rounds.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class _Round:
    """Calls that were handed over together."""

    def __init__(
        self, calls: Sequence[BlockingCall], tell: Tell, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._calls = calls
        self._tell = tell
        self._loop = loop
        self._errors: list[OSError | None] = [None] * len(calls)
        self._fault: BaseException | None = None
        self._begun = itertools.count()
        self._ended = itertools.count(1)

    def work(self) -> None:
        """Make calls while there are any; many threads do so at a time."""
        count = len(self._calls)
        while (at := next(self._begun)) < count:
            try:
                self._errors[at] = attempt(self._calls[at])
            except BaseException as fault:  # noqa: BLE001 - whoever waits is told
                self._fault = fault
            if next(self._ended) == count:
                made = self._errors if self._fault is None else self._fault
                with contextlib.suppress(RuntimeError):  # the loop is gone, nobody waits
                    self._loop.call_soon_threadsafe(self._tell, made)
