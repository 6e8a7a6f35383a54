"""Limits that an operator sets hold: the size of a request, of an answer, and the calls at once."""

from __future__ import annotations

import grpc
import pytest
from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import partition_batch, produce_request
from harness.nodes import LiveNode, on_node
from tidelog.wire.v1 import handshake_pb2

HELLO = handshake_pb2.HandshakeRequest(protocol=handshake_pb2.VersionRange(min=1, max=1))


@on_node(socket_request_max_bytes="30000", message_max_bytes="20000")
async def test_a_request_may_be_as_large_as_is_set(node: LiveNode) -> None:
    content = batch(b"x" * 10_000)
    assert not (await node.client.produce("orders", content)).HasField("error")
    with pytest.raises(AioRpcError) as refused:
        await node.client.broker.Produce(
            produce_request(*(partition_batch("orders", content) for _ in range(3)))
        )
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await node.client.broker.Handshake(HELLO)).limits.request_bytes_max == 30_000


@on_node(fetch_max_bytes="25000")
async def test_an_answer_grows_as_large_as_is_set(node: LiveNode) -> None:
    content = batch(b"x" * 10_000)
    for _ in range(5):
        await node.client.produce("orders", content)
    answer = await node.client.fetch("orders", max_bytes=1 << 20)
    assert len(answer.records) == 2 * len(content)
    assert (await node.client.broker.Handshake(HELLO)).limits.fetch_bytes_max == 25_000


@on_node(max_concurrent_rpcs="1")
async def test_so_many_calls_are_served_at_once_as_is_set(node: LiveNode) -> None:
    (stream,) = await node.client.fill(1)
    with pytest.raises(AioRpcError) as refused:
        await node.client.broker.Handshake(HELLO)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await stream.finish()
