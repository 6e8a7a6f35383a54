"""What a thread of a user waits at until a loop's thread, or another one, rings.

A signal's handler may interrupt whoever waits, anywhere, and close the client, which waits in turn
for the loop's thread. Invariant: nobody who rings needs anything that the interrupted thread may
hold. Of an Event or a Condition both sides want the same lock; of these nobody holds one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from time import monotonic


class Bell:
    """For one thread that waits; a ring that comes before it waits is kept for it."""

    __slots__ = ("_silence",)

    def __init__(self) -> None:
        self._silence = Lock()
        self._silence.acquire()

    def ring(self) -> None:
        """Lets go who waits, or will wait next."""
        with suppress(RuntimeError):  # it rings already
            self._silence.release()

    def wait(self, limit_s: float | None = None) -> bool:
        """Returns when it rings, and silences it; False when the limit has passed first."""
        return self._silence.acquire(timeout=-1 if limit_s is None else max(limit_s, 0))

    def silence(self) -> None:
        """Forgets a ring that was not waited for."""
        self._silence.acquire(blocking=False)


class Bells:
    """For any number of threads that wait until something is so."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: set[Bell] = set()

    def ring(self) -> None:
        """All look again."""
        for bell in list(self._waiting):
            bell.ring()

    def wait_for(self, is_so: Callable[[], bool], limit_s: float | None = None) -> bool:
        """Whether it is so; looks now, and at each ring until the limit has passed."""
        bell = Bell()
        until = None if limit_s is None else monotonic() + limit_s
        try:
            self._waiting.add(bell)
            while not is_so():
                if not bell.wait(None if until is None else until - monotonic()):
                    return is_so()
            return True
        finally:
            self._waiting.discard(bell)
