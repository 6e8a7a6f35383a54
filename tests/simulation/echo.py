"""A small service of all four kinds of call, in the shape that protoc generates.

The contract of the transport is tested with it on both transports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import StringValue

from tidelog.channel import ChannelFactory
from tidelog_runtime.principal import ANONYMOUS
from tidelog_runtime.serving import Listener, RunningServer, Serving

SERVICE = "tidelog.test.Echo"
KINDS = {
    "Unary": "unary_unary",
    "Down": "unary_stream",
    "Up": "stream_unary",
    "Both": "stream_stream",
}


class EchoStub:
    """As generated: one callable a method."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        for name, kind in KINDS.items():
            callable_ = getattr(channel, kind)(
                f"/{SERVICE}/{name}",
                request_serializer=StringValue.SerializeToString,
                response_deserializer=StringValue.FromString,
                _registered_method=True,
            )
            setattr(self, name, callable_)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class EchoServicer:
    """Answers what it is asked; tests override what they need."""

    async def Unary(self, request: StringValue, context: Any) -> StringValue:
        """One for one."""
        return request

    async def Down(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:
        """As many as the number in the request says."""
        for number in range(int(request.value)):
            yield StringValue(value=str(number))

    async def Up(self, requests: AsyncIterator[StringValue], context: Any) -> StringValue:
        """All requests in one."""
        return StringValue(value=",".join([request.value async for request in requests]))

    async def Both(
        self, requests: AsyncIterator[StringValue], context: Any
    ) -> AsyncIterator[StringValue]:
        """One for each, as they come."""
        async for request in requests:
            yield request


def add_EchoServicer_to_server(servicer: Any, server: grpc.aio.Server) -> None:
    """As generated: registers the handlers both ways."""
    handlers = {
        name: getattr(grpc, f"{kind}_rpc_method_handler")(
            getattr(servicer, name),
            request_deserializer=StringValue.FromString,
            response_serializer=StringValue.SerializeToString,
        )
        for name, kind in KINDS.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_registered_method_handlers(SERVICE, handlers)


class Waiting(EchoServicer):
    """Never answers by itself; tells how its handlers began and ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.cancelled = False
        self.remaining: float | None = -1.0

    async def _wait(self, context: Any) -> None:
        self.remaining = context.time_remaining()
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.ended.set()

    async def Unary(self, request: StringValue, context: Any) -> StringValue:
        await self._wait(context)
        return request

    async def Down(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:
        yield say("first")
        await self._wait(context)

    async def Both(
        self, requests: AsyncIterator[StringValue], context: Any
    ) -> AsyncIterator[StringValue]:
        yield say("first")
        await self._wait(context)


class Served:
    """A listener with one servicer, and a stub that talks to it."""

    stub: Any
    channel: grpc.aio.Channel
    running: RunningServer
    address: str

    def __init__(self, serving: Serving, channel_factory: ChannelFactory, servicer: Any) -> None:
        self._serving = serving
        self._channel_factory = channel_factory
        self._servicer = servicer

    async def __aenter__(self) -> Served:
        self.running = await self.serve(self._servicer, port=0)
        self.address = f"127.0.0.1:{self.running.port}"
        self.channel = self._channel_factory(self.address)
        self.stub = EchoStub(self.channel)
        return self

    async def serve(self, servicer: Any, *, port: int) -> RunningServer:
        """Open a listener."""
        return await self._serving(
            Listener("test", "127.0.0.1", port, ANONYMOUS, "port"),
            lambda server: add_EchoServicer_to_server(servicer, server),
            (SERVICE,),
        )

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self.running.stop(0)


def say(text: str) -> StringValue:
    """A message."""
    return StringValue(value=text)


async def many(count: int, text: str = "") -> AsyncIterator[StringValue]:
    """An iterator of requests, as a stub takes it."""
    for number in range(count):
        yield say(text or str(number))
