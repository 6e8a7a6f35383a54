"""What of a request is looked at before it is read: its size, and how many things it holds."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidRequest
from tidelog.wire.envelopes import has_more_fields
from tidelog.wire.v1 import metadata_pb2, produce_pb2
from tidelog_broker.api.request_limits import (
    PLAIN_REQUEST_BYTES_MAX,
    REQUEST_ITEMS_MAX,
    RequestLimit,
)

PRODUCE = RequestLimit(carries_batches=True)
METADATA = RequestLimit()


def test_as_many_items_as_are_allowed_and_one_more() -> None:
    request = produce_pb2.ProduceRequest()
    for _ in range(REQUEST_ITEMS_MAX):
        request.partitions.add(partition=1)
    PRODUCE.check(request.SerializeToString())
    request.partitions.add()
    with pytest.raises(InvalidRequest, match="more than 100000 items"):
        PRODUCE.check(request.SerializeToString())


def test_items_of_several_lists_count_together() -> None:
    request = metadata_pb2.MetadataRequest(topics=["a"] * 60_000, topic_ids=[b"b"] * 50_000)
    with pytest.raises(InvalidRequest, match="more than 100000 items"):
        METADATA.check(request.SerializeToString())


def test_what_lies_in_a_batch_does_not_count() -> None:
    request = produce_pb2.ProduceRequest()
    empty = produce_pb2.ProduceRequest()
    empty.partitions.add()
    content = empty.SerializeToString() * REQUEST_ITEMS_MAX * 2
    request.partitions.add(batch=content)
    PRODUCE.check(request.SerializeToString())
    with pytest.raises(InvalidRequest):
        PRODUCE.check(content)


def test_only_requests_with_batches_may_be_large() -> None:
    content = metadata_pb2.MetadataRequest(topics=["x" * PLAIN_REQUEST_BYTES_MAX])
    with pytest.raises(InvalidRequest, match="carries no batches"):
        METADATA.check(content.SerializeToString())
    PRODUCE.check(content.SerializeToString())


@pytest.mark.parametrize("fault", [b"", b"\x0a", b"\x0a\x85", b"\x0f\x00", b"\xff" * 11])
def test_what_is_no_message_has_as_many_fields_as_stand_before_its_fault(fault: bytes) -> None:
    fields = b"\x0a\x00" + b"\x12\x80\x01" + bytes(128) + b"\x82\x01\x00"
    assert has_more_fields(fields + fault, 2)
    assert not has_more_fields(fields + fault, 3)
