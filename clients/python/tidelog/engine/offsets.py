"""Asks leaders about offsets: where logs begin and end, and what was written at a time.

Consumer and admin ask here. Questions go to each leader at once, and again to the new one where a
leader has moved, until the deadline. Invariant: an answer is of the topic that was meant: one that
was created anew under the name is an error, never an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.engine.cluster import Cluster
from tidelog.engine.record_times import exact
from tidelog.engine.topic_identity import recreated
from tidelog.engine.wire_errors import error_of
from tidelog.errors import LeaderNotAvailable, TidelogError
from tidelog.model import MAX_TIMESTAMP, TopicId, TopicPartition
from tidelog.wire.v1 import common_pb2, offsets_pb2


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """A place in a log; timestamp and leader epoch are -1 where no record was asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


Found = dict[TopicPartition, OffsetAndTimestamp | None]


class OffsetQuestions:
    """Asks for one client."""

    def __init__(
        self, cluster: Cluster, isolation_level: int = common_pb2.READ_UNCOMMITTED
    ) -> None:
        self._cluster = cluster
        self._isolation_level = common_pb2.IsolationLevel.ValueType(isolation_level)

    async def ask(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        deadline: float,
        pinned: Mapping[str, TopicId] | None = None,
    ) -> Found:
        """The first record at or after each time, or the special place; None: no record is.

        `pinned` has the identity of topics that must not be others of the same name.
        """
        found: Found = {}
        left = dict(timestamps)

        async def attempt() -> Found:
            await self._ask_leaders(left, found, deadline, pinned or {})
            places = [
                self._within_batch(partition, found[partition], timestamp_ms, deadline)
                for partition, timestamp_ms in timestamps.items()
            ]
            return dict(zip(timestamps, await asyncio.gather(*places), strict=True))

        return await self._cluster.retrying(attempt, deadline)

    async def _within_batch(
        self,
        partition: TopicPartition,
        place: OffsetAndTimestamp | None,
        timestamp_ms: int,
        deadline: float,
    ) -> OffsetAndTimestamp | None:
        """The record where a broker has named its batch."""
        if timestamp_ms == MAX_TIMESTAMP and place is not None:
            timestamp_ms = place.timestamp
        if place is None or timestamp_ms < 0:
            return place
        topic = await self._cluster.topic(partition.topic, deadline=deadline)
        found = await exact(self._cluster, topic, partition, place.offset, timestamp_ms)
        return None if found is None else OffsetAndTimestamp(*found)

    async def _ask_leaders(
        self,
        left: dict[TopicPartition, int],
        found: Found,
        deadline: float,
        pinned: Mapping[str, TopicId],
    ) -> None:
        """Asks what is left; raises the first error once all have answered."""
        by_leader: dict[str, list[offsets_pb2.ListOffsetsPartition]] = {}
        for partition, timestamp_ms in left.items():
            address, item = await self._item(partition, timestamp_ms, deadline, pinned)
            by_leader.setdefault(address, []).append(item)
        outcomes = await asyncio.gather(
            *(self._ask_one(address, items) for address, items in by_leader.items()),
            return_exceptions=True,
        )
        error: BaseException | None = None
        for outcome, items in zip(outcomes, by_leader.values(), strict=True):
            if isinstance(outcome, BaseException):
                error = error or outcome
                for item in items:
                    self._cluster.view.mark_stale(item.topic)
                continue
            for answer in outcome.partitions:
                error = self._take(answer, left, found) or error
        if error is not None:
            raise error

    def _take(
        self,
        answer: offsets_pb2.PartitionOffset,
        left: dict[TopicPartition, int],
        found: Found,
    ) -> TidelogError | None:
        if answer.HasField("error"):
            error = error_of(answer.error)
            if error.refresh_metadata:
                self._cluster.view.mark_stale(answer.topic)
            return error
        partition = TopicPartition(answer.topic, answer.partition)
        left.pop(partition, None)
        found[partition] = (
            OffsetAndTimestamp(answer.offset, answer.timestamp_ms, answer.leader_epoch)
            if answer.offset >= 0
            else None
        )
        return None

    async def _item(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        deadline: float,
        pinned: Mapping[str, TopicId],
    ) -> tuple[str, offsets_pb2.ListOffsetsPartition]:
        topic = await self._cluster.topic(
            partition.topic, deadline=deadline, partition=partition.partition
        )
        if pinned.get(topic.name, topic.topic_id) != topic.topic_id:
            raise recreated(topic.name)
        leader = self._cluster.leader(topic, partition.partition)
        if leader.address is None:
            self._cluster.view.mark_stale(topic.name)
            raise LeaderNotAvailable(f"{partition} has no leader at this moment")
        item = offsets_pb2.ListOffsetsPartition(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=partition.partition,
            leader_epoch=leader.epoch,
            timestamp_ms=timestamp_ms,
        )
        return leader.address, item

    async def _ask_one(
        self, address: str, items: list[offsets_pb2.ListOffsetsPartition]
    ) -> offsets_pb2.ListOffsetsResponse:
        connection = await self._cluster.connections.get(address)
        request = offsets_pb2.ListOffsetsRequest(
            isolation_level=self._isolation_level, partitions=items
        )
        return await connection.ask(
            connection.broker.ListOffsets, request, self._cluster.request_timeout_s
        )
