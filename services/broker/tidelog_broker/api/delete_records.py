"""DeleteRecords: moves the start of a log up; what lies below is gone for every reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import OffsetOutOfRange, TidelogError
from tidelog.model import TopicId
from tidelog.wire.v1 import admin_pb2
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker
    from tidelog_broker.partition.partition import Partition


def _delete_below(partition: Partition, before_offset: int, now_ms: int) -> int:
    """Deletes; the first offset that is left."""
    partition.core.check_leader(None)
    high_watermark = partition.core.high_watermark
    offset = high_watermark if before_offset == -1 else before_offset
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange(
            f"Records of {partition.core.name} can't be deleted up to {before_offset}: its high"
            f" watermark is {high_watermark}",
            hint="Give an offset up to the high watermark, or -1 for it",
        )
    if offset > partition.log.log_start:
        partition.log.advance_log_start(offset, now_ms=now_ms)
    return partition.log.log_start


async def delete_records(
    broker: Broker, caller: Caller, request: admin_pb2.DeleteRecordsRequest
) -> admin_pb2.DeleteRecordsResponse:
    """One answer a partition, in the order of the request."""
    response = admin_pb2.DeleteRecordsResponse()
    for item in request.partitions:
        answer = response.partitions.add(
            topic=item.topic, topic_id=item.topic_id, partition=item.partition, low_watermark=-1
        )
        try:
            partition = broker.replicas.find(
                item.topic, TopicId(item.topic_id), item.partition, caller.principal
            )
            answer.low_watermark = _delete_below(
                partition, item.before_offset, broker.clock.now_ms()
            )
        except TidelogError as error:
            answer.error.CopyFrom(to_wire(error))
    return response
