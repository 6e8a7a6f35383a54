"""`tidelog up` on a disk that has no space for its metadata once a file called `full` is there.

Run as `python -m faults.full_node` with the flags of `tidelog up`; the file stands beside the data.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.disks import FaultyDisk, FaultyFile
from tidelog_node.up import main
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.disk import Buffer, File
from tidelog_runtime.metadata_store.embedded import DEFAULT_PATH

FULL: Final = "full"


class FullFile(FaultyFile):
    """Takes nothing while the file stands there."""

    def __init__(self, disk: FullDisk, path: str, *, create: bool) -> None:
        super().__init__(LocalDisk.open(disk, path, create=create), path, disk)
        self._full = disk.full

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write, if there is space."""
        if self._full.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().append(parts)


class FullDisk(FaultyDisk):
    """The local disk, until it is full."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.full = Path(root).parent / FULL

    def open(self, path: str, *, create: bool = False) -> File:  # type: ignore[override] # wrapped
        """Open a file; that of the metadata store can be made, and holds no more."""
        if path == DEFAULT_PATH:
            return FullFile(self, path, create=create)
        return super().open(path, create=create)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], make_disk=FullDisk))
