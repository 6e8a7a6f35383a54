"""The network between clients and the node of a test: a relay that can be cut and healed.

Clients of `InProcessCluster` dial the relay, which passes bytes on to the node. Its address stays
while the node stops, starts and changes its own. Invariant: bytes are passed on in order or their
connection ends; a relay never drops some and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

READ_BYTES: Final = 256 * 1024

#: Turns of the loop from a connection accepted by asyncio until this module hears of it.
TURNS_TO_ACCEPT: Final = 4


class Relay:
    """Listens at a free port of this machine; belongs to one event loop."""

    def __init__(self) -> None:
        #: Where the node listens; None while there is no node, and then connections end at once.
        self.target: tuple[str, int] | None = None
        self.host = "127.0.0.1"
        self.port = 0
        self._server: asyncio.Server | None = None
        #: Who passes bytes on, each with the client's end of its connection.
        self._passing: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
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
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Ends every connection and listens no more."""
        if self._server is not None:
            self._server.close()
        for _ in range(TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
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
        for task, writer in passing.items():
            task.cancel()
            writer.transport.abort()  # here too: a task cancelled before its first step does not
        await asyncio.gather(*passing, return_exceptions=True)
        await asyncio.gather(
            *(writer.wait_closed() for writer in passing.values()), return_exceptions=True
        )

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_on(reader, writer), name="tidelog-relay")
        self._passing[task] = writer
        task.add_done_callback(self._passing.pop)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._connect_and_pass(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two sides is gone, or the network was cut: both shall notice
        finally:
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
            with contextlib.suppress(OSError):
                await node_writer.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(READ_BYTES):
            await self._passage()
            writer.write(data)
            await writer.drain()

    async def _passage(self) -> None:
        if not self._flowing.is_set():
            self.is_holding_back = True
            await self._flowing.wait()
