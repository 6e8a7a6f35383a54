"""A listener that serves as many calls as max.concurrent.rpcs allows: whom it refuses, and how."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc.aio import AioRpcError
from grpc_health.v1 import health_pb2, health_pb2_grpc

from harness.client import error_of
from harness.nodes import LiveNode, on_node
from simulation.echo import EchoServicer, Served, say
from tidelog.channel_grpc import grpc_channel_factory
from tidelog.errors import ThrottlingQuotaExceeded
from tidelog_runtime.adapters.grpc_serving import GrpcServing, ServerLimits


@pytest.fixture(autouse=True)
def _no_failure_is_kept() -> Iterator[None]:
    """A failure that was caught keeps its call, and so grpc's thread, until it is collected."""
    yield
    gc.collect()


def test_each_kind_of_call_is_refused_in_words_and_taken_when_there_is_room() -> None:
    async def run() -> None:
        serving = GrpcServing(ServerLimits(concurrent_calls_max=1))
        async with Served(serving, grpc_channel_factory(), EchoServicer()) as served:
            stub = served.stub
            holder = stub.Both()
            await holder.write(say("1"))
            assert (await holder.read()).value == "1"
            for call in (stub.Unary(say("")), stub.Up()):
                with pytest.raises(AioRpcError) as refused:
                    await call
                check(refused.value)
            for call in (stub.Down(say("3")), stub.Both()):
                with pytest.raises(AioRpcError) as refused:
                    await call.read()
                check(refused.value)
            await holder.done_writing()
            assert await holder.read() is grpc.aio.EOF
            assert (await stub.Unary(say("2"))).value == "2"

    def check(refusal: AioRpcError) -> None:
        assert refusal.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "max.concurrent.rpcs=1" in (refusal.details() or "")
        assert error_of(refusal).code == ThrottlingQuotaExceeded.code

    asyncio.run(run())


@on_node(max_concurrent_rpcs="2")
async def test_a_probe_is_answered_at_the_limit(node: LiveNode) -> None:
    streams = await node.client.fill(2)
    health: Any = health_pb2_grpc.HealthStub(node.client.channel)
    for name in ("liveness", "readiness"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    for stream in streams:
        await stream.finish()
