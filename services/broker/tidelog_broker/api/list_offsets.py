"""ListOffsets: where a log begins, ends, and what was first written at or after a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import InvalidRequest, TidelogError
from tidelog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TopicId
from tidelog.wire.v1 import offsets_pb2
from tidelog_broker.api.isolation import check_isolation
from tidelog_broker.partition.partition import Partition
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker


def fill_offset(
    answer: offsets_pb2.PartitionOffset, partition: Partition, timestamp_ms: int
) -> None:
    """Answers for one partition; nothing at or above the high watermark is told."""
    answer.offset = answer.timestamp_ms = answer.leader_epoch = -1
    log = partition.log
    if timestamp_ms == LATEST_TIMESTAMP:
        answer.offset = partition.core.high_watermark
        answer.leader_epoch = partition.core.leader_epoch
        return
    if timestamp_ms == EARLIEST_TIMESTAMP:
        answer.offset = log.log_start
        return
    if timestamp_ms < MAX_TIMESTAMP:
        raise InvalidRequest(
            f"Timestamp {timestamp_ms} is neither a time in milliseconds nor one of"
            " -1 (latest), -2 (earliest), -3 (largest timestamp)"
        )
    found = (
        log.max_timestamp(partition.core.high_watermark)
        if timestamp_ms == MAX_TIMESTAMP
        else log.offset_for_timestamp(timestamp_ms)
    )
    if found is not None and found.offset < partition.core.high_watermark:
        answer.offset = found.offset
        answer.timestamp_ms = found.timestamp
        answer.leader_epoch = found.leader_epoch


async def list_offsets(
    broker: Broker, caller: Caller, request: offsets_pb2.ListOffsetsRequest
) -> offsets_pb2.ListOffsetsResponse:
    """One answer a partition, in the order of the request."""
    check_isolation(request.isolation_level)
    response = offsets_pb2.ListOffsetsResponse()
    for item in request.partitions:
        answer = response.partitions.add(
            topic=item.topic, topic_id=item.topic_id, partition=item.partition
        )
        try:
            partition = broker.replicas.find(
                item.topic, TopicId(item.topic_id), item.partition, caller.principal
            )
            partition.core.check_leader(
                item.leader_epoch if item.HasField("leader_epoch") else None
            )
            fill_offset(answer, partition, item.timestamp_ms)
        except TidelogError as error:
            answer.error.CopyFrom(to_wire(error))
    return response
