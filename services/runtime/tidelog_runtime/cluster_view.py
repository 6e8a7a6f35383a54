"""The cluster as a service sees it: an index over the mirrored keys, and what changed since when.

`cluster_mirror` feeds it; brokers answer metadata requests from it and take up their partitions
after it, the controller decides on it. What it hands out is frozen; only the mirror changes the
view itself. A topic is shown with its partitions, never partitions without a topic.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.model import TopicId
from tidelog_runtime.cluster_state import (
    BROKER_STATES,
    DELETED_TOPICS,
    LIVE_BROKERS,
    META,
    PARTITIONS,
    PRODUCER_IDS,
    TOPICS,
    BrokerRegistration,
    BrokerState,
    IdBlock,
    Meta,
    PartitionState,
    TopicState,
    decode_broker_state,
    decode_id_block,
    decode_meta,
    decode_partition,
    decode_registration,
    decode_topic,
)
from tidelog_runtime.metadata_store.errors import StoreCorrupt
from tidelog_runtime.metadata_store.interface import (
    Deleted,
    Event,
    EventBatch,
    Item,
    RangeResult,
)

logger = logging.getLogger(__name__)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: How many changes are remembered for `changes_since`.
CHANGES_MAX: Final = 50_000


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from an earlier revision: look each of them up in the view."""

    revision: int
    brokers: bool
    topics: tuple[TopicId, ...]
    deleted_topics: tuple[TopicId, ...]


