"""DeleteRecords: moves the start of a log up; what lies below is gone for every reader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tidelog.errors import OffsetOutOfRange, StorageError, TidelogError
from tidelog.model import TopicId
from tidelog.wire.v1 import admin_pb2
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker
    from tidelog_broker.partition.partition import Partition
    from tidelog_broker.storage.log import Log


#: So many partitions share a sync of the journal; then other callers have their turn, since each
#: also costs the file system some milliseconds.
PARTITIONS_A_SYNC: Final = 16

Item = tuple[admin_pb2.DeleteRecordsPartition, admin_pb2.DeletedRecords]


def _wanted_start(partition: Partition, before_offset: int) -> int:
    """Where the log is to start."""
    partition.core.check_leader(None)
    high_watermark = partition.core.high_watermark
    offset = high_watermark if before_offset == -1 else before_offset
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange(
            f"Records of {partition.core.name} can't be deleted up to {before_offset}: its high"
            f" watermark is {high_watermark}",
            hint="Give an offset up to the high watermark, or 'latest' (-1 on the wire) for all",
        )
    if partition.log.fault is not None:
        raise StorageError(
            f"{partition.core.name} is faulty and is not changed: {partition.log.fault}"
        )
    return offset


def _delete(broker: Broker, caller: Caller, items: Iterable[Item]) -> None:
    """Deletes in some partitions and fills their answers: found, announced, then moved."""
    now_ms = broker.clock.now_ms()
    found: list[tuple[Partition, int, admin_pb2.DeletedRecords]] = []
    starts: dict[Log, int] = {}
    for item, answer in items:
        try:
            partition = broker.replicas.find(
                item.topic, TopicId(item.topic_id), item.partition, caller.principal
            )
            start = _wanted_start(partition, item.before_offset)
        except TidelogError as error:
            answer.error.CopyFrom(to_wire(error))
            continue
        found.append((partition, start, answer))
        if start > partition.log.log_start:
            # Named twice, it moves to the higher one.
            starts[partition.log] = max(start, starts.get(partition.log, start))
    try:
        broker.directory.announce_starts(starts.items())
    except StorageError as error:
        for _, _, answer in found:
            answer.error.CopyFrom(to_wire(error))
        return
    for partition, start, answer in found:
        try:
            partition.log.advance_log_start(start, now_ms=now_ms, is_announced=True)
            answer.low_watermark = partition.log.log_start
        except TidelogError as error:
            answer.error.CopyFrom(to_wire(error))
            if partition.log.fault is not None:
                partition.fail_for_disk(str(error.cause or error), "cut")


async def delete_records(
    broker: Broker, caller: Caller, request: admin_pb2.DeleteRecordsRequest
) -> admin_pb2.DeleteRecordsResponse:
    """One answer a partition, in the order of the request."""
    response = admin_pb2.DeleteRecordsResponse()
    items: list[Item] = []
    for item in request.partitions:
        answer = response.partitions.add(
            topic=item.topic, topic_id=item.topic_id, partition=item.partition, low_watermark=-1
        )
        items.append((item, answer))
    for first in range(0, len(items), PARTITIONS_A_SYNC):
        _delete(broker, caller, items[first : first + PARTITIONS_A_SYNC])
        await asyncio.sleep(0)
    return response
