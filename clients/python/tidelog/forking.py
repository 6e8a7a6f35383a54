"""What a fork leaves of gRPC: nothing that works, and so a clear error instead of a hang.

gRPC's threads stay behind in the parent. A child that was forked while they ran waits for them for
ever, or crashes; one that was forked before the first client was made, or after the last was
closed, may use gRPC as it likes. `channel_grpc` asks `check` before it makes anything, clients use
the hint for those that a child inherits. Invariant: no client waits for ever in such a child.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from tidelog.errors import ForkedClient

#: What to do instead: the clients of the parent keep its child from having any.
FORK_HINT: Final = (
    "Start processes by multiprocessing's 'spawn' or 'forkserver', or fork while no client is open;"
    " each process makes its own clients"
)
#: gRPC's thread for asyncio, by the function that it runs: it lives as long as anything of gRPC's.
POLLER: Final = "_poll_wrapper"


class _Process:
    """What this process knows of gRPC at the time of a fork."""

    def __init__(self) -> None:
        self.runs_grpc = False
        #: The parent that had gRPC running when this process was forked; 0: all is well.
        self.parent_id = 0

    def before_fork(self) -> None:
        """In the parent."""
        self.runs_grpc = any(POLLER in thread.name for thread in threading.enumerate())

    def after_fork(self) -> None:
        """In the child."""
        if self.runs_grpc:
            self.parent_id = os.getppid()


_process: Final = _Process()


def check() -> None:
    """Raises where gRPC can't work in this process."""
    if _process.parent_id:
        raise ForkedClient(
            f"Process {os.getpid()} was forked while clients or brokers of its parent"
            f" {_process.parent_id} were open: no client can work in it",
            hint=FORK_HINT,
        )


os.register_at_fork(before=_process.before_fork, after_in_child=_process.after_fork)
