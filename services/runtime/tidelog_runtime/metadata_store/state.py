"""The keys of the embedded store in memory, and the rules of a transaction. Pure.

The embedded store stages transactions one after the other over what is published, writes the
outcome to its log, and publishes it once it is durable. What is staged is never read by anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidelog_runtime.metadata_store.interface import (
    Absent,
    Compare,
    Conflict,
    CreateRevisionIs,
    Delete,
    Deleted,
    DeletePrefix,
    Event,
    EventBatch,
    Item,
    LeaseId,
    ModRevisionIs,
    Operation,
    Put,
)


class KeyValueState:
    """All keys at one revision. Only `publish` changes it."""

    def __init__(self, revision: int = 0, items: Iterable[Item] = ()) -> None:
        self.revision = revision
        self.items = {item.key: item for item in items}

    def with_prefix(self, prefix: str) -> tuple[Item, ...]:
        """The items of a prefix, sorted by key."""
        keys = sorted(key for key in self.items if key.startswith(prefix))
        return tuple(self.items[key] for key in keys)

    def publish(self, batches: Iterable[EventBatch]) -> None:
        """Take over what has become durable, in order."""
        for batch in batches:
            assert batch.revision > self.revision, "revisions only grow"
            self.revision = batch.revision
            for event in batch.events:
                if isinstance(event, Deleted):
                    del self.items[event.key]
                else:
                    self.items[event.key] = event


class Stage:
    """Transactions on top of a published state, not durable yet and visible to each other only."""

    def __init__(self, state: KeyValueState) -> None:
        self._state = state
        self._overlay: dict[str, Item | None] = {}
        self.revision = state.revision
        self.batches: list[EventBatch] = []

    def transact(
        self, compares: Sequence[Compare], operations: Sequence[Operation]
    ) -> EventBatch | Conflict:
        """What the transaction changes; a batch without events when it changes nothing."""
        if not all(self._holds(compare) for compare in compares):
            return Conflict(self.revision)
        revision = self.revision + 1
        events: list[Event] = []
        for operation in operations:
            events += self._events_of(operation, revision)
        return self._take(revision, events)

    def end_lease(self, lease_id: LeaseId) -> EventBatch:
        """The deletion of every key that hangs on the lease."""
        revision = self.revision + 1
        keys = sorted(item.key for item in self._items() if item.lease_id == lease_id)
        return self._take(revision, [Deleted(key, revision) for key in keys])

    def _take(self, revision: int, events: list[Event]) -> EventBatch:
        if not events:
            return EventBatch(self.revision, ())
        batch = EventBatch(revision, tuple(events))
        self.revision = revision
        self.batches.append(batch)
        for event in events:
            self._overlay[event.key] = None if isinstance(event, Deleted) else event
        return batch

    def _get(self, key: str) -> Item | None:
        return self._overlay[key] if key in self._overlay else self._state.items.get(key)

    def _items(self) -> Iterator[Item]:
        overlay = self._overlay
        yield from (item for key, item in self._state.items.items() if key not in overlay)
        yield from (item for item in overlay.values() if item is not None)

    def _holds(self, compare: Compare) -> bool:
        item = self._get(compare.key)
        match compare:
            case Absent():
                return item is None
            case ModRevisionIs(revision=revision):
                return item is not None and item.mod_revision == revision
            case CreateRevisionIs(revision=revision):
                return item is not None and item.create_revision == revision

    def _events_of(self, operation: Operation, revision: int) -> list[Event]:
        match operation:
            case Put(key=key, value=value, lease_id=lease_id):
                before = self._get(key)
                created = before.create_revision if before is not None else revision
                return [Item(key, value, created, revision, lease_id)]
            case Delete(key=key):
                return [Deleted(key, revision)] if self._get(key) is not None else []
            case DeletePrefix(prefix=prefix):
                keys = sorted(item.key for item in self._items() if item.key.startswith(prefix))
                return [Deleted(key, revision) for key in keys]
