"""The requests of one stream, a large one coming in while the one before it is written.

gRPC moves a message's bytes while somebody waits for it, in a thread of its own; a broker that
waits only once it has written the last request leaves one of the two idle at any time. Small
requests are in gRPC's window anyway, and asking for each by a task would cost more than it gives.
Invariant: at most one request is held beside the one that is served, none while the broker holds
all it may, and nobody is left waiting once the reader has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

from tidelog.wire.envelopes import Incoming
from tidelog_broker.in_flight import InFlightBytes

IncomingT = TypeVar("IncomingT", bound=Incoming[Any])


async def read_ahead(
    requests: AsyncIterator[IncomingT], in_flight: InFlightBytes
) -> AsyncGenerator[IncomingT, None]:
    """The same requests in the same order; it is to be closed (`aclosing`) by who leaves it."""
    ahead: asyncio.Task[IncomingT] | None = None
    try:
        while True:
            request = await (anext(requests) if ahead is None else ahead)
            ahead = None
            if _is_large(request) and in_flight.has_room:
                ahead = asyncio.create_task(_next_of(requests), name="read-ahead")
                await asyncio.sleep(0)  # else it would start once this request is served
            yield request
            del request  # an idle stream would keep its last one
    except StopAsyncIteration:
        return
    finally:
        if ahead is not None:
            await _give_up(ahead)


def _is_large(request: Incoming[Any]) -> bool:
    """Whether its payloads were left in the message that arrived."""
    return bool(request.content)


async def _next_of(requests: AsyncIterator[IncomingT]) -> IncomingT:
    return await anext(requests)


async def _give_up(ahead: asyncio.Task[Any]) -> None:
    ahead.cancel()
    # How it ended is nobody's concern any more, and asyncio complains of what is never looked at.
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await ahead
