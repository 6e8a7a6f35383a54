"""What watches read: the latest events of the embedded store, kept up to a bound. Pure.

A watch holds no queue, only the revision it comes to next; so a slow one costs nothing, until the
oldest events are dropped and it is told to read anew.
"""

from __future__ import annotations

from collections import deque

from tidelog_runtime.metadata_store.errors import CompactedError
from tidelog_runtime.metadata_store.interface import EventBatch


class History:
    """The batches above `compacted_revision`, oldest first."""

    def __init__(self, compacted_revision: int, *, events_max: int) -> None:
        self.compacted_revision = compacted_revision
        self._events_max = events_max
        self._events = 0
        self._batches: deque[EventBatch] = deque()

    def add(self, batch: EventBatch) -> None:
        """Keep a batch; drop the oldest ones beyond the bound, but never the newest."""
        self._batches.append(batch)
        self._events += len(batch.events)
        while self._events > self._events_max and len(self._batches) > 1:
            dropped = self._batches.popleft()
            self._events -= len(dropped.events)
            self.compacted_revision = dropped.revision

    def since(self, revision: int, prefix: str) -> list[EventBatch]:
        """The kept batches from `revision` on, cut down to a prefix; those left empty are left out.

        Raises CompactedError when some were dropped already.
        """
        if revision <= self.compacted_revision:
            raise CompactedError(self.compacted_revision)
        found = []
        for batch in reversed(self._batches):
            if batch.revision < revision:
                break
            events = tuple(event for event in batch.events if event.key.startswith(prefix))
            if events:
                found.append(EventBatch(batch.revision, events))
        found.reverse()
        return found
