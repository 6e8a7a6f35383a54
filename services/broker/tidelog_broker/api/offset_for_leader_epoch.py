"""OffsetForLeaderEpoch: where an epoch ends, so that a reader finds out that its log was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import TidelogError
from tidelog.model import TopicId
from tidelog.wire.v1 import offsets_pb2
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker


async def offset_for_leader_epoch(
    broker: Broker, caller: Caller, request: offsets_pb2.OffsetForLeaderEpochRequest
) -> offsets_pb2.OffsetForLeaderEpochResponse:
    """One answer a partition, in the order of the request."""
    response = offsets_pb2.OffsetForLeaderEpochResponse()
    for item in request.partitions:
        answer = response.partitions.add(
            topic=item.topic, topic_id=item.topic_id, partition=item.partition
        )
        try:
            partition = broker.replicas.find(
                item.topic, TopicId(item.topic_id), item.partition, caller.principal
            )
            partition.core.check_leader(
                item.current_leader_epoch if item.HasField("current_leader_epoch") else None
            )
            answer.leader_epoch, answer.end_offset = partition.end_of_epoch(item.leader_epoch)
        except TidelogError as error:
            answer.error.CopyFrom(to_wire(error))
    return response
