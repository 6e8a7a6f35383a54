"""The client end of the simulated transport: a channel that generated async stubs accept.

It dials when the first call needs it, fails fast while the peer is unreachable and tries again
with a growing pause, as grpc.aio does with the options of `tidelog.channel_grpc`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Self

import grpc
from grpc.aio import Channel, Metadata

from simulation.calls import (
    ClientCall,
    SimulatedStreamStreamCall,
    SimulatedStreamUnaryCall,
    SimulatedUnaryStreamCall,
    SimulatedUnaryUnaryCall,
)
from simulation.network import Connection, Host, current_process
from simulation.process import ProcessState

Serializer = Callable[[Any], bytes] | None
Deserializer = Callable[[bytes], Any] | None


class SimulatedChannel(Channel):
    """grpc.aio.Channel over the simulated network."""

    def __init__(self, host: Host, address: str) -> None:
        self.host = host
        self.network = host.network
        self.process = current_process()
        self._target = host.resolve(address)
        self._state = grpc.ChannelConnectivity.IDLE
        self._connection: Connection | None = None
        self._dialling: Connection | None = None
        self._waiting: dict[ClientCall, None] = {}
        self._calls: dict[ClientCall, None] = {}
        self._backoff_s = self.network.weather.backoff_s[0]
        self._state_changed = asyncio.Event()
        self._all_connections: dict[Connection, None] = {}
        if self.process is not None:
            self.process.watch(self._process_changed)

    # ---- grpc.aio.Channel

    def unary_unary(
        self,
        method: str,
        request_serializer: Serializer = None,
        response_deserializer: Deserializer = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """See grpc.aio.Channel."""
        return _Method(
            self, SimulatedUnaryUnaryCall, method, request_serializer, response_deserializer
        ).with_request

    def unary_stream(
        self,
        method: str,
        request_serializer: Serializer = None,
        response_deserializer: Deserializer = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """See grpc.aio.Channel."""
        return _Method(
            self, SimulatedUnaryStreamCall, method, request_serializer, response_deserializer
        ).with_request

    def stream_unary(
        self,
        method: str,
        request_serializer: Serializer = None,
        response_deserializer: Deserializer = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """See grpc.aio.Channel."""
        return _Method(
            self, SimulatedStreamUnaryCall, method, request_serializer, response_deserializer
        ).with_iterator

    def stream_stream(
        self,
        method: str,
        request_serializer: Serializer = None,
        response_deserializer: Deserializer = None,
        _registered_method: bool | None = False,
    ) -> Any:
        """See grpc.aio.Channel."""
        return _Method(
            self, SimulatedStreamStreamCall, method, request_serializer, response_deserializer
        ).with_iterator

    async def close(self, grace: float | None = None) -> None:
        """Cancel what still runs after `grace` seconds, and hang up."""
        self._become(grpc.ChannelConnectivity.SHUTDOWN)
        if grace and self._calls:
            await asyncio.wait([call.ended for call in self._calls], timeout=grace)
        for call in list(self._calls):
            call.cancel_with("Channel closed.")
        for connection in list(self._all_connections):
            connection.close_client_end("channel closed")
        if self.process is not None:
            self.process.unwatch(self._process_changed)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """See grpc.aio.Channel."""
        if try_to_connect and self._state is grpc.ChannelConnectivity.IDLE:
            self._dial()
        return self._state

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """See grpc.aio.Channel."""
        while self._state is last_observed_state:
            await self._state_changed.wait()

    async def channel_ready(self) -> None:
        """See grpc.aio.Channel."""
        state = self.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.READY:
            await self.wait_for_state_change(state)
            state = self.get_state(try_to_connect=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.close()

    # ---- calls

    def place(self, call: ClientCall) -> None:
        """Start a call as soon as there is a connection, or fail it at once."""
        if self._state is grpc.ChannelConnectivity.SHUTDOWN:
            raise grpc.aio.UsageError("Channel is closed.")
        self._calls[call] = None
        if self._connection is not None:
            call.begin(self._connection)
        elif self._state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and not call.patient:
            asyncio.get_running_loop().call_soon(call.fail_unavailable, self._unreachable())
        else:
            self._waiting[call] = None
            if self._state is grpc.ChannelConnectivity.IDLE:
                self._dial()

    def forget(self, call: ClientCall) -> None:
        """The call has ended."""
        self._calls.pop(call, None)
        self._waiting.pop(call, None)

    # ---- connecting

    def _dial(self) -> None:
        if self._state is not grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            self._become(grpc.ChannelConnectivity.CONNECTING)
        loop, network = self.network.loop, self.network
        way_there = network.latency()
        way_back = network.latency()
        if way_there + way_back > network.weather.connect_timeout_s:
            loop.call_later(network.weather.connect_timeout_s, self._dial_failed)
        else:
            loop.call_later(way_there, self._arrive_at_peer, way_back)

    def _arrive_at_peer(self, way_back: float) -> None:
        """The first packet is there: whoever listens now decides what comes back."""
        loop, network = self.network.loop, self.network
        here, there = self.host.name, self._target[0]
        if network.is_cut(here, there) or network.is_cut(there, here):
            loop.call_later(network.weather.connect_timeout_s, self._dial_failed)
            return
        server = network.listener(*self._target)
        if server is None or not server.accepting:
            loop.call_later(way_back, self._dial_failed)
            return
        connection = self._dialling = Connection(network, client=self, server=server)
        self._all_connections[connection] = None
        loop.call_later(network.weather.connect_timeout_s, self._dial_timed_out, connection)
        server.accept(connection)

    def _dial_timed_out(self, connection: Connection) -> None:
        if self._dialling is connection:
            connection.close_client_end("connect timed out")

    def connected(self, connection: Connection) -> None:
        """The server's greeting arrived: the calls that waited are on their way."""
        self._dialling = None
        self._connection = connection
        self._backoff_s = self.network.weather.backoff_s[0]
        self._become(grpc.ChannelConnectivity.READY)
        waiting, self._waiting = list(self._waiting), {}
        for call in waiting:
            call.begin(connection)

    def _dial_failed(self) -> None:
        if self._state is grpc.ChannelConnectivity.SHUTDOWN:
            return
        self._become(grpc.ChannelConnectivity.TRANSIENT_FAILURE)
        for call in list(self._waiting):
            if not call.patient:
                call.fail_unavailable(self._unreachable())
        pause = self._backoff_s * self.network.random.uniform(0.8, 1.2)
        self._backoff_s = min(self._backoff_s * 1.6, self.network.weather.backoff_s[1])
        self.network.loop.call_later(pause, self._dial_again)

    def _dial_again(self) -> None:
        if self._state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            self._dial()

    def connection_lost(self, connection: Connection, reason: str) -> None:
        """The connection is gone, and with it every call on it."""
        self._all_connections.pop(connection, None)
        self.drain(connection)
        if self._dialling is connection:
            self._dialling = None
            self._dial_failed()
        for call in list(connection.client_calls.values()):
            call.fail_unavailable(reason)

    def drain(self, connection: Connection) -> None:
        """The server takes no new calls on this connection; the next call dials anew."""
        if self._connection is connection:
            self._connection = None
            if self._state is not grpc.ChannelConnectivity.SHUTDOWN:
                self._become(grpc.ChannelConnectivity.IDLE)

    def _become(self, state: grpc.ChannelConnectivity) -> None:
        if self._state is not grpc.ChannelConnectivity.SHUTDOWN:
            self._state = state
        self._state_changed.set()
        self._state_changed = asyncio.Event()

    def _unreachable(self) -> str:
        host, port = self._target
        return f"failed to connect to all addresses; last error: {host}:{port} is unreachable"

    def _process_changed(self) -> None:
        assert self.process is not None
        self.network.process_changed()
        if self.process.state is ProcessState.KILLED:
            self._state = grpc.ChannelConnectivity.SHUTDOWN
            for connection in list(self._all_connections):
                connection.to_server.drop_tail()
                connection.close_client_end("process killed")


