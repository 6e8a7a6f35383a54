"""The network between clients and the node of a test: a relay that can be cut and healed.

Clients of `InProcessCluster` dial the relay, which passes bytes on to the node. Its address stays
while the node stops, starts and changes its own. Invariant: bytes are passed on in order or their
connection ends; a relay never drops some and goes on.
"""

from __future__ import annotations

import asyncio
from typing import Final

READ_BYTES: Final = 256 * 1024


class Relay:
    """Listens at a free port of this machine; belongs to one event loop."""

    def __init__(self) -> None:
        #: Where the node listens; None while there is no node, and then connections end at once.
        self.target: tuple[str, int] | None = None
        self.host = "127.0.0.1"
        self.port = 0
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
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
        self._server = await asyncio.start_server(self._pass_on, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Ends every connection and listens no more."""
        if self._server is not None:
            self._server.close()
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
        passing = list(self._passing)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            await self._connect_and_pass(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two sides is gone, or the network was cut: both shall notice
        finally:
            self._passing.discard(task)
            writer.transport.abort()

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
            node_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(READ_BYTES):
            await self._passage()
            writer.write(data)
            await writer.drain()

    async def _passage(self) -> None:
        if not self._flowing.is_set():
            self.is_holding_back = True
            await self._flowing.wait()
