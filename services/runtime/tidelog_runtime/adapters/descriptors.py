"""How many files this process may have open: asked of the system before a service starts.

A shell or a service manager usually grants 1,024 and lets a process take far more by itself. Entry
points do so; a node keeps its open log files within what there is, and leaves the other half to
connections, the journal and whatever else is open for a moment.
"""

from __future__ import annotations

import resource
from typing import Final

#: Enough for 10,000 open logs and as many connections.
DESCRIPTORS_WANTED: Final = 65_536


def raise_descriptor_limit() -> None:
    """Takes as many descriptors as a node can use and the process may take by itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = DESCRIPTORS_WANTED if hard == unlimited else min(DESCRIPTORS_WANTED, hard)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_files_within_limit(wanted: int) -> int:
    """As many log files as wanted, or half of the descriptors where that is less."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, max(soft // 2, 1))
