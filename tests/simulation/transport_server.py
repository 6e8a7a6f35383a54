"""The server end of the simulated transport: generated servicers register here unchanged.

Handlers may be coroutines, async generators, or coroutines that use `context.read` and
`context.write`. Whatever ends a call at the client (its cancel, its deadline, its death) cancels
the handler when the news arrives, not before.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import grpc
from grpc.aio import Server

from simulation.calls import OK, Opening, Status
from simulation.network import Connection, Host, current_process
from simulation.process import ProcessState
from simulation.server_calls import HandlerAborted, ServerCall, SimulatedServicerContext


@dataclass(frozen=True, slots=True)
class _CallDetails(grpc.HandlerCallDetails):
    method: str
    invocation_metadata: Any


class SimulatedServer(Server):
    """grpc.aio.Server over the simulated network."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.network = host.network
        self.process = current_process()
        self._context = copy_context()
        self._methods: dict[str, Any] = {}
        self._generic: list[grpc.GenericRpcHandler] = []
        self._ports: list[tuple[str, int]] = []
        self._connections: dict[Connection, None] = {}
        self._calls: dict[ServerCall, None] = {}
        self._serving = False
        self._stopped = asyncio.Event()
        if self.process is not None:
            self.process.watch(self._process_changed)

    # ---- grpc.aio.Server

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]
    ) -> None:
        """See grpc.aio.Server."""
        self._generic += generic_rpc_handlers

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Any]
    ) -> None:
        """See grpc.aio.Server."""
        for name, handler in method_handlers.items():
            self._methods[f"/{service_name}/{name}"] = handler

    def add_insecure_port(self, address: str) -> int:
        """Bind "host:port"; port 0 takes a free one."""
        host, port = self.host.resolve(address)
        port = self.network.listen(host, port, self)
        self._ports.append((host, port))
        return port

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """The simulated network has no TLS."""
        raise NotImplementedError(f"cannot bind {address}: the simulated network has no TLS")

    async def start(self) -> None:
        """Accept calls from now on."""
        self._serving = True

    async def stop(self, grace: float | None) -> None:
        """Take no new calls, give the running ones `grace` seconds, then cancel them."""
        self._serving = False
        self.network.stop_listening(self)
        for connection in list(self._connections):
            connection.to_client.send(connection.go_away)
        tasks = [call.task for call in self._calls if call.task is not None]
        if grace and tasks:
            await asyncio.wait(tasks, timeout=grace)
        for connection in list(self._connections):
            connection.close_server_end("server stopped")
        if tasks:
            await asyncio.wait(tasks)
        if self.process is not None:
            self.process.unwatch(self._process_changed)
        self._stopped.set()

    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """See grpc.aio.Server: True when the time passed first."""
        try:
            async with asyncio.timeout(timeout):
                await self._stopped.wait()
        except TimeoutError:
            return True
        return False

    # ---- for the network

    @property
    def accepting(self) -> bool:
        """A server that was bound but not started, or is stopped or dead, accepts nobody."""
        return self._serving

    def accept(self, connection: Connection) -> None:
        """A channel connects; the greeting needs the process, so a paused one says nothing."""
        self._connections[connection] = None
        self.network.loop.call_soon(
            connection.to_client.send, connection.greet, context=self._context.copy()
        )

    def connection_lost(self, connection: Connection) -> None:
        """The connection is gone; its handlers are cancelled."""
        self._connections.pop(connection, None)
        for call in list(connection.server_calls.values()):
            call.client_left()

    def open_call(
        self, connection: Connection, opening: Opening, frames: Sequence[bytes | None]
    ) -> None:
        """A call arrived: find its handler and run it in this server's process."""
        handler = self._find_handler(opening)
        call = ServerCall(
            connection, opening, streaming=bool(handler and handler.request_streaming)
        )
        if not self._serving:
            call.send_status(Status(grpc.StatusCode.UNAVAILABLE, "server is shutting down"))
            return
        if handler is None:
            call.send_status(Status(grpc.StatusCode.UNIMPLEMENTED, "Method not found!"))
            return
        connection.server_calls[opening.stream_id] = call
        self._calls[call] = None
        call.frames_arrived(frames)
        context = self._context.copy()
        call.start_deadline(context)
        call.task = self.network.loop.create_task(
            self._serve(call, handler), name=f"{self.host.name}{opening.method}", context=context
        )
        call.task.add_done_callback(lambda _: self._finish(call), context=context)

    def _finish(self, call: ServerCall) -> None:
        self._calls.pop(call, None)
        call.close()

    def _find_handler(self, opening: Opening) -> Any:
        handler = self._methods.get(opening.method)
        if handler is None:
            details = _CallDetails(opening.method, opening.metadata)
            for generic in self._generic:
                handler = handler or generic.service(details)
        return handler

    async def _serve(self, call: ServerCall, handler: Any) -> None:
        context = SimulatedServicerContext(call, handler)
        try:
            await _run_handler(call, handler, context)
        except (HandlerAborted, asyncio.CancelledError):
            if not call.status_sent:
                call.send_status(Status(grpc.StatusCode.CANCELLED, "handler was cancelled"))
            return
        except Exception as error:  # noqa: BLE001 - the server's top: any failure is an answer
            if context.code() is not grpc.StatusCode.UNIMPLEMENTED:
                self.network.handler_errors.append(f"{call.opening.method}: {error!r}")
            self.network.loop.trace.record(f"{call.opening.method} raised {error!r}")
            code = context.code() if context.code() is not OK else grpc.StatusCode.UNKNOWN
            call.send_status(Status(code, f"Unexpected {type(error)}: {error}"))
            return
        if not call.status_sent:
            call.send_status(context.final_status())

    def _process_changed(self) -> None:
        assert self.process is not None
        self.network.process_changed()
        if self.process.state is ProcessState.KILLED:
            self._serving = False
            self.network.stop_listening(self)
            for connection in list(self._connections):
                connection.to_client.drop_tail()
                connection.close_server_end("connection reset by peer")


async def _run_handler(call: ServerCall, handler: Any, context: SimulatedServicerContext) -> None:
    if handler.request_streaming:
        request: Any = call.requests(handler.request_deserializer)
    else:
        request = await call.only_request(handler.request_deserializer)
    kind = ("stream" if handler.request_streaming else "unary") + (
        "_stream" if handler.response_streaming else "_unary"
    )
    method = getattr(handler, kind)
    if inspect.isasyncgenfunction(method):
        async with contextlib.aclosing(method(request, context)) as responses:
            async for response in responses:
                await context.write(response)
        return
    result = method(request, context)
    if inspect.isawaitable(result):
        result = await result
    if not handler.response_streaming and context.code() is OK:
        call.raise_if_aborted()
        call.send_status(context.final_status(), context.serialize(result))
