"""Serving over grpc.aio, with health and reflection beside the service's own calls."""

from __future__ import annotations

import errno
import inspect
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from tidelog.errors import InvalidRequest, TidelogError
from tidelog_runtime.adapters.running_calls import HEALTH_SERVICE, RunningCalls
from tidelog_runtime.configs.endpoint import Endpoint
from tidelog_runtime.serving import Listener
from tidelog_runtime.wire_errors import ERROR_KEY, to_wire

MIB: Final = 1024 * 1024
#: What probes ask for: `liveness` never turns, `startup` and `readiness` follow the service.
HEALTH_NAMES: Final = ("", "startup", "readiness")
_HELD: Final = "Another program may hold the port: set {setting}, or 0 for any free one"
_NOT_OURS: Final = (
    "Listen at an address or a name of this machine: 127.0.0.1 for this machine alone,"
    " 0.0.0.0 for all"
)
_HINTS: Final = {
    errno.EADDRNOTAVAIL: _NOT_OURS,
    errno.EACCES: "This user may not open that port: choose one from 1024 on",
}


#: Where gRPC tells what went wrong in a call that it serves.
_GRPC_LOG: Final = logging.getLogger("grpc._cython.cygrpc")


class AddressUnavailable(TidelogError):
    """The address to serve at can't be had."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What the transport refuses before any handler sees it."""

    request_bytes_max: int = 100 * MIB
    concurrent_calls_max: int = 10_000


class GrpcServing:
    """`Serving` of the real world."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits

    async def __call__(
        self,
        listener: Listener,
        register: Callable[[grpc.aio.Server], None],
        services: tuple[str, ...],
    ) -> GrpcRunningServer:
        """Opens one listener; AddressUnavailable says why it can't."""
        # At its source, so that a node amid a user's tests puts nothing into their logs either.
        _GRPC_LOG.addFilter(is_news)
        calls = RunningCalls(self._limits.concurrent_calls_max)
        server = grpc.aio.server(interceptors=(calls, RefusesUnreadable()), options=self._options())
        health = HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
        register(server)
        reflection.enable_server_reflection(
            (*services, HEALTH_SERVICE, reflection.SERVICE_NAME), server
        )
        running = GrpcRunningServer(server, health, calls, bind(server, listener))
        await running.set_ready(False)
        await server.start()
        return running

    def _options(self) -> list[tuple[str, int]]:
        return [
            ("grpc.max_receive_message_length", self._limits.request_bytes_max),
            ("grpc.max_send_message_length", -1),
            # Two processes on one port would each get half of the clients.
            ("grpc.so_reuseport", 0),
            # A client that went away without a word is noticed within 13 seconds.
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 3_000),
            ("grpc.http2.ping_timeout_ms", 3_000),
            # Our own clients ping idle streams; that is no attack.
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
        ]


def is_news(record: logging.LogRecord) -> bool:
    """False for the traceback by which gRPC tells that a client went away amid an answer."""
    error = record.exc_info[1] if record.exc_info else None
    # By its name, since it lives in a module of gRPC's own.
    return type(error).__name__ != "ExecuteBatchError"


class RefusesUnreadable(grpc.aio.ServerInterceptor):
    """Answers bytes that are no message in words; gRPC itself logs a traceback for each.

    Streams read their messages in their handlers, which meet the same error there.
    """

    def __init__(self) -> None:
        self._guarded: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler of a call, guarded once for all calls of its method."""
        method = handler_call_details.method
        guarded = self._guarded.get(method)
        if guarded is not None:
            return guarded
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        guarded = self._guarded[method] = _guard(handler)
        return guarded


class Unreadable:
    """Stands in the place of a request that could not be read, or was not."""

    def __init__(self, error: InvalidRequest) -> None:
        self.error = error

    async def refuse(self, context: Any) -> None:
        """Ends the call with the error as clients know it."""
        trailing = ((ERROR_KEY, to_wire(self.error).SerializeToString()),)
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(self.error), trailing)


def _guard(handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
    """The same handler, which refuses what its deserializer can't read."""
    deserialize = handler.request_deserializer
    serve = handler.unary_stream if handler.response_streaming else handler.unary_unary

    def read(content: bytes) -> Any:
        try:
            return deserialize(content)
        except InvalidRequest as error:
            # Its traceback would keep the request.
            return Unreadable(error.with_traceback(None))
        except DecodeError as error:
            cause = str(error)
            return Unreadable(InvalidRequest("The request is no message of this call", cause=cause))

    async def answer(request: Any, context: Any) -> Any:
        if type(request) is Unreadable:
            await request.refuse(context)
        return await serve(request, context)

    async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
        if type(request) is Unreadable:
            await request.refuse(context)
        async for response in serve(request, context):
            yield response

    # Its types know of blocking handlers alone.
    make: Any = grpc.unary_unary_rpc_method_handler
    if handler.response_streaming:
        make = grpc.unary_stream_rpc_method_handler
    # A handler of a stream yields its answers, or writes them and returns nothing.
    guarded = answers if inspect.isasyncgenfunction(serve) else answer
    return make(guarded, read, handler.response_serializer)  # type: ignore[no-any-return]


class GrpcRunningServer:
    """One open listener."""

    def __init__(
        self, server: grpc.aio.Server, health: HealthServicer, calls: RunningCalls, port: int
    ) -> None:
        self._server = server
        self._health = health
        self._calls = calls
        self._port = port

    @property
    def port(self) -> int:
        """The port it serves at."""
        return self._port

    @property
    def running_calls(self) -> int:
        """The calls and streams it serves now."""
        return self._calls.running_count

    @property
    def refused_calls(self) -> int:
        """How many found no room, since it began."""
        return self._calls.refused_count

    async def set_ready(self, ready: bool) -> None:
        """Tells health probes whether the service behind it takes calls."""
        serving, not_serving = (
            health_pb2.HealthCheckResponse.SERVING,
            health_pb2.HealthCheckResponse.NOT_SERVING,
        )
        await self._health.set("liveness", serving)
        for name in HEALTH_NAMES:
            await self._health.set(name, serving if ready else not_serving)

    async def stop(self, grace_s: float) -> None:
        """Takes no new calls, lets running ones end within the grace, then cuts them."""
        await self._server.stop(grace_s)
        await self._calls.wait_until_ended()


def bind(server: grpc.aio.Server, listener: Listener) -> int:
    """Binds a server to its listener's address; the port, also where 0 asked for any."""
    check_bindable(listener)
    try:
        port = server.add_insecure_port(str(Endpoint(listener.host, listener.port)))
    except RuntimeError as error:
        raise _unavailable(listener, str(error), _HELD) from error
    if port == 0:
        raise _unavailable(listener, "gRPC could not bind it", _HELD)
    return port


def check_bindable(listener: Listener) -> None:
    """Finds out by a plain socket, since gRPC's own words don't say what is wrong."""
    try:
        found = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except UnicodeError as error:
        # It is no name at all, for the resolver's alphabet.
        raise _unavailable(listener, str(error), _NOT_OURS) from error
    except OSError as error:
        # Names that don't resolve have error numbers of their own, which mean other things here.
        number = None if isinstance(error, socket.gaierror) else error.errno
        hint = _NOT_OURS if number is None else _HINTS.get(number, _HELD)
        raise _unavailable(listener, error.strerror or str(error), hint) from error


def _unavailable(listener: Listener, cause: str, hint: str) -> AddressUnavailable:
    return AddressUnavailable(
        f"The {listener.name} listener can't be opened at {Endpoint(listener.host, listener.port)}",
        cause=cause,
        hint=hint.format(setting=listener.setting),
    )
