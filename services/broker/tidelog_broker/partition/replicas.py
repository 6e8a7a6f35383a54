"""The partitions of this broker, found by topic name or topic id, with words for what isn't here.

`api/` looks every partition of every request up here, so a hit is one dictionary look-up; why a
miss is one (no such topic, another topic of that name, no such partition, closed to clients) is
found out only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.errors import (
    NotLeader,
    StorageError,
    TidelogError,
    TopicAuthorizationFailed,
    UnknownTopic,
    UnknownTopicId,
)
from tidelog.model import PartitionId, TopicId
from tidelog.wire.v1 import produce_pb2
from tidelog_broker.name_hints import NameHints
from tidelog_broker.partition.partition import Partition
from tidelog_runtime.principal import Principal


class Replicas:
    """Every partition this broker holds a replica of."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[tuple[TopicId, int], Partition] = {}
        #: Partition counts of every topic of the cluster, also of those other brokers hold.
        self._known_topics: dict[str, int] = {}
        self._hints = NameHints()
        self._names: dict[TopicId, str] = {}
        #: Partitions that should be here and could not be opened.
        self._failures: dict[tuple[TopicId, int], TidelogError] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_id.values()))

    def get(self, partition_id: PartitionId) -> Partition | None:
        """The partition of this identity, if it is here."""
        return self._by_id.get((partition_id.topic_id, partition_id.partition))

    def add(self, partition: Partition) -> None:
        """From now on requests find it."""
        self._by_name.setdefault(partition.topic, {})[partition.number] = partition
        self._by_id[partition.topic_id, partition.number] = partition
        self._failures.pop((partition.topic_id, partition.number), None)

    def add_failure(self, partition_id: PartitionId, error: TidelogError) -> None:
        """The partition could not be opened: requests for it are told why."""
        self._failures[partition_id.topic_id, partition_id.partition] = error

    @property
    def known_topic_ids(self) -> list[TopicId]:
        """The topics of which this broker was told."""
        return list(self._names)

    @property
    def topics_to_reopen(self) -> list[TopicId]:
        """Topics with a partition that could not be opened for a reason that may have passed."""
        passing = {key[0]: None for key, error in self._failures.items() if error.retriable}
        return list(passing)

    def remove(self, partition: Partition) -> None:
        """Requests don't find it any more."""
        self._by_id.pop((partition.topic_id, partition.number), None)
        named = self._by_name.get(partition.topic, {})
        if named.get(partition.number) is partition:
            del named[partition.number]
            if not named:
                del self._by_name[partition.topic]

    def know_topic(self, topic: str, topic_id: TopicId, partitions: int) -> None:
        """The cluster has this topic."""
        self._known_topics[topic] = partitions
        self._names[topic_id] = topic

    def forget_topic(self, topic_id: TopicId, remaining: set[str]) -> None:
        """The cluster has this topic no longer; of names, it has no more than the remaining."""
        self._names.pop(topic_id, None)
        for topic in self._known_topics.keys() - remaining:
            del self._known_topics[topic]
        self._failures = {key: why for key, why in self._failures.items() if key[0] != topic_id}

    @property
    def failure_count(self) -> int:
        """How many partitions could not be opened."""
        return len(self._failures)

    def find(self, topic: str, topic_id: TopicId, number: int, principal: Principal) -> Partition:
        """The partition a request names; raises what is wrong with the address."""
        if topic_id:
            partition = self._by_id.get((topic_id, number))
        else:
            named = self._by_name.get(topic)
            partition = None if named is None else named.get(number)
        if partition is None:
            raise self._why_missing(topic, topic_id, number)
        if partition.internal and not principal.is_internal:
            raise TopicAuthorizationFailed(
                f"Topic {partition.topic!r} is internal and closed to {principal}"
            )
        return partition

    def misses_topic(self, request: produce_pb2.ProduceRequest) -> bool:
        """True if the request names a topic that the cluster doesn't have."""
        known = self._known_topics
        return any(item.topic not in known and not item.topic_id for item in request.partitions)

    def _why_missing(self, topic: str, topic_id: TopicId, number: int) -> TidelogError:
        if topic_id and topic_id in self._names:
            return self._why_closed(self._names[topic_id], topic_id, number)
        if topic_id and topic not in self._known_topics:
            return UnknownTopicId(
                f"No topic has the id {topic_id.hex()}" + (f" (it was {topic!r})" if topic else ""),
                hint="It was deleted, or created anew under the same name",
            )
        count = self._known_topics.get(topic)
        if count is None:
            return UnknownTopic(
                f"Topic {topic!r} does not exist",
                hint=self._hints.hint(topic, self._visible_names()),
            )
        if topic_id:
            return UnknownTopicId(
                f"Topic {topic!r} is another one than that with the id {topic_id.hex()}",
                hint="It was deleted and created anew under the same name",
            )
        present = next((known for known, name in self._names.items() if name == topic), topic_id)
        return self._why_closed(topic, present, number)

    def _why_closed(self, topic: str, topic_id: TopicId, number: int) -> TidelogError:
        """Why a topic that is known has no such partition here."""
        count = self._known_topics[topic]
        if not 0 <= number < count:
            return UnknownTopic(
                f"Topic {topic!r} has no partition {number}: it has {count}, from 0 on"
            )
        failure = self._failures.get((topic_id, number))
        if failure is not None:
            return StorageError(
                f"{topic}-{number} could not be opened on this broker", cause=str(failure)
            )
        return NotLeader(f"This broker holds no replica of {topic}-{number}")

    def _visible_names(self) -> Iterable[str]:
        return [name for name in self._known_topics if not name.startswith("__")]
