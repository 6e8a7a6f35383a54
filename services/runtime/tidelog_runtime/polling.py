"""Chooses how gRPC waits for its sockets, before a service loads gRPC.

What arrives at gRPC's event engine passes three of its threads before the one of asyncio; its older
poller passes it through one, which is a seventh of a record's way and as much of the processor
(docs/performance.md). Service entry points call this first thing. The client SDK never does: gRPC
has one setting a process, and the process a client lives in isn't ours.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "GRPC_EXPERIMENTS"
OLDER_POLLER: Final = "-event_engine_client,-event_engine_listener"


def choose_older_poller() -> None:
    """Sets it for this process, unless the environment has chosen; gRPC reads it when loaded."""
    os.environ.setdefault(VARIABLE, OLDER_POLLER)
