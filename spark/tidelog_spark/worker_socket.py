"""Spares each task of Spark the 40 ms in which its JVM waits for an acknowledgement of the kernel.

The JVM sends a task in two small pieces: its program, then its rows. Its kernel holds the second
back until ours has acknowledged the first (Nagle's algorithm), and ours waits with that for an
answer to send it along with, which there is none of before the rows are here. What Spark carries to
its tasks is a `Carried`: unpickled as soon as the first piece is read, it has that acknowledged.
Invariant: it does nothing but to let acknowledgements go earlier, and only in processes that are
Spark's workers.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path
from typing import Any

from pyspark import TaskContext

_OPEN_FILES = Path("/proc/self/fd")


class Carried:
    """A reader or writer, whose tasks begin as soon as it is unpickled in them.

    It has some state of its own: of an object without any, unpickling sets none.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        acknowledge_at_once()
        self.__dict__.update(state)


def acknowledge_at_once() -> None:
    """What the JVM has sent to this worker is acknowledged now; only Linux can be told so."""
    if sys.platform != "linux" or TaskContext.get() is None:
        return
    if socket.getdefaulttimeout() is not None:
        return  # to look at a descriptor as a socket would give it that timeout, in Spark's hands
    try:
        descriptors = [int(name) for name in os.listdir(_OPEN_FILES)]
    except OSError:
        return  # no /proc, or no descriptor left to look into it: the task only starts later
    for descriptor in descriptors:
        # The clients' connections are among them and don't mind.
        _acknowledge(descriptor)


def _acknowledge(descriptor: int) -> None:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return
        connection = socket.socket(fileno=descriptor)
    except OSError:
        return  # closed meanwhile
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    except OSError:
        return  # no TCP, or no connection
    finally:
        connection.detach()
