"""Requests that wait for the high watermark: producers for their acknowledgement.

A produce request may carry hundreds of partitions; it is one `PendingProduce` that counts down as
its partitions commit, and each partition keeps a queue of what waits on it, in offset order. So a
commit costs one comparison where nobody waits, and no task is woken before its whole answer
stands. Readers wait elsewhere (`api/fetch_stream.py`, `api/fetch.py`) and are called back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidelog.errors import TidelogError
from tidelog.model import Offset


class PendingProduce:
    """One produce request whose batches are written but not all committed yet.

    It is open while its batches are being written: one of them may fail those before it, and
    whoever is asked then whether all is settled knows nothing of those behind it.
    """

    __slots__ = ("_finish", "_is_open", "_outstanding", "failures")

    def __init__(self, finish: Callable[[PendingProduce], None]) -> None:
        self._finish: Callable[[PendingProduce], None] | None = finish
        self._is_open = True
        self._outstanding: set[int] = set()
        self.failures: dict[int, TidelogError] = {}

    @property
    def is_settled(self) -> bool:
        """True when no partition of the request is waited for any more."""
        return not self._outstanding

    def close(self) -> None:
        """All batches were written or refused: what waits now is all that will."""
        self._is_open = False
        if self.failures:
            self._finish_if_settled()

    def expect(self, index: int) -> None:
        """The partition at this place of the request waits for its commit."""
        self._outstanding.add(index)

    def settle(self, index: int, failure: TidelogError | None = None) -> None:
        """The partition at this place is committed, or failed; later words on it don't count."""
        if index not in self._outstanding:
            return
        self._outstanding.remove(index)
        if failure is not None:
            self.failures[index] = failure
        self._finish_if_settled()

    def expire(self, failure: TidelogError) -> None:
        """Settles everything that is still waited for with one failure."""
        self.failures.update(dict.fromkeys(self._outstanding, failure))
        self._outstanding.clear()
        self._finish_if_settled()

    def abandon(self) -> None:
        """Nobody listens any more: the caller is gone."""
        self._finish = None

    def _finish_if_settled(self) -> None:
        if not self._outstanding and not self._is_open and self._finish is not None:
            finish, self._finish = self._finish, None
            finish(self)


class CommitQueue:
    """What waits for the commits of one partition, in the order of its offsets."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[Offset, PendingProduce, int]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, end: Offset, pending: PendingProduce, index: int) -> None:
        """`pending` waits until everything below `end` is committed."""
        pending.expect(index)
        waiting = self._waiting
        if not waiting or waiting[-1][0] <= end:
            waiting.append((end, pending, index))
            return
        # A retried batch waits for its first writing, below what came after it.
        position = next(at for at, entry in enumerate(waiting) if entry[0] > end)
        waiting.insert(position, (end, pending, index))

    def release(self, high_watermark: Offset) -> None:
        """Settles everything that waited for offsets below the high watermark."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, pending, index = waiting.popleft()
            pending.settle(index)

    def fail_all(self, failure: TidelogError) -> None:
        """Settles everything that waits with a failure whose outcome is unknown."""
        waiting, self._waiting = self._waiting, deque()
        for _, pending, index in waiting:
            pending.settle(index, failure)
