"""Where the `tidelog` script begins: it imports the command, and runs it.

Apart from `command` and with few imports of its own, so that Ctrl-C right after the start meets
nobody who would show a traceback.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final

#: What shells call the end by Ctrl-C; `told_to_end` has the others.
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the `tidelog` script."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        _set(_end_at_once)
    try:
        from tidelog.cli.command import main as obey  # noqa: PLC0415 - this is what takes time
    finally:
        if is_ours:
            _set(signal.default_int_handler)
    return obey(arguments)


def _set(handler: Callable[[int, FrameType | None], Any]) -> None:
    """Only the main thread may; who calls from another is no script."""
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:
        return


def _end_at_once(number: int, frame: object) -> None:
    """Nothing is open yet. An exception might be swallowed, or shown, by what Python imports."""
    os._exit(INTERRUPTED)