class ClusterView:
    """See the module."""

    def __init__(self) -> None:
        self.revision = 0
        self.meta: Meta | None = None
        self.brokers: dict[int, BrokerRegistration] = {}
        self.broker_states: dict[int, BrokerState] = {}
        self.producer_ids: IdBlock | None = None
        #: Topics that were deleted, and at which revision.
        self.deleted_topics: dict[TopicId, int] = {}
        self._topics: dict[str, TopicState] = {}
        self._names: dict[TopicId, str] = {}
        self._partitions: dict[TopicId, dict[int, PartitionState]] = {}
        self._keys: dict[str, int] = {}
        self._changes: deque[tuple[int, TopicId | None]] = deque(maxlen=CHANGES_MAX)
        self._complete_since = 0

    @property
    def topics(self) -> Iterator[TopicState]:
        """All topics, in the order of their names."""
        return (self._topics[name] for name in sorted(self._topics))

    @property
    def topic_names(self) -> Iterator[str]:
        """The names of all topics, in no order that means anything."""
        return iter(self._topics)

    def topic(self, name: str) -> TopicState | None:
        """The topic of this name."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: TopicId) -> TopicState | None:
        """The topic of this identity."""
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def partition(self, topic_id: TopicId, partition: int) -> PartitionState | None:
        """One partition of a topic that is there."""
        topic = self.topic_by_id(topic_id)
        if topic is None or not 0 <= partition < topic.partitions:
            return None
        return self._partitions.get(topic_id, {}).get(partition)

    def partitions(self, topic_id: TopicId) -> Iterator[tuple[int, PartitionState]]:
        """Number and state of each partition of a topic that is there, in order."""
        topic = self.topic_by_id(topic_id)
        states = self._partitions.get(topic_id, {})
        count = topic.partitions if topic is not None else 0
        return ((number, states[number]) for number in range(count) if number in states)

    def stored_partitions(self) -> Iterator[tuple[TopicId, int]]:
        """Every partition key that stands in the store, also those without a topic."""
        for topic_id in sorted(self._partitions):
            yield from ((topic_id, number) for number in sorted(self._partitions[topic_id]))

    def changes_since(self, revision: int) -> Changes | None:
        """What changed after `revision`; None when that is too long ago: take everything anew."""
        if revision < self._complete_since:
            return None
        touched: dict[TopicId, None] = {}
        brokers = False
        for changed_at, topic_id in reversed(self._changes):
            if changed_at <= revision:
                break
            if topic_id is None:
                brokers = True
            else:
                touched[topic_id] = None
        return Changes(
            revision=self.revision,
            brokers=brokers,
            topics=tuple(sorted(topic for topic in touched if topic in self._names)),
            deleted_topics=tuple(sorted(topic for topic in touched if topic not in self._names)),
        )

    def apply(self, batch: EventBatch) -> None:
        """Take over one transaction; one that is known already changes nothing."""
        if batch.revision <= self.revision:
            return
        for event in batch.events:
            self._apply_event(event, batch.revision)
        self.revision = batch.revision

    def replace(self, found: RangeResult) -> None:
        """Become what a range over everything has found; the difference counts as changes."""
        if found.revision < self.revision:
            return
        first = self.revision == 0
        present = {item.key for item in found.items}
        for key in sorted(set(self._keys) - present):
            self._apply_event(Deleted(key, found.revision), found.revision)
        for item in found.items:
            if self._keys.get(item.key) != item.mod_revision:
                self._apply_event(item, found.revision)
        self.revision = found.revision
        if first:
            self._complete_since = found.revision

    def _apply_event(self, event: Event, revision: int) -> None:
        if isinstance(event, Deleted):
            self._keys.pop(event.key, None)
        else:
            self._keys[event.key] = event.mod_revision
        try:
            self._index(event, revision)
        except (StoreCorrupt, ValueError) as error:
            # One key that makes no sense must not take the view of all others along.
            logger.error("ignoring '%s' of the metadata store: %s", event.key, error)

    def _index(self, event: Event, revision: int) -> None:
        key = event.key
        item = event if isinstance(event, Item) else None
        if key.startswith(PARTITIONS):
            self._index_partition(key, item, revision)
        elif key.startswith(TOPICS):
            self._index_topic(key.removeprefix(TOPICS), item, revision)
        elif key.startswith(LIVE_BROKERS):
            _set(self.brokers, int(key.removeprefix(LIVE_BROKERS)), item, decode_registration)
            self._note(revision, None)
        elif key.startswith(BROKER_STATES):
            _set(
                self.broker_states, int(key.removeprefix(BROKER_STATES)), item, decode_broker_state
            )
        elif key.startswith(DELETED_TOPICS):
            topic_id = TopicId(bytes.fromhex(key.removeprefix(DELETED_TOPICS)))
            _set(self.deleted_topics, topic_id, item, _revision_of)
        elif key == META:
            self.meta = decode_meta(item) if item is not None else None
        elif key == PRODUCER_IDS:
            self.producer_ids = decode_id_block(item) if item is not None else None

    def _index_topic(self, name: str, item: Item | None, revision: int) -> None:
        topic = decode_topic(item) if item is not None else None
        before = self._topics.pop(name, None)
        if before is not None:
            del self._names[before.topic_id]
            self._note(revision, before.topic_id)
        if topic is not None:
            self._topics[name] = topic
            self._names[topic.topic_id] = name
            self._note(revision, topic.topic_id)

    def _index_partition(self, key: str, item: Item | None, revision: int) -> None:
        hexadecimal, _, number = key.removeprefix(PARTITIONS).partition("/")
        topic_id = TopicId(bytes.fromhex(hexadecimal))
        states = self._partitions.setdefault(topic_id, {})
        _set(states, int(number), item, decode_partition)
        if not states:
            del self._partitions[topic_id]
        self._note(revision, topic_id)

    def _note(self, revision: int, topic_id: TopicId | None) -> None:
        if self._changes and self._changes[-1] == (revision, topic_id):
            return
        if len(self._changes) == CHANGES_MAX:
            self._complete_since = self._changes[0][0]
        self._changes.append((revision, topic_id))


def _revision_of(item: Item) -> int:
    return item.mod_revision


def _set(
    values: dict[_Key, _Value], key: _Key, item: Item | None, decode: Callable[[Item], _Value]
) -> None:
    if item is None:
        values.pop(key, None)
    else:
        values[key] = decode(item)
