"""Shows a person at a terminal how far recovery has come after an unclean stop."""

from __future__ import annotations

import sys

from tidelog_broker.storage.data_directory import RecoveryProgress


def show_recovery(progress: RecoveryProgress) -> None:
    """One line that is written over until the last log is done."""
    line = f"\rrecovering: {progress.logs_recovered} of {progress.logs_found} logs"
    end = "\n" if progress.logs_recovered >= progress.logs_found else ""
    print(line, end=end, file=sys.stderr, flush=True)
