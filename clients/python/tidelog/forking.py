"""What a fork leaves of gRPC: nothing that works, and so a clear error instead of a hang.

gRPC's threads stay behind in the parent. A child that was forked while they ran waits for them for
ever, or crashes. One that was forked after the last client was closed does mostly well, but on a
busy machine one in ten waits for ever when it closes its own (gRPC 1.85). Only a child that was
forked before the first client was made may use gRPC as it likes. `channel_grpc` asks `check` before
it makes anything, clients use the hint for those that a child inherits. Invariant: no client waits
for ever in such a child.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from tidelog.errors import ForkedClient

#: What to do instead: the clients of the parent keep its child from having any.
FORK_HINT: Final = (
    "Start processes by multiprocessing's 'spawn' or 'forkserver', or fork before the first client"
    " is made; each process makes its own clients"
)
#: gRPC's thread for asyncio, by the function that it runs: it lives as long as anything of gRPC's.
POLLER: Final = "_poll_wrapper"


class _Process:
    """What this process knows of gRPC at the time of a fork."""

    def __init__(self) -> None:
        #: Whether a client was ever made here.
        self.has_used_grpc = False
        self.runs_grpc = False
        #: The parent that had used gRPC when this process was forked; 0: all is well.
        self.parent_id = 0

    def before_fork(self) -> None:
        """In the parent."""
        runs_server = any(POLLER in thread.name for thread in threading.enumerate())
        self.runs_grpc = self.has_used_grpc or runs_server

    def after_fork(self) -> None:
        """In the child."""
        if self.runs_grpc:
            self.parent_id = os.getppid()


_process: Final = _Process()


def check() -> None:
    """Raises where gRPC can't work in this process; else gRPC is going to be used in it."""
    if _process.parent_id:
        raise ForkedClient(
            f"Process {os.getpid()} was forked after its parent {_process.parent_id} had made"
            " clients or brokers, also where they are closed: no client can work in it",
            hint=FORK_HINT,
        )
    _process.has_used_grpc = True


os.register_at_fork(before=_process.before_fork, after_in_child=_process.after_fork)
