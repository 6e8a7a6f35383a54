"""A gRPC server that answers produce and fetch without doing anything: the ceiling to compare with.

Same schema, same messages, same generated code, same transport options and allocator tuning as
the broker; nothing is checked, written or read. `python -m bench.bare_server` prints its port.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from tidelog.wire.v1 import fetch_pb2, produce_pb2
from tidelog_runtime.adapters.grpc_serving import GrpcServing, ServerLimits
from tidelog_runtime.memory import tune_allocator
from tidelog_runtime.principal import ANONYMOUS
from tidelog_runtime.serving import Listener


class BareService:
    """The two streams of `BrokerServicer`, answered as soon as a message is there."""

    async def ProduceStream(self, request_iterator: Any, context: Any) -> None:
        async for request in request_iterator:
            response = produce_pb2.ProduceResponse(correlation_id=request.correlation_id)
            for item in request.partitions:
                response.partitions.add(topic=item.topic, partition=item.partition)
            await context.write(response)

    async def FetchStream(
        self, request_iterator: Any, context: Any
    ) -> AsyncIterator[fetch_pb2.FetchStreamResponse]:
        first = await anext(request_iterator)
        size_bytes = first.start[0].max_bytes
        records = b"x" * size_bytes
        credit_bytes = first.credit_bytes
        granted = asyncio.Event()

        async def listen() -> None:
            nonlocal credit_bytes
            async for request in request_iterator:
                credit_bytes += request.credit_bytes
                granted.set()

        listener = asyncio.create_task(listen(), name="bare-fetch-credit")
        try:
            while not listener.done():
                if credit_bytes <= 0:
                    granted.clear()
                    await granted.wait()
                    continue
                credit_bytes -= size_bytes
                response = fetch_pb2.FetchStreamResponse()
                response.partitions.add(session=1, records=records)
                yield response
        finally:
            listener.cancel()


def register(server: grpc.aio.Server) -> None:
    """Serves the two streams under the broker's names; every other call is unimplemented."""
    service = BareService()
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ProduceStream": grpc.stream_stream_rpc_method_handler(
            service.ProduceStream,
            request_deserializer=produce_pb2.ProduceRequest.FromString,
            response_serializer=produce_pb2.ProduceResponse.SerializeToString,
        ),
        "FetchStream": grpc.stream_stream_rpc_method_handler(
            service.FetchStream,
            request_deserializer=fetch_pb2.FetchStreamRequest.FromString,
            response_serializer=fetch_pb2.FetchStreamResponse.SerializeToString,
        ),
    }
    generic = grpc.method_handlers_generic_handler("tidelog.wire.v1.Broker", handlers)
    server.add_generic_rpc_handlers((generic,))
    server.add_registered_method_handlers("tidelog.wire.v1.Broker", handlers)


async def main() -> None:
    """Serves until killed."""
    tune_allocator()
    serving = GrpcServing(ServerLimits())
    server = await serving(
        Listener("bench", "127.0.0.1", 0, ANONYMOUS, "port"),
        register,
        ("tidelog.wire.v1.Broker",),
    )
    print(server.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
