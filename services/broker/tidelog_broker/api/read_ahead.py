"""The requests of one stream, a large one coming in while the one before it is written.

gRPC moves a message's bytes while somebody waits for it, in a thread of its own; a broker that
waits only once it has written the last request leaves one of the two idle at any time. Small
requests are in gRPC's window anyway, and asking for each by a task would cost more than it gives.
Invariant: at most one request is held beside the one that is served, none while the broker holds
all it may, none by a stream that is idle, and nobody is left waiting once the reader has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from grpc.aio import EOF

from tidelog.wire.envelopes import Incoming
from tidelog_broker.in_flight import InFlightBytes

#: The next request of a stream, or EOF. An iterator of gRPC's would keep what it gave last.
Read = Callable[[], Awaitable[Any]]


async def read_ahead(read: Read, in_flight: InFlightBytes) -> AsyncGenerator[Incoming[Any], None]:
    """The requests in their order; it is to be closed (`aclosing`) by who leaves it."""
    ahead: asyncio.Task[Any] | None = None
    try:
        while True:
            request = await (read() if ahead is None else ahead)
            ahead = None
            if request is EOF:
                return
            if _is_large(request) and in_flight.has_room:
                ahead = asyncio.create_task(_await(read), name="read-ahead")
                await asyncio.sleep(0)  # else it would start once this request is served
            yield request
            del request  # an idle stream would keep its last one
    finally:
        if ahead is not None:
            await _give_up(ahead)


def _is_large(request: Incoming[Any]) -> bool:
    """Whether its payloads were left in the message that arrived."""
    return bool(request.content)


async def _await(read: Read) -> Any:
    return await read()


async def _give_up(ahead: asyncio.Task[Any]) -> None:
    ahead.cancel()
    # How it ended is nobody's concern any more, and asyncio complains of what is never looked at.
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await ahead
