"""Finds the record of a time inside the batch that a broker has named.

Brokers never look inside a batch, so a lookup by time ends at the batch; here it goes on to the
record. `OffsetQuestions` comes here with what brokers answered. Invariant: no record before the
found one, from the named batch on, is as late as what was asked for.
"""

from __future__ import annotations

from tidelog.engine.cluster import Cluster
from tidelog.engine.cluster_view import TopicView
from tidelog.engine.wire_errors import error_of
from tidelog.errors import CorruptMessage
from tidelog.model import TopicPartition
from tidelog.records.batch import read_header
from tidelog.records.decoder import decode_batch
from tidelog.records.record import Record
from tidelog.wire.v1 import fetch_pb2


async def first_at_or_after(
    cluster: Cluster, topic: TopicView, partition: TopicPartition, offset: int, timestamp_ms: int
) -> Record | None:
    """The first record from an offset on that is as late as a time; None where none is.

    Raises `CorruptMessage` where a batch on the way can't be read.
    """
    while True:
        batch = await _batch_at(cluster, topic, partition, offset)
        if not batch:
            return None
        header = read_header(batch)
        if header.max_timestamp >= timestamp_ms:
            for record in decode_batch(batch, topic.name, partition.partition, start_offset=offset):
                if record.timestamp >= timestamp_ms:
                    return record
        offset = header.next_offset


async def _batch_at(
    cluster: Cluster, topic: TopicView, partition: TopicPartition, offset: int
) -> bytes:
    """The batch that holds an offset, perhaps with some behind it; nothing at the end."""
    leader = cluster.leader(topic, partition.partition)
    request = fetch_pb2.FetchRequest()
    request.partitions.add(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=partition.partition,
        fetch_offset=offset,
        leader_epoch=leader.epoch,
        max_bytes=1,
    )
    assert leader.address is not None
    connection = await cluster.connections.get(leader.address)
    answer = await connection.ask(connection.broker.Fetch, request, cluster.request_timeout_s)
    (found,) = answer.partitions
    if found.HasField("error"):
        error = error_of(found.error)
        if error.refresh_metadata:
            cluster.view.mark_stale(topic.name)
        raise error
    return found.records


async def exact(
    cluster: Cluster, topic: TopicView, partition: TopicPartition, offset: int, timestamp_ms: int
) -> tuple[int, int, int] | None:
    """Offset, timestamp and leader epoch of that record; of its batch where that is unreadable."""
    try:
        record = await first_at_or_after(cluster, topic, partition, offset, timestamp_ms)
    except CorruptMessage:
        return offset, timestamp_ms, -1
    return None if record is None else (record.offset, record.timestamp, record.leader_epoch)
