"""One sync of one log: taken on the event loop, made off it, finished on it.

The group commit collects the tickets of all dirty logs, syncs each file and folder once, and only
then lets the logs move their durable ends.
"""

from __future__ import annotations

from tidelog_broker.storage.open_files import OpenFile
from tidelog_broker.storage.segment import Segment
from tidelog_runtime.disk import Disk


class SyncTicket:
    """The files and folders to sync, and what is durable afterwards."""

    __slots__ = ("directories", "end", "generation", "segments", "slots")

    def __init__(
        self,
        segments: list[Segment],
        slots: list[OpenFile],
        directories: list[str],
        end: int,
        generation: int,
    ) -> None:
        self.segments = segments
        #: Their files, which stay open until the sync is finished.
        self.slots = slots
        self.directories = directories
        self.end = end
        self.generation = generation

    def run(self, disk: Disk, synced: set[str]) -> None:
        """Sync all of it but the folders in `synced`, which grows by those; raises OSError."""
        for slot in self.slots:
            if slot.file is not None:
                slot.file.sync()
        for directory in self.directories:
            if directory not in synced:
                disk.sync_directory(directory)
                synced.add(directory)
