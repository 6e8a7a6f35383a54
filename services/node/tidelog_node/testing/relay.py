"""The network between clients and the node of a test: a relay that can be cut and healed.

Clients of `InProcessCluster` dial the relay, which passes bytes on to the node. Its address stays
while the node stops, starts and changes its own. Invariant: bytes are passed on in order or their
connection ends; a relay never drops some and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

READ_BYTES: Final = 256 * 1024


class Relay:
    """Listens at a free port of this machine; belongs to one event loop."""

    def __init__(self) -> None:
        #: Where the node listens; None while there is no node, and then connections end at once.
        self.target: tuple[str, int] | None = None
        self.host = "127.0.0.1"
        self.port = 0
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        #: Who passes bytes on, each with the connection a client made.
        self._passing: dict[asyncio.Task[None], socket.socket] = {}
        self._is_refusing = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        #: Whether bytes, or a new connection, wait for a silent cut to be healed.
        self.is_holding_back = False

    @property
    def address(self) -> str:
        """What clients dial."""
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Begins to listen."""
        self._listening = socket.create_server((self.host, 0))
        self._listening.setblocking(False)
        self.port = self._listening.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(self._listening), name="tidelog-relay")

    async def stop(self) -> None:
        """Ends every connection and listens no more."""
        if self._accepting is not None and self._listening is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._listening.close()
        await self.drop_connections()

    async def cut(self, *, silently: bool) -> None:
        """No byte passes any more. Silently: connections stay and nobody is told."""
        self._is_refusing = not silently
        if silently:
            self._flowing.clear()
        else:
            await self.drop_connections()

    def heal(self) -> None:
        """Bytes pass again, those held back by a silent cut first."""
        self._is_refusing = False
        self.is_holding_back = False
        self._flowing.set()

    async def drop_connections(self) -> None:
        """Resets what is connected now."""
        passing = dict(self._passing)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        for connection in passing.values():
            connection.close()  # of a task that was cancelled before its first step

    async def _accept(self, listening: socket.socket) -> None:
        """Not `asyncio.start_server`: what that accepts just before its end is closed by nobody."""
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listening)
            # asyncio does so by itself only for the sockets that it made: small answers would wait.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.create_task(self._pass_on(connection), name="tidelog-relay-connection")
            self._passing[task] = connection
            task.add_done_callback(self._passing.pop)

    async def _pass_on(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            await self._connect_and_pass(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two sides is gone, or the network was cut: both shall notice
        finally:
            await end(writer)

    async def _connect_and_pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._passage()
        if self._is_refusing or self.target is None:
            return
        node_reader, node_writer = await asyncio.open_connection(*self.target)
        directions = [
            asyncio.create_task(self._pump(reader, node_writer), name="tidelog-relay-to-node"),
            asyncio.create_task(self._pump(node_reader, writer), name="tidelog-relay-to-client"),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            await end(node_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(READ_BYTES):
            await self._passage()
            writer.write(data)
            await writer.drain()

    async def _passage(self) -> None:
        if not self._flowing.is_set():
            self.is_holding_back = True
            await self._flowing.wait()


async def end(writer: asyncio.StreamWriter) -> None:
    """Resets a connection and waits until its socket is closed."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
