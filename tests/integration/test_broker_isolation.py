"""A level of isolation that nobody knows is refused by all who read, and is not read as another."""

from __future__ import annotations

from typing import cast

import pytest
from grpc.aio import AioRpcError

from harness.client import error_of
from harness.nodes import LiveNode, on_node
from tidelog.wire.v1 import common_pb2, fetch_pb2, offsets_pb2


def level(number: int) -> common_pb2.IsolationLevel.ValueType:
    """A number on the wire, as a program of another time may send it."""
    return cast("common_pb2.IsolationLevel.ValueType", number)


@on_node()
async def test_levels_that_nobody_knows_are_refused(node: LiveNode) -> None:
    broker = node.client.broker
    for number in (7, -3):
        options = fetch_pb2.FetchOptions(isolation_level=level(number))
        with pytest.raises(AioRpcError) as refused:
            await broker.Fetch(fetch_pb2.FetchRequest(options=options))
        assert f"isolation_level={number} is none" in error_of(refused.value).message
        with pytest.raises(AioRpcError) as refused:
            await broker.ListOffsets(offsets_pb2.ListOffsetsRequest(isolation_level=level(number)))
        assert error_of(refused.value).code == common_pb2.INVALID_REQUEST
        stream = node.client.fetch_stream()
        await stream.call.write(fetch_pb2.FetchStreamRequest(options=options, credit_bytes=1))
        answer = await stream.answer()
        assert answer.error.code == common_pb2.INVALID_REQUEST
        assert "READ_COMMITTED (1)" in answer.error.hint


@on_node()
async def test_both_levels_read_the_same_without_transactions(node: LiveNode) -> None:
    for number in common_pb2.IsolationLevel.values():
        options = fetch_pb2.FetchOptions(isolation_level=number)
        await node.client.broker.Fetch(fetch_pb2.FetchRequest(options=options))
        await node.client.broker.ListOffsets(offsets_pb2.ListOffsetsRequest(isolation_level=number))
