"""A lane's stream that the broker ends in the very moment in which the producer does."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc.aio
import pytest

from tidelog.engine.connections import Connections
from tidelog.producer.lane import BrokerLane, Station


class EndedCall:
    """A call that the other side has ended, which the reader does not know yet."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    async def done_writing(self) -> None:
        """Fails as gRPC does then."""
        raise self._failure

    def cancel(self) -> None:
        """Nothing is left to cancel."""


@pytest.mark.parametrize(
    "failure",
    [grpc.aio.InternalError("Failed"), grpc.aio.UsageError("done"), asyncio.InvalidStateError()],
)
def test_a_stream_that_ends_while_the_producer_ends_it_is_no_failure(failure: Exception) -> None:
    async def end() -> bool:
        unused: Any = None
        lane = BrokerLane(
            "127.0.0.1:1",
            cast(Station, unused),
            cast(Connections, unused),
            max_in_flight=5,
            request_timeout_s=1.0,
        )
        lane._task.cancel()
        reader: asyncio.Task[Any] = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(reader.cancel)
        await lane._end_stream(EndedCall(failure), reader)
        return reader.done()

    assert asyncio.run(end())
