"""Syncs that the kernel makes by itself, so that no thread is woken for them.

To wake a thread, have it get the interpreter's lock and wake the event loop again costs a round
some 50 us, a third of what the sync takes on a quick disk (docs/performance.md). Rounds of files
go to the kernel's queue; whatever else blocks, and what the queue won't take, goes to threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidelog_runtime.adapters.kernel_queue import KernelQueue
from tidelog_runtime.adapters.local_file import DescriptorSync
from tidelog_runtime.adapters.sync_threads import SyncThreads
from tidelog_runtime.threads import BlockingCall, Outcome, Tell

logger = logging.getLogger(__name__)


class KernelSyncs(SyncThreads):
    """Rounds on the kernel's queue, with threads beside it; used on one event loop.

    A round with more files than the queue holds is one for threads: the kernel would begin all
    syncs at once, each with a thread of its own, and be no quicker.
    """

    def __init__(
        self,
        at_once: int,
        open_queue: Callable[[int], KernelQueue | None] = KernelQueue.open,
    ) -> None:
        super().__init__(at_once)
        self._open_queue = open_queue
        #: None also where the system offers none.
        self._queue: KernelQueue | None = None
        self._has_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = 0
        #: For each sync under way its round and its place there.
        self._rounds_by_number: dict[int, tuple[_Round, int]] = {}

    def open(self) -> None:
        """Ask the system for a queue; the first round does where nobody has."""
        if not self._has_asked:
            self._has_asked = True
            self._queue = self._open_queue(self._limit)
            # Which of the two it is decides what a commit costs, and nothing else shows it.
            way = "threads, for want of a queue" if self._queue is None else "the kernel's queue"
            logger.info("files are synced by %s", way)

    def _begin(self, calls: Sequence[BlockingCall], tell: Tell) -> None:
        descriptors = [call.descriptor for call in calls if isinstance(call, DescriptorSync)]
        is_for_threads = len(descriptors) < len(calls) or len(calls) > self._limit
        queue = None if self._closed else self._watched_queue()
        taken = 0
        if queue is not None and not is_for_threads:
            taken = queue.submit(self._begun, descriptors)
        if taken == 0:
            super()._begin(calls, tell)
            return
        now = _Round(taken, tell)
        for place in range(taken):
            self._rounds_by_number[self._begun + place] = now, place
        self._begun += taken
        if taken < len(calls):
            now.wait_for_rest()
            super()._begin(calls[taken:], now.take_rest)

    def _watched_queue(self) -> KernelQueue | None:
        """The queue, whose descriptor the running loop watches."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.open()
            if self._queue is not None:
                loop.add_reader(self._queue.descriptor, self._take_ended)
            self._rounds_by_number.clear()  # nobody waits on a loop that is gone
            self._loop = loop
        return self._queue

    def _take_ended(self) -> None:
        assert self._queue is not None, "it is what was readable"
        for number, error in self._queue.ended():
            self._take(number, error)

    def _take(self, number: int, error: OSError | None) -> None:
        if number in self._rounds_by_number:
            now, place = self._rounds_by_number.pop(number)
            now.take(place, error)

    def close(self) -> None:
        """Return when all that was begun is done; what nobody was told of yet is told."""
        if self._closed:
            return
        super().close()
        if self._queue is None:
            return
        ended = self._queue.wait_for_all()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._queue.descriptor)
            for number, error in ended:
                self._take(number, error)
        self._queue.close()


class _Round:
    """Calls that were handed over together, by what has ended of them."""

    def __init__(self, taken: int, tell: Tell) -> None:
        self._tell = tell
        self._errors: list[OSError | None] = [None] * taken
        self._rest: Outcome | BaseException = []
        self._left = taken

    def take(self, place: int, error: OSError | None) -> None:
        """One that the kernel took has ended."""
        self._errors[place] = error
        self._end_one()

    def wait_for_rest(self) -> None:
        """The kernel took not all of them, threads make the others."""
        self._left += 1

    def take_rest(self, rest: Outcome | BaseException) -> None:
        """The threads have made theirs."""
        self._rest = rest
        self._end_one()

    def _end_one(self) -> None:
        self._left -= 1
        if self._left == 0:
            rest = self._rest
            self._tell(rest if isinstance(rest, BaseException) else self._errors + rest)
