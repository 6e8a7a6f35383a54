"""One fetch stream: what is said to a leader, and what it pushes.

The fetcher opens one for each leader. What is to be said gathers until the stream takes it, so that
many small wishes are one message. Invariant: `run` ends only by an error of Tidelog's, or by being
cancelled; it waits for nothing after the stream's end, so that nothing is said to a stream in vain.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

from tidelog.engine.calls import translated
from tidelog.engine.connections import Connection
from tidelog.engine.wire_errors import error_of
from tidelog.errors import BrokerUnreachable, TidelogError
from tidelog.wire.envelopes import Incoming
from tidelog.wire.v1 import fetch_pb2

OnResponse = Callable[[str, Incoming[fetch_pb2.FetchStreamResponse]], None]


class LeaderStream:
    """See the module."""

    def __init__(self, address: str, options: fetch_pb2.FetchOptions) -> None:
        self.address = address
        self._next = fetch_pb2.FetchStreamRequest(options=options)
        self._changed = asyncio.Event()
        self._is_over = False
        #: Before this time the leader wants to hear no more wishes.
        self._speaks_again_at = 0.0
        #: Why the broker ends the stream, in its own words.
        self._reason: TidelogError | None = None

    def grant(self, credit_bytes: int) -> None:
        """Lets the leader push so many bytes more."""
        self._next.credit_bytes += credit_bytes
        self._changed.set()

    def start(self, items: Iterable[fetch_pb2.FetchPartition]) -> None:
        """Has partitions pushed."""
        self._next.start.extend(items)
        self._changed.set()

    def stop(self, sessions: Iterable[int]) -> None:
        """Ends sessions."""
        self._next.stop.extend(sessions)
        self._changed.set()

    async def _requests(self) -> AsyncIterator[fetch_pb2.FetchStreamRequest]:
        while True:
            await self._changed.wait()
            pause_s = self._speaks_again_at - asyncio.get_running_loop().time()
            if pause_s > 0 and not self._is_over:
                await asyncio.sleep(pause_s)
            self._changed.clear()
            if self._is_over:
                return
            request, self._next = self._next, fetch_pb2.FetchStreamRequest()
            yield request

    async def run(self, connection: Connection, on_response: OnResponse) -> None:
        """Passes on what is pushed, until the stream breaks."""
        try:
            with translated(self.address):
                await self._listen(connection, on_response)
        except TidelogError as failure:
            if self._reason is None:
                raise
            raise self._reason from failure
        # A broker that gives a reason ends the stream behind it: it was waited for, so that
        # the broker's last word doesn't meet a cancelled call.
        raise self._reason or BrokerUnreachable(
            f"The broker at {self.address} has ended the stream"
        )

    async def _listen(self, connection: Connection, on_response: OnResponse) -> None:
        call = connection.fetch_stream(self._requests(), metadata=connection.metadata)
        try:
            async for response in call:
                if response.message.HasField("error"):
                    self._reason = error_of(response.message.error)
                else:
                    on_response(self.address, response)
                throttle_ms = response.message.throttle_ms
                if throttle_ms > 0:
                    now = asyncio.get_running_loop().time()
                    self._speaks_again_at = now + throttle_ms / 1000
        finally:
            self._is_over = True
            self._changed.set()
            call.cancel()
