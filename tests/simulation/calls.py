"""Calls as the client sees them: grpc.aio's four kinds over one simulated stream.

Their behaviour where it matters to callers is grpc.aio's and kept so by one contract suite:
cancelling a read or a write cancels the call, an ended call raises what ended it, messages come
before an OK status and may be lost before another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from grpc.aio import AioRpcError, Metadata

from simulation.streams import Inbox, SendWindow, serialized

if TYPE_CHECKING:
    from simulation.network import Connection
    from simulation.transport_client import SimulatedChannel

OK = grpc.StatusCode.OK
RawMetadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Status:
    """How a call ended."""

    code: grpc.StatusCode
    details: str = ""
    trailing_metadata: RawMetadata = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """The first frame of a call."""

    stream_id: int
    method: str
    metadata: RawMetadata
    timeout_s: float | None


class ClientCall:
    """The stream under every kind of call; knows frames, flow control and how it ended."""

    def __init__(
        self,
        channel: SimulatedChannel,
        method: str,
        *,
        serializer: Callable[[Any], bytes] | None,
        deserializer: Callable[[bytes], Any] | None,
        metadata: RawMetadata,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._method = method
        self._serializer = serializer
        self._deserializer = deserializer
        self._metadata = metadata
        self._connection: Connection | None = None
        self._stream_id = 0
        self._begun = asyncio.Event()
        self._inbox = Inbox(self._return_credit)
        self._window = SendWindow(channel.network.weather.window_bytes)
        self._pending_status: Status | None = None
        self._initial_metadata: asyncio.Future[RawMetadata] = self._loop.create_future()
        self._locally_cancelled = False
        self._deadline: float | None = None
        self._half_closed = False
        self._queued_frames: list[bytes | None] = []
        self._requests: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.patient = False
        self.ended: asyncio.Future[Status] = self._loop.create_future()

    def start(self, *, timeout: float | None, patient: bool) -> None:
        """Set the deadline's clock and look for a connection."""
        self.patient = patient
        if timeout is not None:
            self._deadline = self._loop.time() + timeout
            self._timer = self._loop.call_later(timeout, self._pass_deadline)
        self._channel.place(self)

    def send_only(self, request: Any) -> None:
        """The one request of a unary call; to be called before `start`."""
        self._half_closed = True
        self._send_frames(self._serialize(request), None)

    def send_from(self, iterator: AsyncIterable[Any] | Iterable[Any] | None) -> None:
        """The requests of a streaming call, when the caller gives an iterator."""
        if iterator is not None:
            self._requests = self._loop.create_task(self._send_all(iterator))

    # ---- grpc.aio.Call

    def cancelled(self) -> bool:
        """Whether the call was cancelled, by either side."""
        return self.done() and self.ended.result().code is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        """Whether the call has ended."""
        return self.ended.done()

    def cancel(self) -> bool:
        """End the call; the server's handler will be cancelled."""
        return self.cancel_with("Locally cancelled by application!")

    def cancel_with(self, details: str) -> bool:
        """`cancel` with another reason."""
        if self.done():
            return False
        self._locally_cancelled = True
        self._reset_peer()
        self._end(Status(grpc.StatusCode.CANCELLED, details))
        return True

    def time_remaining(self) -> float | None:
        """Seconds to the deadline."""
        return None if self._deadline is None else max(0.0, self._deadline - self._loop.time())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Have `callback(call)` run when the call has ended."""
        self.ended.add_done_callback(lambda _: callback(self))

    async def initial_metadata(self) -> Metadata:
        """What the server sent first."""
        return Metadata.from_tuple(await asyncio.shield(self._initial_metadata))

    async def trailing_metadata(self) -> Metadata:
        """What the server sent last."""
        return Metadata.from_tuple((await asyncio.shield(self.ended)).trailing_metadata)

    async def code(self) -> grpc.StatusCode:
        """How the call ended."""
        return (await asyncio.shield(self.ended)).code

    async def details(self) -> str:
        """Why it ended so."""
        return (await asyncio.shield(self.ended)).details

    async def debug_error_string(self) -> str:
        """As grpc.aio has it."""
        return await self.details()

    async def wait_for_connection(self) -> None:
        """Wait until the call is on its way."""
        await self._begun.wait()
        self._raise_if_failed()

    # ---- sending

    async def _write(self, request: Any) -> None:
        if self.done():
            raise asyncio.InvalidStateError("RPC already finished.")
        if self._half_closed:
            raise asyncio.InvalidStateError('RPC is half closed after calling "done_writing".')
        data = self._serialize(request)
        try:
            await self._begun.wait()
            admitted = await self._window.acquire(len(data))
        except asyncio.CancelledError:
            self.cancel()
            raise
        if not admitted:
            self._raise_if_failed()
            raise asyncio.InvalidStateError("RPC already finished.")
        self._send_frames(data)

    async def _done_writing(self) -> None:
        if not self.done() and not self._half_closed:
            self._half_closed = True
            self._send_frames(None)

    async def _send_all(self, iterator: AsyncIterable[Any] | Iterable[Any]) -> None:
        try:
            if isinstance(iterator, AsyncIterable):
                async for request in iterator:
                    await self._write(request)
            else:
                for request in iterator:
                    await self._write(request)
            await self._done_writing()
        except AioRpcError:
            return
        except BaseException:  # noqa: BLE001 - as grpc.aio: a failing iterator cancels the call
            self.cancel()

    def _serialize(self, request: Any) -> bytes:
        return serialized(request, self._serializer)

    def _send_frames(self, *frames: bytes | None) -> None:
        """Messages, and None for the half-close; they wait for the connection."""
        for frame in frames:
            if frame is not None:
                self._channel.network.loop.trace.fold_bytes(frame)
        connection, stream_id = self._connection, self._stream_id
        if connection is None:
            self._queued_frames += frames
            return

        def deliver() -> None:
            call = connection.server_calls.get(stream_id)
            if call is not None:
                call.frames_arrived(frames)

        connection.to_server.send(deliver)

    def begin(self, connection: Connection) -> None:
        """A connection is there: send the opening and whatever waits."""
        self._connection = connection
        self._stream_id = connection.new_stream_id()
        connection.client_calls[self._stream_id] = self
        opening = Opening(self._stream_id, self._method, self._metadata, self.time_remaining())
        frames, self._queued_frames = self._queued_frames, []
        connection.to_server.send(lambda: connection.open_call(opening, frames))
        self._channel.network.loop.trace.record(
            f"{self._channel.host.name} -> {connection.server_name} {self._method}"
        )
        self._begun.set()

    # ---- what arrives

    def metadata_arrived(self, metadata: RawMetadata) -> None:
        """The server's initial metadata."""
        if not self._initial_metadata.done():
            self._initial_metadata.set_result(metadata)

    def message_arrived(self, message: bytes) -> None:
        """One response."""
        self.metadata_arrived(())
        limit = self._channel.network.weather.max_message_bytes
        if len(message) > limit:
            self._reset_peer()
            details = f"CLIENT: Received message larger than max ({len(message)} vs. {limit})"
            self._end(Status(grpc.StatusCode.RESOURCE_EXHAUSTED, details))
            return
        self._inbox.put(message)

    def status_arrived(self, status: Status) -> None:
        """The server's last word. An OK waits until all messages were read."""
        self.metadata_arrived(())
        network = self._channel.network
        overtakes = (
            status.code is not OK
            and len(self._inbox) > 0
            and network.random.random() < network.weather.discard_on_error_chance
        )
        self._pending_status = status
        self._inbox.end(discard=overtakes)
        self._end_when_read()

    def credit_arrived(self, size: int) -> None:
        """The server's application has read a message of this size."""
        self._window.release(size)

    def fail_unavailable(self, reason: str) -> None:
        """The connection is gone, or never came to be."""
        self._end(Status(grpc.StatusCode.UNAVAILABLE, reason))

    def _pass_deadline(self) -> None:
        self._reset_peer()
        self._end(Status(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))

    def _end_when_read(self) -> None:
        if self._pending_status is not None and not len(self._inbox):
            self._end(self._pending_status)

    def _end(self, status: Status) -> None:
        if self.done():
            return
        self.metadata_arrived(())
        self.ended.set_result(status)
        self._begun.set()
        self._window.close()
        self._inbox.end(discard=status.code is not OK)
        if self._timer is not None:
            self._timer.cancel()
        if self._requests is not None:
            self._requests.cancel()
        if self._connection is not None:
            self._connection.client_calls.pop(self._stream_id, None)
        self._channel.forget(self)

    def _reset_peer(self) -> None:
        if self._connection is None or self.done():
            return
        connection, stream_id = self._connection, self._stream_id

        def deliver() -> None:
            call = connection.server_calls.get(stream_id)
            if call is not None:
                call.client_left()

        connection.to_server.send(deliver)

    def _return_credit(self, size: int) -> None:
        connection, stream_id = self._connection, self._stream_id
        if connection is None:
            return

        def deliver() -> None:
            call = connection.server_calls.get(stream_id)
            if call is not None:
                call.credit_arrived(size)

        if not self.done() and self._pending_status is None:
            connection.to_server.send(deliver)
        self._end_when_read()

    # ---- reading

    async def _next_message(self) -> Any:
        """The next response, or grpc.aio.EOF. Cancelling the wait cancels the call."""
        try:
            data = await self._inbox.get()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if data is None:
            await asyncio.shield(self.ended)
            self._raise_if_failed()
            return grpc.aio.EOF
        return data if self._deserializer is None else self._deserializer(data)

    def _raise_if_failed(self) -> None:
        if not self.done():
            return
        if self._locally_cancelled:
            raise asyncio.CancelledError
        status = self.ended.result()
        if status.code is not OK:
            raise AioRpcError(
                status.code,
                Metadata.from_tuple(self._initial_metadata.result()),
                Metadata.from_tuple(status.trailing_metadata),
                details=status.details,
                debug_error_string=status.details,
            )


