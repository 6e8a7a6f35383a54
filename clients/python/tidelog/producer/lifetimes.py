"""Producers that are open: what becomes of them when the interpreter exits or the process forks.

Invariant: no record is forgotten silently. At exit an open `Producer` is flushed within a limit,
and what has no verdict then is said through `logging`. In a child process every producer of the
parent refuses its calls in words instead of hanging.
"""

from __future__ import annotations

import atexit
import logging
import os
from typing import Final, Protocol

logger: Final = logging.getLogger("tidelog.producer")


class Open(Protocol):
    """A producer that was not closed yet."""

    def at_exit(self) -> None:
        """The interpreter exits."""

    def after_fork(self) -> None:
        """This is a child process."""


_open: Final[dict[Open, None]] = {}


def opened(producer: Open) -> None:
    """To be told of exit and fork from now on."""
    _open[producer] = None


def closed(producer: Open) -> None:
    """There is nothing left to tell."""
    _open.pop(producer, None)


def _at_exit() -> None:
    for producer in list(_open):
        try:
            producer.at_exit()
        except Exception:
            logger.exception("A producer could not be closed at exit")


def _after_fork() -> None:
    for producer in list(_open):
        producer.after_fork()
    _open.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
