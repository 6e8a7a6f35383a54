"""Messages put together and taken apart by hand are those of the schema, byte for byte."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from google.protobuf.message import DecodeError

from tidelog.wire.envelopes import (
    FETCHED,
    ITEM_FIELDS_MAX,
    LARGE_ITEM_BYTES,
    PRODUCE,
    Outgoing,
    varint,
)
from tidelog.wire.v1 import common_pb2, fetch_pb2, produce_pb2

if TYPE_CHECKING:
    from typing_extensions import Buffer

TOPIC_ID = bytes(range(16))
SIZES = [0, 1, 127, 128, LARGE_ITEM_BYTES - 1, LARGE_ITEM_BYTES, 3_000_000]


def item(partition: int, leader_epoch: int | None) -> produce_pb2.PartitionBatch:
    return produce_pb2.PartitionBatch(
        topic_id=TOPIC_ID, partition=partition, leader_epoch=leader_epoch
    )


@pytest.mark.parametrize("size", SIZES)
def test_what_goes_out_is_what_generated_code_writes(size: int) -> None:
    head = produce_pb2.ProduceRequest(acks=common_pb2.ACKS_ALL, timeout_ms=24_000)
    request = Outgoing(PRODUCE, head)
    head.correlation_id = 300
    expected = produce_pb2.ProduceRequest()
    expected.CopyFrom(head)
    for partition, leader_epoch in ((0, 7), (1, None), (200, 0)):
        batch = bytes([partition]) * size
        pieces: list[Buffer] = [batch[:1], memoryview(batch)[1:]]
        request.add(item(partition, leader_epoch), pieces, size)
        expected.partitions.append(item(partition, leader_epoch))
        expected.partitions[-1].batch = batch
    assert request.count == 3
    assert request.to_bytes() == expected.SerializeToString()


@pytest.mark.parametrize("size", SIZES)
def test_what_comes_in_is_what_generated_code_reads(size: int) -> None:
    response = fetch_pb2.FetchStreamResponse(throttle_ms=5)
    for session, records in ((1, b"a" * size), (70_000, b""), (3, b"c" * 5)):
        response.partitions.add(session=session, high_watermark=2**40, records=records)
    response.partitions.add(session=9).error.code = common_pb2.OFFSET_OUT_OF_RANGE
    message, payloads, content, begins = FETCHED.split(response.SerializeToString())
    assert [bytes(payload) for payload in payloads] == [b"a" * size, b"", b"c" * 5, b""]
    for begin, payload in zip(begins, payloads, strict=bool(begins)):
        assert content[begin : begin + len(payload)] == payload
    assert begins or size < LARGE_ITEM_BYTES
    for got in (message, response):
        for answer in got.partitions:
            answer.ClearField("records")
    assert message == response


def test_fields_may_stand_in_any_order() -> None:
    payload = b"\x7a" + varint(LARGE_ITEM_BYTES) + b"p" * LARGE_ITEM_BYTES
    inside = payload + produce_pb2.PartitionBatch(partition=7).SerializeToString()
    content = b"\x2a" + varint(len(inside)) + inside + b"\x08\x05"
    message, payloads, *_ = PRODUCE.split(content)
    assert (message.correlation_id, message.partitions[0].partition) == (5, 7)
    assert [bytes(found) for found in payloads] == [b"p" * LARGE_ITEM_BYTES]


LARGE_FIELD = b"\x7a" + varint(LARGE_ITEM_BYTES) + b"p" * LARGE_ITEM_BYTES
#: Two bytes that say something that is overwritten by the next.
PARTITION, CORRELATION_ID = b"\x18\x07", b"\x08\x05"


@pytest.mark.parametrize(
    ("inside", "behind"),
    [
        (PARTITION * 300_000, b""),
        (LARGE_FIELD * 2 + b"\x7a\x00" * 300_000, b""),
        (b"", CORRELATION_ID * 300_000),
    ],
    ids=["fields of an item", "payloads of an item", "fields of the message"],
)
def test_fields_without_number_are_left_to_generated_code(inside: bytes, behind: bytes) -> None:
    """A view of each would take a hundred times what was sent."""
    inside = PARTITION + LARGE_FIELD + inside
    content = CORRELATION_ID + b"\x2a" + varint(len(inside)) + inside + behind
    tracemalloc.start()
    try:
        message, payloads, _, begins = PRODUCE.split(content)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not begins
    assert most_bytes < 8_000_000
    expected = produce_pb2.ProduceRequest.FromString(content)
    assert [bytes(found) for found in payloads] == [expected.partitions[0].batch]
    assert (message.correlation_id, message.partitions[0].partition) == (5, 7)


@pytest.mark.parametrize("over", [0, 1])
def test_an_item_of_some_fields_more_is_split_too(over: int) -> None:
    inside = LARGE_FIELD + PARTITION * (ITEM_FIELDS_MAX - 1 + over)
    found = PRODUCE.split(b"\x2a" + varint(len(inside)) + inside)
    assert len(found.begins) == 1 - over
    assert found.message.partitions[0].partition == 7


def test_what_is_no_message_is_refused_as_by_generated_code() -> None:
    whole = produce_pb2.ProduceRequest(timeout_ms=5)
    whole.partitions.add(topic="t", batch=bytes(LARGE_ITEM_BYTES))
    content = whole.SerializeToString()
    broken = [
        content[:-1],
        content + b"\x2a",
        content + b"\x2a\x05",
        content + b"\x80" * 11,
        content + b"\x0b",
        content + b"\x00\x01",
        b"\xff" * len(content),
    ]
    for what in broken:
        with pytest.raises(DecodeError):
            PRODUCE.split(what)
        with pytest.raises(DecodeError):
            produce_pb2.ProduceRequest.FromString(what)


def test_lengths_are_written_as_protobuf_does() -> None:
    for number, encoded in ((0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2")):
        assert varint(number) == encoded
