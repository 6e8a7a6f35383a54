"""What the driver asks the cluster: which topics there are, where their logs begin and end.

Planning knows the cluster through `Logs` alone; `cluster_logs` has the real one. Invariant: every
question has a time limit, and an answer is about the topics as they are now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from tidelog.errors import UnknownTopic
from tidelog.model import TopicPartition
from tidelog_spark.offsets import Offsets


class TopicSeen(NamedTuple):
    """A topic as it is now."""

    topic_id: str
    partition_count: int


class Logs(Protocol):
    """The questions."""

    def names(self) -> list[str]:
        """The names of all topics."""
        ...

    def describe(self, topics: Iterable[str]) -> dict[str, TopicSeen | UnknownTopic]:
        """These topics; the error for one that does not exist."""
        ...

    def starts(self, partitions: list[TopicPartition]) -> Offsets:
        """Where these logs begin."""
        ...

    def ends(self, partitions: list[TopicPartition]) -> Offsets:
        """Where these logs end: the offset of the record after the last."""
        ...

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset that is as late as a time in milliseconds; None where none is."""
        ...

    def record_bytes(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, float]:
        """What a record weighs where each of these filled ranges begins, as it is stored."""
        ...
