"""Deletes records below offsets: each leader is asked for its own partitions.

`AsyncAdmin.delete_records` comes here. To delete below an offset twice is to delete once, so what
failed for a passing reason is repeated until the deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.engine.cluster import Cluster
from tidelog.engine.partition_names import partition_named
from tidelog.engine.places import LARGEST
from tidelog.engine.wire_errors import error_of
from tidelog.errors import InvalidRequest, LeaderNotAvailable, TidelogError
from tidelog.model import TopicPartition
from tidelog.wire.v1 import admin_pb2

HIGH_WATERMARK = -1


def offsets_before(before: Any) -> dict[TopicPartition, int]:
    """The offset below which the records of each partition go."""
    if not isinstance(before, Mapping):
        raise InvalidRequest(
            f"{before!r:.80} does not say up to where records are to be deleted",
            hint="Give {TopicPartition('orders', 0): 42}; 'latest' instead of 42 deletes all",
        )
    return {partition_named(name): before_offset(name, at) for name, at in before.items()}


def before_offset(partition: TopicPartition, before: Any) -> int:
    """The offset below which records go; "latest" (also "end") is the high watermark."""
    if isinstance(before, str) and before in {"latest", "end"}:
        return HIGH_WATERMARK
    is_whole = isinstance(before, int) and not isinstance(before, bool)
    if not is_whole or not 0 <= before <= LARGEST:
        raise InvalidRequest(
            f"Records of {partition} can't be deleted before {before!r:.80}",
            hint="Give an offset, or 'latest' for all there are now",
        )
    return int(before)


class RecordDeletion:
    """One call's work; `low_watermarks` fills as leaders answer."""

    def __init__(self, cluster: Cluster, before: Mapping[TopicPartition, int | str]) -> None:
        self._cluster = cluster
        self._left = offsets_before(before)
        self.low_watermarks: dict[TopicPartition, int] = {}

    async def run(self, deadline: float) -> dict[TopicPartition, int]:
        """The first offset that is left in each partition."""

        async def attempt() -> dict[TopicPartition, int]:
            await self._ask_leaders(deadline)
            return self.low_watermarks

        return await self._cluster.retrying(attempt, deadline)

    async def _ask_leaders(self, deadline: float) -> None:
        by_leader: dict[str, admin_pb2.DeleteRecordsRequest] = {}
        for partition, offset in self._left.items():
            topic = await self._cluster.topic(partition.topic, deadline=deadline)
            leader = self._cluster.leader(topic, partition.partition)
            if leader.address is None:
                self._cluster.view.mark_stale(topic.name)
                raise LeaderNotAvailable(f"{partition} has no leader at this moment")
            request = by_leader.setdefault(leader.address, admin_pb2.DeleteRecordsRequest())
            request.partitions.add(
                topic=topic.name,
                topic_id=topic.topic_id,
                partition=partition.partition,
                before_offset=offset,
            )
        error: TidelogError | None = None
        for address, request in by_leader.items():
            error = await self._ask(address, request) or error
        if error is not None:
            raise error

    async def _ask(
        self, address: str, request: admin_pb2.DeleteRecordsRequest
    ) -> TidelogError | None:
        view = self._cluster.view
        try:
            connection = await self._cluster.connections.get(address)
            answer = await connection.ask(
                connection.admin.DeleteRecords, request, self._cluster.request_timeout_s
            )
        except TidelogError as failure:
            for item in request.partitions:
                view.mark_stale(item.topic)
            return failure
        error: TidelogError | None = None
        for deleted in answer.partitions:
            partition = TopicPartition(deleted.topic, deleted.partition)
            if deleted.HasField("error"):
                error = error_of(deleted.error)
                if error.refresh_metadata:
                    view.mark_stale(deleted.topic)
            else:
                self._left.pop(partition, None)
                self.low_watermarks[partition] = deleted.low_watermark
        return error
