"""Calls as the server sees them: the stream, and the context that a servicer is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextvars import Context
from typing import Any, NoReturn

import grpc
from grpc.aio import Metadata, ServicerContext

from simulation.calls import OK, Opening, RawMetadata, Status
from simulation.network import Connection
from simulation.streams import Inbox, SendWindow, serialized


class HandlerAborted(grpc.aio.AbortError):
    """Raised inside a handler by `context.abort`; the status was sent by then."""


class ServerCall:
    """The server's end of one stream."""

    def __init__(self, connection: Connection, opening: Opening, *, streaming: bool) -> None:
        self.opening = opening
        self._streaming = streaming
        self.connection = connection
        self.task: asyncio.Task[None] | None = None
        self.status_sent = False
        self.client_gone = False
        self.aborted = False
        loop = connection.network.loop
        self.deadline = None if opening.timeout_s is None else loop.time() + opening.timeout_s
        self._metadata_sent = False
        self._inbox = Inbox(self._return_credit)
        self._window = SendWindow(connection.network.weather.window_bytes)
        self._timer: asyncio.TimerHandle | None = None

    def start_deadline(self, context: Context) -> None:
        """The server watches the deadline too: a cut may hide the client's cancel."""
        if self.deadline is not None:
            loop = self.connection.network.loop
            self._timer = loop.call_at(self.deadline, self.client_left, context=context)

    # ---- what arrives

    def frames_arrived(self, frames: Sequence[bytes | None]) -> None:
        """Requests, and None for the half-close."""
        limit = self.connection.network.weather.max_message_bytes
        for frame in frames:
            if frame is None:
                self._inbox.end()
            elif len(frame) > limit:
                details = f"SERVER: Received message larger than max ({len(frame)} vs. {limit})"
                self.send_status(Status(grpc.StatusCode.RESOURCE_EXHAUSTED, details))
                self.client_left()
            else:
                self._inbox.put(frame)

    def credit_arrived(self, size: int) -> None:
        """The client's application has read a message of this size."""
        self._window.release(size)

    def client_left(self) -> None:
        """Nobody waits for the answer any more: the handler is cancelled."""
        self.client_gone = True
        self._window.close()
        if self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        """The handler has ended; late frames find nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self.connection.server_calls.pop(self.opening.stream_id, None)

    # ---- for the handler

    async def read(self) -> bytes | None:
        """The next request, None after the half-close."""
        self.raise_if_aborted()
        return await self._inbox.get()

    async def only_request(self, deserializer: Callable[[bytes], Any] | None) -> Any:
        """The request of a unary call."""
        data = await self._inbox.get()
        assert data is not None, "a unary call always carries its request"
        return data if deserializer is None else deserializer(data)

    async def requests(self, deserializer: Callable[[bytes], Any] | None) -> AsyncIterator[Any]:
        """The requests of a streaming call."""
        while (data := await self.read()) is not None:
            yield data if deserializer is None else deserializer(data)

    async def write(self, data: bytes) -> None:
        """Send a response; waits while the window is full."""
        self.raise_if_aborted()
        if not await self._window.acquire(len(data)):
            raise asyncio.CancelledError
        self.connection.network.loop.trace.fold_bytes(data)
        self._deliver(lambda call: call.message_arrived(data))

    def send_metadata(self, metadata: RawMetadata) -> None:
        """The initial metadata, once."""
        if not self._metadata_sent:
            self._metadata_sent = True
            self._deliver(lambda call: call.metadata_arrived(metadata))

    def send_status(self, status: Status, response: bytes | None = None) -> None:
        """The last word of the call, with a unary response; only the first one counts."""
        if self.status_sent:
            return
        self.status_sent = True
        if response is not None:
            self.connection.network.loop.trace.fold_bytes(response)

        def act(call: Any) -> None:
            if response is not None:
                call.message_arrived(response)
            call.status_arrived(status)

        self._deliver(act)

    def raise_if_aborted(self) -> None:
        """A handler that caught its abort, or ignores its cancel, gets no further."""
        if self.aborted:
            raise HandlerAborted("Locally aborted.")
        if self.client_gone:
            raise asyncio.CancelledError

    def _deliver(self, act: Callable[[Any], None]) -> None:
        connection, stream_id = self.connection, self.opening.stream_id

        def deliver() -> None:
            call = connection.client_calls.get(stream_id)
            if call is not None:
                act(call)

        connection.to_client.send(deliver)

    def _return_credit(self, size: int) -> None:
        if self._streaming and not self.status_sent:
            self._deliver(lambda call: call.credit_arrived(size))


class SimulatedServicerContext(ServicerContext[Any, Any]):
    """grpc.aio.ServicerContext of one simulated call."""

    def __init__(self, call: ServerCall, handler: Any) -> None:
        self._call = call
        self._handler = handler
        self._code = OK
        self._details = ""
        self._trailing: RawMetadata = ()
        self._is_writing = False

    async def read(self) -> Any:
        """The next request, or grpc.aio.EOF after the half-close."""
        data = await self._call.read()
        if data is None:
            return grpc.aio.EOF
        deserialize = self._handler.request_deserializer
        return data if deserialize is None else deserialize(data)

    async def write(self, message: Any) -> None:
        """Send a response; waits while the client does not read."""
        assert not self._is_writing, "gRPC sends one message at a time"
        self._is_writing = True
        await self._call.write(self.serialize(message))
        self._is_writing = False  # not behind a cancelled one, which gRPC still holds

    def serialize(self, message: Any) -> bytes:
        """A response as it goes over the wire."""
        return serialized(message, self._handler.response_serializer)

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """See grpc.aio.ServicerContext."""
        self._call.raise_if_aborted()
        self._call.send_metadata(tuple(Metadata.from_tuple(initial_metadata)))

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        """End the call with this status; always raises."""
        assert not self._is_writing, "gRPC takes no status while it sends a message"
        trailing = tuple(Metadata.from_tuple(trailing_metadata)) or self._trailing
        self._call.send_status(Status(code, details or self._details, trailing))
        self._call.aborted = True
        raise HandlerAborted("Locally aborted.")

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """Not in grpc.aio either."""
        raise NotImplementedError("grpc.aio has no abort_with_status")

    def final_status(self) -> Status:
        """What a handler that returns has set; OK by default."""
        return Status(self._code, self._details, self._trailing)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """See grpc.aio.ServicerContext."""
        self._trailing = tuple(Metadata.from_tuple(trailing_metadata))

    def trailing_metadata(self) -> Metadata:
        """See grpc.aio.ServicerContext."""
        return Metadata.from_tuple(self._trailing)

    def invocation_metadata(self) -> Metadata:
        """See grpc.aio.ServicerContext."""
        return Metadata.from_tuple(self._call.opening.metadata)

    def set_code(self, code: grpc.StatusCode) -> None:
        """See grpc.aio.ServicerContext."""
        self._code = code

    def code(self) -> grpc.StatusCode:
        """See grpc.aio.ServicerContext."""
        return self._code

    def set_details(self, details: str) -> None:
        """See grpc.aio.ServicerContext."""
        self._details = details

    def details(self) -> str:
        """See grpc.aio.ServicerContext."""
        return self._details

    def set_compression(self, compression: grpc.Compression) -> None:
        """Sizes on the simulated wire do not matter."""

    def disable_next_message_compression(self) -> None:
        """Sizes on the simulated wire do not matter."""

    def peer(self) -> str:
        """Who calls."""
        return self._call.connection.peer

    def peer_identities(self) -> Iterable[bytes] | None:
        """Nobody is authenticated on the simulated network."""
        return None

    def peer_identity_key(self) -> str | None:
        """Nobody is authenticated on the simulated network."""
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Nobody is authenticated on the simulated network."""
        return {}

    def time_remaining(self) -> float:
        """Seconds to the deadline; None without one, as in grpc.aio."""
        deadline = self._call.deadline
        if deadline is None:
            return None  # type: ignore[return-value]
        return max(0.0, deadline - self._call.connection.network.loop.time())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """See grpc.aio.ServicerContext."""
        assert self._call.task is not None
        self._call.task.add_done_callback(lambda _: callback(self))

    def cancelled(self) -> bool:
        """Whether the client has left."""
        return self._call.client_gone

    def done(self) -> bool:
        """Whether the handler has ended."""
        return self._call.task is not None and self._call.task.done()
