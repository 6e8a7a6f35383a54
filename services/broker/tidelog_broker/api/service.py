"""The servicers: every RPC of a listener goes through here to its own file.

The one choke point: it finds out who calls, refuses protocol versions nobody speaks, counts, and
turns an exception that concerns the whole call into a gRPC status whose trailing metadata carries
the error as clients know it. One instance a listener, since the listener says who its callers are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import grpc

from tidelog.errors import (
    ClusterAuthorizationFailed,
    InvalidRequest,
    RetriableError,
    TidelogError,
    UnsupportedVersion,
)
from tidelog.wire.envelopes import Outgoing
from tidelog.wire.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    broker_pb2,
    broker_pb2_grpc,
    fetch_pb2,
    metadata_pb2,
)
from tidelog_broker.api.admin import create_partitions, create_topics, delete_topics
from tidelog_broker.api.admin_configs import alter_configs, describe_configs
from tidelog_broker.api.caller import Caller
from tidelog_broker.api.delete_records import delete_records
from tidelog_broker.api.describe_cluster import describe_cluster
from tidelog_broker.api.fetch import fetch
from tidelog_broker.api.fetch_stream import fetch_stream
from tidelog_broker.api.handshake import check_protocol, handshake
from tidelog_broker.api.init_producer_id import init_producer_id
from tidelog_broker.api.list_offsets import list_offsets
from tidelog_broker.api.metadata import metadata
from tidelog_broker.api.offset_for_leader_epoch import offset_for_leader_epoch
from tidelog_broker.api.produce import produce
from tidelog_broker.api.produce_stream import produce_stream
from tidelog_broker.api.watch_metadata import watch_metadata
from tidelog_runtime.metrics import CallMetrics
from tidelog_runtime.wire_errors import ERROR_KEY, as_ours, to_wire

if TYPE_CHECKING:
    from tidelog_broker.broker import Broker
    from tidelog_runtime.principal import Principal

logger = logging.getLogger(__name__)

Request = TypeVar("Request")
Response = TypeVar("Response")
#: grpc.aio's context, or the simulated network's.
Context = Any

#: Asked of the schema itself, which is what reflection tells of it.
BROKER_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["Broker"].full_name
ADMIN_SERVICE: Final = admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name
#: Metadata a client sends with each call and stream.
CLIENT_ID_KEY: Final = "tidelog-client-id"
PROTOCOL_KEY: Final = "tidelog-protocol"
#: What of an error goes into trailing metadata: clients take 8 KiB of all of it together.
ERROR_TEXT_LENGTH_MAX: Final = 1_000
VERSION_DIGITS_MAX: Final = 9


def status_for(error: Exception) -> grpc.StatusCode:
    """The gRPC status of a failure that concerns a whole call."""
    match error:
        case UnsupportedVersion():
            return grpc.StatusCode.FAILED_PRECONDITION
        case InvalidRequest():
            return grpc.StatusCode.INVALID_ARGUMENT
        case ClusterAuthorizationFailed():
            return grpc.StatusCode.PERMISSION_DENIED
        case RetriableError():
            return grpc.StatusCode.UNAVAILABLE
        case TidelogError():
            return grpc.StatusCode.FAILED_PRECONDITION
        case _:
            return grpc.StatusCode.INTERNAL


class Refusal(NamedTuple):
    """How a call ends that failed as a whole; the error itself would keep the request alive."""

    code: grpc.StatusCode
    text: str
    error: bytes


def refusal_of(failure: Exception) -> Refusal:
    """A failure in the words of gRPC, and in ours."""
    error = as_ours(failure)
    wire = to_wire(error)
    wire.message = _shortened(wire.message)
    wire.cause = _shortened(wire.cause)
    logger.debug("a call was refused: %s", error)
    return Refusal(status_for(error), _shortened(str(error)), wire.SerializeToString())


async def _end(context: Context, refusal: Refusal) -> None:
    """Ends a call; gRPC raises once more in its own code when the handler has returned.

    What it raises stays with the call's state, and leads back to it: had it come by a frame that
    knows the request, a hundred megabytes would stay until the next collection of garbage.
    """
    with contextlib.suppress(grpc.aio.AbortError):
        await context.abort(refusal.code, refusal.text, ((ERROR_KEY, refusal.error),))


class Calls:
    """What all servicers of one listener share."""

    def __init__(
        self, broker: Broker, principal: Principal, metrics: dict[str, CallMetrics]
    ) -> None:
        self.broker = broker
        self._principal = principal
        self._metrics = metrics

    def caller(self, context: Context) -> Caller:
        """Who calls; refuses a protocol version that this broker doesn't speak."""
        client_id = ""
        for key, value in context.invocation_metadata() or ():
            if key == CLIENT_ID_KEY:
                client_id = _text(value)
            elif key == PROTOCOL_KEY:
                _check_protocol_header(value, client_id)
        return Caller(self._principal, client_id, context.peer())

    async def unary(
        self,
        method: str,
        handler: Callable[[Broker, Caller, Request], Awaitable[Response]],
        request: Request,
        context: Context,
    ) -> Response:
        """Runs one unary handler."""
        call = self._begin(method)
        started = asyncio.get_running_loop().time()
        code = grpc.StatusCode.CANCELLED
        try:
            self.broker.check_open()
            response = await handler(self.broker, self.caller(context), request)
            code = grpc.StatusCode.OK
            return response
        except Exception as failure:  # noqa: BLE001 - translated, logged and counted in one place
            refusal = refusal_of(failure)
            code = refusal.code
        finally:
            call.finish(code.name, asyncio.get_running_loop().time() - started)
        await _end(context, refusal)
        return cast("Response", None)  # the call has ended, gRPC asks for no response

    async def stream(
        self, method: str, responses: Callable[[Caller], AsyncIterator[Response]], context: Context
    ) -> AsyncIterator[Response]:
        """Runs one handler that yields its answers."""
        call = self._begin(method)
        started = asyncio.get_running_loop().time()
        code = grpc.StatusCode.CANCELLED
        try:
            self.broker.check_open()
            async for response in responses(self.caller(context)):
                yield response
            code = grpc.StatusCode.OK
            return
        except Exception as failure:  # noqa: BLE001 - translated, logged and counted in one place
            refusal = refusal_of(failure)
            code = refusal.code
        finally:
            call.finish(code.name, asyncio.get_running_loop().time() - started)
        await _end(context, refusal)

    def _begin(self, method: str) -> CallMetrics:
        call = self._metrics.get(method)
        if call is None:
            call = self._metrics[method] = CallMetrics()
        call.started += 1
        return call


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def _shortened(text: str) -> str:
    if len(text) <= ERROR_TEXT_LENGTH_MAX:
        return text
    return f"{text[:ERROR_TEXT_LENGTH_MAX]}..."


