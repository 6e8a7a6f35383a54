"""Connections to brokers: one channel an address, opened with a handshake, shared by all calls.

Producer, consumer and admin ask here for the broker at an address; the first who asks waits for
the handshake, the others join. A connection that failed is dropped, so that the next one who asks
tries anew. Runs on one event loop; after `close` nothing of any connection is left there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from tidelog.channel import ChannelFactory
from tidelog.engine.calls import is_being_cancelled, translated
from tidelog.engine.wire_errors import error_of
from tidelog.errors import BrokerUnreachable, ClientClosed
from tidelog.version import __version__
from tidelog.wire.envelopes import FETCHED, Outgoing
from tidelog.wire.v1 import (
    admin_pb2_grpc,
    broker_pb2,
    broker_pb2_grpc,
    fetch_pb2,
    handshake_pb2,
    produce_pb2,
)

if TYPE_CHECKING:
    from tidelog.wire.v1.admin_pb2_grpc import AdminAsyncStub
    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub

#: The versions of the public protocol that this SDK speaks.
PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1
SOFTWARE: Final = "tidelog-python"
_BROKER_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["Broker"].full_name

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Connection:
    """A broker that has shaken hands."""

    __slots__ = (
        "_asks_again_at",
        "address",
        "admin",
        "broker",
        "channel",
        "fetch_stream",
        "handshake",
        "metadata",
        "produce_stream",
    )

    def __init__(
        self, address: str, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...]
    ) -> None:
        self.address = address
        self.channel = channel
        self.broker: BrokerAsyncStub = broker_pb2_grpc.BrokerStub(channel)
        self.admin: AdminAsyncStub = admin_pb2_grpc.AdminStub(channel)
        #: `broker.ProduceStream` and `broker.FetchStream` without the copies of generated code.
        self.produce_stream: Any = channel.stream_stream(
            f"/{_BROKER_SERVICE}/ProduceStream",
            request_serializer=Outgoing.to_bytes,
            response_deserializer=produce_pb2.ProduceResponse.FromString,
        )
        self.fetch_stream: Any = channel.stream_stream(
            f"/{_BROKER_SERVICE}/FetchStream",
            request_serializer=fetch_pb2.FetchStreamRequest.SerializeToString,
            response_deserializer=FETCHED.split,
        )
        #: To be sent with each call and stream.
        self.metadata = metadata
        self.handshake = handshake_pb2.HandshakeResponse()
        #: Before this time the broker wants to hear no more questions.
        self._asks_again_at = 0.0

    async def ask(
        self,
        call: grpc.aio.UnaryUnaryMultiCallable[Question, Answer],
        question: Question,
        limit_s: float,
    ) -> Answer:
        """One call of `broker` or `admin`; what it fails with is an error of Tidelog's.

        Waits as long as the last answer has asked for (`throttle_ms`).
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._asks_again_at:
            await asyncio.sleep(self._asks_again_at - loop.time())
        with translated(self.address):
            answer = await call(question, timeout=limit_s, metadata=self.metadata)
        throttle_ms: int = getattr(answer, "throttle_ms", 0)
        self._asks_again_at = loop.time() + throttle_ms / 1000
        return answer


class Connections:
    """All connections of one client."""

    def __init__(
        self, channel_factory: ChannelFactory, client_id: str, request_timeout_s: float
    ) -> None:
        self._channel_factory = channel_factory
        self._client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        #: Channels that were dropped and end by and by; only `close` waits for them.
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def get(self, address: str) -> Connection:
        """The connection to this address; BrokerUnreachable or UnsupportedVersion say why not."""
        if self._is_closed:
            raise _closed_error()
        opening = self._opening.get(address)
        if opening is None or (opening.done() and _failed(opening)):
            opening = asyncio.get_running_loop().create_task(
                self._open(address), name=f"tidelog-connect-{address}"
            )
            opening.add_done_callback(_look_at)
            self._opening[address] = opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            if not self._is_closed:
                raise _cut_off(address) from None
            raise _closed_error() from None
        finally:
            # A failure's traceback holds this frame: without the task there is no cycle, and so
            # no channel that waits for the collector.
            del opening

    def drop(self, connection: Connection) -> None:
        """The connection is of no use any more: whoever asks next gets a new one.

        Returns at once: what was said to the broker meanwhile must not wait for gRPC's last words.
        """
        opening = self._opening.get(connection.address)
        opened = opening is not None and opening.done() and not _failed(opening)
        if opening is not None and opened and opening.result() is connection:
            del self._opening[connection.address]
        ending = asyncio.get_running_loop().create_task(
            connection.channel.close(), name=f"tidelog-drop-{connection.address}"
        )
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Closes every channel; calls on them end."""
        self._is_closed = True
        opening, self._opening = self._opening, {}
        for task in opening.values():
            task.cancel()
        done = await asyncio.gather(*opening.values(), return_exceptions=True)
        for result in done:
            if isinstance(result, Connection):
                await result.channel.close()
        await asyncio.gather(*self._ending)

    async def _open(self, address: str) -> Connection:
        channel = self._channel_factory(address)
        metadata = (("tidelog-client-id", self._client_id), ("tidelog-protocol", str(PROTOCOL_MAX)))
        connection = Connection(address, channel, metadata)
        try:
            connection.handshake = await self._shake_hands(connection)
        except BaseException:
            await channel.close()
            raise
        return connection

    async def _shake_hands(self, connection: Connection) -> handshake_pb2.HandshakeResponse:
        request = handshake_pb2.HandshakeRequest(
            client_id=self._client_id,
            software_name=SOFTWARE,
            software_version=__version__,
            protocol=handshake_pb2.VersionRange(min=PROTOCOL_MIN, max=PROTOCOL_MAX),
            dialled_address=connection.address,
        )
        try:
            with translated(connection.address):
                # Without the protocol's version: what versions there are is what is asked here.
                answer = await connection.broker.Handshake(
                    request, timeout=self._request_timeout_s, metadata=connection.metadata[:1]
                )
        except ValueError as failure:
            raise BrokerUnreachable(
                f"{connection.address!r} is no address", cause=str(failure), hint="Use host:port"
            ) from failure
        if answer.HasField("error"):
            raise error_of(answer.error)
        return answer


def _closed_error() -> ClientClosed:
    return ClientClosed("The client was closed", hint="Make a new one")


def _cut_off(address: str) -> BrokerUnreachable:
    """What is said where somebody has cancelled all tasks of the loop, also those of clients."""
    return BrokerUnreachable(
        f"The connection to the broker at {address} was cancelled while it was made",
        hint="A new one is made for the next call",
    )


def _look_at(opening: asyncio.Task[Connection]) -> None:
    """Whoever asked for the connection may have been cancelled meanwhile."""
    if not opening.cancelled():
        opening.exception()


def _failed(opening: asyncio.Task[Connection]) -> bool:
    return opening.cancelled() or opening.exception() is not None