class _OneResponse(ClientCall):
    """Awaiting the call gives its response, as often as one likes."""

    _response: Any = None
    _reader: asyncio.Task[Any] | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._await_response().__await__()

    async def _await_response(self) -> Any:
        try:
            await asyncio.shield(self.ended)
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._raise_if_failed()
        return self._response

    def message_arrived(self, message: bytes) -> None:
        """The one response is taken at once; its status ends the call."""
        limit = self._channel.network.weather.max_message_bytes
        if len(message) > limit:
            super().message_arrived(message)
        elif not self.done():
            self._response = message if self._deserializer is None else self._deserializer(message)


class _ManyResponses(ClientCall):
    """Responses by `read` or by iteration; one of the two a call."""

    _iterator: AsyncIterator[Any] | None = None
    _read_style = False

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._read_style:
            raise grpc.aio.UsageError("Please don't mix two styles of API for streaming requests")
        if self._iterator is None:
            self._iterator = self._iterate()
        return self._iterator

    async def _iterate(self) -> AsyncIterator[Any]:
        while (message := await self._next_message()) is not grpc.aio.EOF:
            yield message

    async def read(self) -> Any:
        """The next response, or grpc.aio.EOF after the last."""
        if self._iterator is not None:
            raise grpc.aio.UsageError("Please don't mix two styles of API for streaming requests")
        self._read_style = True
        return await self._next_message()


class _ManyRequests(ClientCall):
    """Requests by `write`, unless the caller gave an iterator."""

    async def write(self, request: Any) -> None:
        """Send a request; waits while the window is full."""
        self._check_style()
        await self._write(request)

    async def done_writing(self) -> None:
        """No more requests: the server's reads will end."""
        self._check_style()
        await self._done_writing()

    def _check_style(self) -> None:
        if self._requests is not None:
            raise grpc.aio.UsageError("Please don't mix two styles of API for streaming requests")


class SimulatedUnaryUnaryCall(_OneResponse):
    """grpc.aio.UnaryUnaryCall."""


class SimulatedUnaryStreamCall(_ManyResponses):
    """grpc.aio.UnaryStreamCall."""


class SimulatedStreamUnaryCall(_ManyRequests, _OneResponse):
    """grpc.aio.StreamUnaryCall."""


class SimulatedStreamStreamCall(_ManyRequests, _ManyResponses):
    """grpc.aio.StreamStreamCall."""