def _check_protocol_header(value: str | bytes, client_id: str) -> None:
    text = _text(value)
    if not text.isascii() or not text.isdigit() or len(text) > VERSION_DIGITS_MAX:
        raise UnsupportedVersion(f"Metadata {PROTOCOL_KEY}={text!r} is no protocol version")
    check_protocol(int(text), int(text), f"Client {client_id!r}")


class BrokerService(broker_pb2_grpc.BrokerServicer):
    """`tidelog.wire.v1.Broker` at one listener."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def Handshake(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("Handshake", handshake, request, context)

    async def Produce(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("Produce", produce, request, context)

    async def ProduceStream(  # type: ignore[override] # gRPC also takes handlers that write
        self, request_iterator: Any, context: Context
    ) -> None:
        await self._calls.unary("ProduceStream", produce_stream, context, context)

    async def Fetch(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("Fetch", fetch, request, context)

    async def FetchStream(  # type: ignore[override] # see `registration`
        self, request_iterator: Any, context: Context
    ) -> AsyncIterator[Outgoing[fetch_pb2.FetchStreamResponse]]:
        broker = self._calls.broker
        async for response in self._calls.stream(
            "FetchStream", lambda caller: fetch_stream(broker, caller, request_iterator), context
        ):
            yield response

    async def ListOffsets(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("ListOffsets", list_offsets, request, context)

    async def OffsetForLeaderEpoch(self, request: Any, context: Context) -> Any:
        return await self._calls.unary(
            "OffsetForLeaderEpoch", offset_for_leader_epoch, request, context
        )

    async def Metadata(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("Metadata", metadata, request, context)

    async def WatchMetadata(
        self, request: Any, context: Context
    ) -> AsyncIterator[metadata_pb2.MetadataUpdate]:
        broker = self._calls.broker
        async for update in self._calls.stream(
            "WatchMetadata", lambda caller: watch_metadata(broker, caller, request), context
        ):
            yield update

    async def InitProducerId(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("InitProducerId", init_producer_id, request, context)


class AdminService(admin_pb2_grpc.AdminServicer):
    """`tidelog.wire.v1.Admin` at one listener."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def CreateTopics(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("CreateTopics", create_topics, request, context)

    async def DeleteTopics(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("DeleteTopics", delete_topics, request, context)

    async def CreatePartitions(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("CreatePartitions", create_partitions, request, context)

    async def DescribeConfigs(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("DescribeConfigs", describe_configs, request, context)

    async def AlterConfigs(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("AlterConfigs", alter_configs, request, context)

    async def DeleteRecords(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("DeleteRecords", delete_records, request, context)

    async def DescribeCluster(self, request: Any, context: Context) -> Any:
        return await self._calls.unary("DescribeCluster", describe_cluster, request, context)
