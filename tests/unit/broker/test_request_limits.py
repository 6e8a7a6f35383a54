"""How many things a request may hold, and how large it may be: found out before that costs much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from tidelog.errors import InvalidRequest
from tidelog.wire.envelopes import PRODUCE, has_more_fields
from tidelog.wire.v1 import metadata_pb2, produce_pb2
from tidelog_broker.api.request_limits import (
    PLAIN_REQUEST_BYTES_MAX,
    REQUEST_ITEMS_MAX,
    RequestLimit,
    items_of,
)

UNARY = RequestLimit(carries_batches=True).guard(produce_pb2.ProduceRequest.FromString)
STREAM = RequestLimit(carries_batches=True).guard(PRODUCE.split)
METADATA = RequestLimit().guard(metadata_pb2.MetadataRequest.FromString)


def produce_request(items: int, first_batch: bytes = b"") -> bytes:
    """The bytes of a request of so many items."""
    request = produce_pb2.ProduceRequest(correlation_id=7)
    request.partitions.add(batch=first_batch)
    one = produce_pb2.ProduceRequest(partitions=[produce_pb2.PartitionBatch()])
    return request.SerializeToString() + one.SerializeToString() * (items - 1)


@pytest.mark.parametrize("first_bytes", [0, 20_000, PLAIN_REQUEST_BYTES_MAX])
@pytest.mark.parametrize("read", [UNARY, STREAM])
def test_as_many_items_as_are_allowed_and_one_more(
    read: Callable[[bytes], Any], first_bytes: int
) -> None:
    first_batch = bytes(first_bytes)
    assert items_of(read(produce_request(REQUEST_ITEMS_MAX - 1, first_batch))) == 99_999
    with pytest.raises(InvalidRequest, match="more than 100000 items"):
        read(produce_request(REQUEST_ITEMS_MAX + 1, first_batch))


def test_a_large_request_of_too_many_items_is_not_read() -> None:
    read = RequestLimit(carries_batches=True).guard(lambda content: pytest.fail("it is read"))
    with pytest.raises(InvalidRequest, match="more than 100000 items"):
        read(produce_request(REQUEST_ITEMS_MAX + 1, bytes(PLAIN_REQUEST_BYTES_MAX)))


def test_items_of_several_lists_count_together() -> None:
    request = metadata_pb2.MetadataRequest(topics=["a"] * 60_000, topic_ids=[b"b"] * 50_000)
    with pytest.raises(InvalidRequest, match="more than 100000 items"):
        METADATA(request.SerializeToString())


def test_what_lies_in_a_batch_does_not_count() -> None:
    content = produce_request(3 * REQUEST_ITEMS_MAX)
    for read in (UNARY, STREAM):
        assert items_of(read(produce_request(1, content))) == 1


def test_only_requests_with_batches_may_be_large() -> None:
    content = metadata_pb2.MetadataRequest(topics=["x" * PLAIN_REQUEST_BYTES_MAX])
    with pytest.raises(InvalidRequest, match="carries no batches"):
        METADATA(content.SerializeToString())
    assert items_of(UNARY(produce_request(1, bytes(PLAIN_REQUEST_BYTES_MAX)))) == 1


FIELDS = b"\x0a\x00" + b"\x12\x80\x01" + bytes(128) + b"\x82\x01\x00"
ITEM = b"\x2a\x00"
#: Fields that end behind the message, one of no known type, groups, a number that is too long.
FAULTS = [
    b"\x0a",
    b"\x0a\x85",
    b"\x0a\x05",
    b"\x0f\x00",
    b"\xa3\x06\xa4\x06",
    b"\x0c",
    b"\xff" * 11,
]


def test_fields_are_counted_to_the_end() -> None:
    assert has_more_fields(FIELDS, 2)
    assert not has_more_fields(FIELDS, 3)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_counted_has_neither_few_fields_nor_many(fault: bytes) -> None:
    assert has_more_fields(FIELDS + fault, 2)
    with pytest.raises(DecodeError):
        has_more_fields(FIELDS + fault, 4)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_large_request_that_cannot_be_counted_is_not_read(fault: bytes) -> None:
    """Behind a group, millions of items would be read that nobody had counted."""
    read = RequestLimit(carries_batches=True).guard(lambda content: pytest.fail("it is read"))
    large = produce_request(1, bytes(PLAIN_REQUEST_BYTES_MAX))
    with pytest.raises(InvalidRequest, match="is no message of this protocol"):
        read(large + fault)
    if fault == b"\xa3\x06\xa4\x06":
        with pytest.raises(InvalidRequest, match="is no message of this protocol"):
            read(large + fault + ITEM * (REQUEST_ITEMS_MAX + 1))
