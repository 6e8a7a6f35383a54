"""Lists offsets for an admin: whole topics or partitions, at one place.

`AsyncAdmin.list_offsets` comes here and asks the leaders through `engine.offsets`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.engine.cluster import Cluster
from tidelog.engine.offsets import Found, OffsetQuestions
from tidelog.engine.partition_names import partition_named
from tidelog.engine.places import Place, Timestamp, question_for
from tidelog.errors import InvalidRequest
from tidelog.model import MAX_TIMESTAMP, TopicPartition


class OffsetListing:
    """One call's work."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(
        self,
        partitions: str | TopicPartition | Iterable[str | TopicPartition],
        at: Place,
        deadline: float,
    ) -> Found:
        """The offset of each partition at a place."""
        timestamp_ms = _timestamp(at)
        timestamps: dict[TopicPartition, int] = {}
        for name in _names(partitions):
            if not isinstance(name, str):
                timestamps[partition_named(name)] = timestamp_ms
                continue
            view = await self._cluster.topic(name, deadline=deadline)
            for number in range(view.partition_count):
                timestamps[TopicPartition(name, number)] = timestamp_ms
        return await OffsetQuestions(self._cluster).ask(timestamps, deadline=deadline)


def _names(partitions: Any) -> Iterable[Any]:
    if isinstance(partitions, str | TopicPartition):
        return [partitions]
    if isinstance(partitions, Mapping):
        raise InvalidRequest(
            f"{partitions!r:.80} has a place for each partition; list_offsets takes one for all",
            hint="Give the names, and the place as at='earliest', in a call for each place",
        )
    if isinstance(partitions, bytes) or not isinstance(partitions, Iterable):
        raise InvalidRequest(
            f"{partitions!r:.80} names no partitions",
            hint="Give a topic, TopicPartition('orders', 0), or several",
        )
    return partitions


def _timestamp(at: Place) -> int:
    if at == "max_timestamp":
        return MAX_TIMESTAMP
    question = question_for(at, time.time_ns() // 1_000_000)
    if not isinstance(question, Timestamp):
        raise InvalidRequest(
            f"The offset {at} is known already",
            hint="Give 'earliest', 'latest', 'max_timestamp', a datetime or a timedelta",
        )
    return question.timestamp_ms
