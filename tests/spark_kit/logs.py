"""Logs that are numbers in a dictionary: planning is tested against these, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.errors import UnknownTopic
from tidelog.model import TopicPartition
from tidelog_spark.offsets import Offsets
from tidelog_spark.topics import TopicSeen


@dataclass
class FakeTopic:
    """One topic: where each of its logs begins and ends, and one timestamp for each offset."""

    topic_id: str
    ends: list[int]
    starts: list[int] = field(default_factory=list)
    #: The record at offset n has this timestamp plus n.
    first_timestamp_ms: int = 1_000

    def __post_init__(self) -> None:
        self.starts = self.starts or [0] * len(self.ends)


class FakeLogs:
    """What planning asks of a cluster; tests change `topics` as they like."""

    def __init__(self, **topics: FakeTopic) -> None:
        self.topics = topics
        self.record_size_bytes = 100
        self.questions: list[str] = []

    def names(self) -> list[str]:
        """The names of all topics."""
        return sorted(self.topics)

    def describe(self, topics: Iterable[str]) -> dict[str, TopicSeen | UnknownTopic]:
        """These topics; the error for one that does not exist."""
        self.questions.append("describe")
        return {name: self._seen(name) for name in topics}

    def _seen(self, name: str) -> TopicSeen | UnknownTopic:
        topic = self.topics.get(name)
        if topic is None:
            return UnknownTopic(f"Topic {name!r} does not exist")
        return TopicSeen(topic.topic_id, len(topic.ends))

    def _topic(self, partition: TopicPartition) -> FakeTopic:
        if partition.topic not in self.topics:
            raise UnknownTopic(f"Topic {partition.topic!r} does not exist")
        return self.topics[partition.topic]

    def starts(self, partitions: list[TopicPartition]) -> Offsets:
        """Where these logs begin."""
        return {one: self._topic(one).starts[one.partition] for one in partitions}

    def ends(self, partitions: list[TopicPartition]) -> Offsets:
        """Where these logs end."""
        self.questions.append("ends")
        return {one: self._topic(one).ends[one.partition] for one in partitions}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset that is as late as a time; None where none is."""
        found: dict[TopicPartition, int | None] = {}
        for one, time_ms in times.items():
            topic = self._topic(one)
            offset = max(topic.starts[one.partition], time_ms - topic.first_timestamp_ms)
            found[one] = offset if offset < topic.ends[one.partition] else None
        return found

    def record_bytes(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, float]:
        """What a record weighs."""
        return dict.fromkeys(ranges, float(self.record_size_bytes))