class _Method:
    """What a stub holds for one method; calling it starts a call."""

    def __init__(
        self,
        channel: SimulatedChannel,
        call_type: type[ClientCall],
        method: str,
        request_serializer: Serializer,
        response_deserializer: Deserializer,
    ) -> None:
        self._channel = channel
        self._call_type = call_type
        self._method = method
        self._request_serializer = request_serializer
        self._response_deserializer = response_deserializer

    def with_request(self, request: Any, **options: Any) -> Any:
        """Start a call that sends one message."""
        call, start = self._new_call(**options)
        call.send_only(request)
        start()
        return call

    def with_iterator(
        self,
        request_iterator: AsyncIterable[Any] | AsyncIterator[Any] | Iterable[Any] | None = None,
        timeout: float | None = None,
        metadata: Any = None,
        **options: Any,
    ) -> Any:
        """Start a call that sends many messages, from an iterator or by `write`."""
        call, start = self._new_call(timeout=timeout, metadata=metadata, **options)
        start()
        call.send_from(request_iterator)
        return call

    def _new_call(
        self,
        *,
        timeout: float | None = None,
        metadata: Any = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> tuple[ClientCall, Callable[[], None]]:
        assert credentials is None, "the simulated network has no credentials"
        call = self._call_type(
            self._channel,
            self._method,
            serializer=self._request_serializer,
            deserializer=self._response_deserializer,
            metadata=tuple(Metadata.from_tuple(metadata or ())),
        )
        return call, lambda: call.start(timeout=timeout, patient=bool(wait_for_ready))
