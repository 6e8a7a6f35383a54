"""`tidelog up` on a disk whose syncs never end once a file called `stall` stands beside its data.

Run as `python -m faults.stalling_node` with the flags of `tidelog up`.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Final
from unittest import mock

from tidelog_node import foreground
from tidelog_node.up import main
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.adapters.local_file import LocalFile

STALL: Final = "stall"


class StallingDisk(LocalDisk):
    """The local disk, until it stalls."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        stall, sync = Path(root).parent / STALL, LocalFile.sync

        def sync_unless_stalled(file: LocalFile) -> None:
            if stall.exists():
                threading.Event().wait()
            sync(file)

        mock.patch.object(LocalFile, "sync", sync_unless_stalled).start()


if __name__ == "__main__":
    mock.patch.object(foreground, "STOP_PATIENCE_S", 0.1).start()
    sys.exit(main(sys.argv[1:], make_disk=StallingDisk))
