"""Produce streams over real gRPC: how they end behind a wrong request, and what idle ones hold."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import grpc
import pytest
from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import partition_batch, produce_request
from harness.nodes import LiveNode, on_node
from support.eventually import eventually_async
from tidelog.wire.envelopes import Incoming
from tidelog.wire.v1 import produce_pb2
from tidelog_broker.api.request_limits import REQUEST_ITEMS_MAX

#: Streams that are tried: whether an answer is on its way when the fault is found is luck.
STREAMS = 60
#: Only a stream that is never ended comes to this.
LIMIT_S = 20.0
LARGE_BYTES = 1_000_000


async def exchange(call: Any, *requests: produce_pb2.ProduceRequest) -> None:
    """Sends them one right behind the other, and reads to the end."""
    for request in requests:
        await call.write(request)
    while await call.read() is not grpc.aio.EOF:
        pass


@on_node()
async def test_a_wrong_request_right_behind_a_good_one_is_refused_in_words(node: LiveNode) -> None:
    await node.client.create("orders")
    good = produce_request(partition_batch("orders", batch(b"x")))
    wrong = produce_pb2.ProduceRequest()
    for _ in range(REQUEST_ITEMS_MAX + 1):
        wrong.partitions.add(partition=1)
    for _ in range(STREAMS):
        call = node.client.broker.ProduceStream(timeout=LIMIT_S)
        with pytest.raises(AioRpcError) as refusal:
            await exchange(call, good, wrong)
        assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT, refusal.value
        assert "Ask for fewer things at once" in (refusal.value.details() or "")


def large_requests() -> int:
    """How many there are in this process, which is the node's."""
    gc.collect()
    kept = [one for one in gc.get_objects() if isinstance(one, Incoming)]
    return len([one for one in kept if len(one.content) > LARGE_BYTES])


@on_node()
async def test_idle_streams_hold_no_requests(node: LiveNode) -> None:
    await node.client.create("orders", configs={"max.message.bytes": str(4 * LARGE_BYTES)})
    large = produce_request(partition_batch("orders", batch(b"x" * 2 * LARGE_BYTES)))
    streams = [node.client.produce_stream() for _ in range(3)]
    for stream in streams:
        await stream.send(large)
        assert not (await stream.answer()).partitions[0].HasField("error")

    async def holds_none() -> bool:
        return large_requests() == 0

    await eventually_async(holds_none, 10, waiting_for="the last requests to be let go")
    await asyncio.gather(*(stream.finish() for stream in streams))
