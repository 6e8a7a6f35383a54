"""`tidelog up` on a disk whose syncs never end once a file called `stall` stands beside its data.

Run as `python -m faults.stalling_node` with the flags of `tidelog up`.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Final
from unittest import mock

from harness.disks import FaultyDisk, FaultyFile
from tidelog_node import foreground
from tidelog_node.up import main
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.disk import File

STALL: Final = "stall"


class StallingDisk(FaultyDisk):
    """The local disk, until it stalls."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._stall = Path(root).parent / STALL

    def open(self, path: str, *, create: bool = False) -> File:  # type: ignore[override] # wrapped
        """Open a file; not only the logs stall."""
        return FaultyFile(LocalDisk.open(self, path, create=create), path, self)

    def before_sync(self, path: str) -> None:
        """Never comes back once it is told to stall."""
        if self._stall.exists():
            threading.Event().wait()
        super().before_sync(path)


if __name__ == "__main__":
    mock.patch.object(foreground, "STOP_PATIENCE_S", 0.1).start()
    sys.exit(main(sys.argv[1:], make_disk=StallingDisk))
