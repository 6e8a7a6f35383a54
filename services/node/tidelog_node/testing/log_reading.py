"""Reads what stands in a topic of a test's node, by plain calls and without the client's consumer.

`InProcessCluster.records` calls it: what it returns is the broker's word, and so a witness for
tests of producers and consumers alike. Every record below the high watermark appears once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.channel_grpc import grpc_channel_factory
from tidelog.engine.wire_errors import error_of
from tidelog.records.batch import batch_headers
from tidelog.records.decoder import decode_records
from tidelog.records.record import Record
from tidelog.wire.v1 import broker_pb2_grpc, common_pb2, fetch_pb2, metadata_pb2, offsets_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub

FETCH_BYTES: Final = 8 * 1024 * 1024
EARLIEST: Final = -2


async def read_topic(address: str, topic: str, partition: int | None) -> list[Record]:
    """All records of a topic, or of one partition of it, partition after partition."""
    channel = grpc_channel_factory()(address)
    try:
        broker: BrokerAsyncStub = broker_pb2_grpc.BrokerStub(channel)
        wanted = [partition] if partition is not None else await _partitions(broker, topic)
        records: list[Record] = []
        for number in wanted:
            await _read_partition(broker, topic, number, records)
        return records
    finally:
        await channel.close()


async def _partitions(broker: BrokerAsyncStub, topic: str) -> list[int]:
    answer = await broker.Metadata(metadata_pb2.MetadataRequest(topics=[topic]))
    (described,) = answer.topics
    _refuse(described, described.error)
    return sorted(partition.partition for partition in described.partitions)


async def _read_partition(
    broker: BrokerAsyncStub, topic: str, partition: int, records: list[Record]
) -> None:
    question = offsets_pb2.ListOffsetsPartition(
        topic=topic, partition=partition, timestamp_ms=EARLIEST
    )
    answer = await broker.ListOffsets(offsets_pb2.ListOffsetsRequest(partitions=[question]))
    _refuse(answer.partitions[0], answer.partitions[0].error)
    offset = answer.partitions[0].offset
    while True:
        wanted = fetch_pb2.FetchPartition(
            topic=topic, partition=partition, fetch_offset=offset, max_bytes=FETCH_BYTES
        )
        request = fetch_pb2.FetchRequest(
            options=fetch_pb2.FetchOptions(min_bytes=0, max_bytes=FETCH_BYTES), partitions=[wanted]
        )
        (fetched,) = (await broker.Fetch(request)).partitions
        _refuse(fetched, fetched.error)
        if not fetched.records:
            return
        records += decode_records(fetched.records, topic, partition, start_offset=offset)
        *_, last = batch_headers(fetched.records)
        offset = last.next_offset


def _refuse(answer: Message, error: common_pb2.Error) -> None:
    if answer.HasField("error"):
        raise error_of(error)
