"""The questions of planning, put to a cluster by the SDK.

Readers make one on the driver. It stands apart from `topics` because it loads the clients, which
neither the options nor the command line need. Invariant: the one of `topics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.admin.admin import Admin
from tidelog.admin.descriptions import TopicDescription
from tidelog.engine.places import Place
from tidelog.errors import UnknownTopic
from tidelog.model import TopicPartition
from tidelog_spark.clients import borrowed_consumer, client_for
from tidelog_spark.offsets import Offsets
from tidelog_spark.topics import TopicSeen

#: A look at some records tells what they weigh: one small answer, nothing fetched ahead.
SAMPLE_SETTINGS: Final[dict[str, object]] = {
    "fetch_max_bytes": 64 << 10,
    "max_partition_fetch_bytes": 64 << 10,
    "prefetch_bytes": 64 << 10,
}
SAMPLE_TIMEOUT_S: Final = 10.0


class ClusterLogs:
    """The logs of a cluster. It can be pickled: the client is made where it is first asked."""

    def __init__(self, bootstrap: str, settings: Mapping[str, object]) -> None:
        self._bootstrap = bootstrap
        self._settings = dict(settings)

    @property
    def _admin(self) -> Admin:
        return client_for(Admin, self._bootstrap, **self._settings)

    def names(self) -> list[str]:
        """The names of all topics."""
        return self._admin.list_topics()

    def describe(self, topics: Iterable[str]) -> dict[str, TopicSeen | UnknownTopic]:
        """These topics; the error for one that does not exist."""
        names = list(topics)
        if not names:
            return {}
        try:
            described = self._admin.describe_topics(names)
        except UnknownTopic:
            return {name: self._describe_one(name) for name in names}
        return {name: _seen(described[name]) for name in names}

    def _describe_one(self, name: str) -> TopicSeen | UnknownTopic:
        try:
            return _seen(self._admin.describe_topic(name))
        except UnknownTopic as error:
            return error

    def starts(self, partitions: list[TopicPartition]) -> Offsets:
        """Where these logs begin."""
        return self._listed(partitions, "earliest")

    def ends(self, partitions: list[TopicPartition]) -> Offsets:
        """Where these logs end."""
        return self._listed(partitions, "latest")

    def _listed(self, partitions: list[TopicPartition], at: Place) -> Offsets:
        if not partitions:
            return {}
        found = self._admin.list_offsets(partitions, at)
        return {one: place.offset for one, place in found.items() if place is not None}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset that is as late as a time in milliseconds; None where none is."""
        if not times:
            return {}
        with borrowed_consumer(self._bootstrap, **self._settings) as consumer:
            found = consumer.offsets_for_times(times)
        return {one: None if place is None else place.offset for one, place in found.items()}

    def record_bytes(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, float]:
        """What a record weighs where each of these filled ranges begins, as it is stored."""
        weights: dict[TopicPartition, float] = {}
        with borrowed_consumer(self._bootstrap, **self._settings, **SAMPLE_SETTINGS) as consumer:
            for one, (start, end) in ranges.items():
                consumer.assign({one: start}, until=end)
                for batch in consumer.batches(timeout=SAMPLE_TIMEOUT_S):
                    weights[one] = batch.size_bytes / (batch.next_offset - batch.base_offset)
                    break
            consumer.unassign()
        return weights


def _seen(topic: TopicDescription) -> TopicSeen:
    return TopicSeen(topic.topic_id.hex(), topic.partition_count)
