"""Retired files that the last process left in the folders of partitions.

A segment that is dropped is renamed, and its space given back after a delay. Where the process
stops before that, the next one finds the file here: the data directory names the folders that it
found when it was opened, and each is looked into once, whether or not anybody needs its log.
Invariant: what this process has retired itself waits in the trash for its own time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from tidelog_broker.storage import names
from tidelog_broker.storage.volume import RETRY_MS, PurgeStep, Trash, remove_if_there
from tidelog_runtime.disk import Disk

logger = logging.getLogger(__name__)

#: So many folders are looked into before whoever runs the steps has other things to do.
FOLDERS_AT_A_TIME: Final = 256


class Sweep:
    """The folders that were not looked into yet."""

    def __init__(self, disk: Disk, trash: Trash, folders: Iterable[str]) -> None:
        self._disk = disk
        self._trash = trash
        self._folders = deque(folders)
        self._not_before_ms = 0

    def steps(self, now_ms: int) -> Iterator[PurgeStep]:
        """A look into each of some folders, and the removal of each file that it has found.

        A step may run in a thread, and has to end before the next one is asked for.
        """
        if now_ms < self._not_before_ms:
            return
        for _ in range(min(len(self._folders), FOLDERS_AT_A_TIME)):
            look = Look(self._disk, self._folders.popleft())
            yield look
            if look.error is not None:
                # As for want of descriptors, which would keep it from the others as well.
                logger.error(
                    "%s can't be looked into, and what was deleted there is removed later: %s",
                    look.folder,
                    look.error,
                )
                self._folders.append(look.folder)
                self._not_before_ms = now_ms + RETRY_MS
                return
            if look.found:
                own = self._trash.paths()
                for path in look.found:
                    if path not in own:
                        yield partial(remove_if_there, self._disk, path)


class Look:
    """Which files of one folder are retired."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self.found: list[str] = []
        self.error: OSError | None = None

    def __call__(self) -> None:
        """Look; a folder that has gone holds nothing."""
        try:
            held = self._disk.list_directory(self.folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self.error = error
            return
        self.found = [f"{self.folder}/{name}" for name in held if name.endswith(names.DELETED)]
