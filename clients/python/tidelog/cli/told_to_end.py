"""What SIGTERM and SIGHUP do to a verb that has something open: it closes that, as for Ctrl-C.

Both consoles run inside of `told_to_end`; `command` turns the interrupt into the exit code.
Invariant: a line that was accepted has its verdict, and the code is what a shell calls the signal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: What shells add to a signal's number.
_ENDED_BY: Final = 128


@contextmanager
def told_to_end() -> Iterator[None]:
    """Inside, these signals raise KeyboardInterrupt with their number; ignored ones stay so."""
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number in _SIGNALS if previous[number] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in heard:
            # Whoever has come to ignore them since does so until the process ends.
            if signal.getsignal(number) is _end:
                signal.signal(number, previous[number])


def exit_code(end: KeyboardInterrupt) -> int:
    """130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    number: int = end.args[0] if end.args else signal.SIGINT
    return _ENDED_BY + number


def _end(number: int, frame: object) -> None:
    raise KeyboardInterrupt(number)
