"""What signals do to a verb that has something open: SIGTERM and SIGHUP close it as Ctrl-C does.

Both consoles run inside of `told_to_end`; `command` turns the interrupt into the exit code.
Invariant: a line that was accepted has its verdict, and the code is what a shell calls the signal.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALS: Final = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
#: Signals that come this close are one: `timeout` tells its child, then its group, child and all.
TOGETHER_S: Final = 0.5
#: What shells add to a signal's number.
_ENDED_BY: Final = 128


@contextmanager
def told_to_end() -> Iterator[None]:
    """Inside, these signals raise KeyboardInterrupt with their number; ignored ones stay so."""
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    end = _End()
    heard = [number for number in _SIGNALS if previous[number] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            # Whoever has come to ignore them since does so until the process ends.
            if signal.getsignal(number) is end:
                signal.signal(number, previous[number])


def exit_code(end: KeyboardInterrupt) -> int:
    """130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    number: int = end.args[0] if end.args else signal.SIGINT
    return _ENDED_BY + number


class _End:
    """A handler: interrupts at the first signal, and again at one that comes later."""

    def __init__(self) -> None:
        self._told_at = float("-inf")

    def __call__(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if now - self._told_at >= TOGETHER_S:
            self._told_at = now
            raise KeyboardInterrupt(number)
