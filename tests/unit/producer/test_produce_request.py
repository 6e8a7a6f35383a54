"""What the producer sends is a ProduceRequest of the schema, whatever pieces it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.wire.produce_request import OutgoingProduce, varint
from tidelog.wire.v1 import common_pb2, produce_pb2

if TYPE_CHECKING:
    from typing_extensions import Buffer

TOPIC_ID = bytes(range(16))


def item(partition: int, leader_epoch: int | None) -> produce_pb2.PartitionBatch:
    return produce_pb2.PartitionBatch(
        topic_id=TOPIC_ID, partition=partition, leader_epoch=leader_epoch
    )


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_the_bytes_are_those_of_the_generated_code(size: int) -> None:
    head = produce_pb2.ProduceRequest(acks=common_pb2.ACKS_ALL, timeout_ms=24_000)
    request = OutgoingProduce(head)
    head.correlation_id = 300
    expected = produce_pb2.ProduceRequest(
        correlation_id=300, acks=common_pb2.ACKS_ALL, timeout_ms=24_000
    )
    for partition, leader_epoch in ((0, 7), (1, None), (200, 0)):
        batch = bytes([partition]) * size
        pieces: list[Buffer] = [batch[:1], memoryview(batch)[1:]]
        request.add(item(partition, leader_epoch), pieces, size)
        expected.partitions.append(item(partition, leader_epoch))
        expected.partitions[-1].batch = batch
    sent = request.to_bytes()
    assert produce_pb2.ProduceRequest.FromString(sent) == expected
    if size:
        assert sent == expected.SerializeToString()


def test_lengths_are_written_as_protobuf_does() -> None:
    for number, encoded in ((0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2")):
        assert varint(number) == encoded
