"""Ends of a lane that come in an odd moment: each batch that it had collected is heard of once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc.aio
import pytest

from tidelog.engine.connections import Connections
from tidelog.errors import TidelogError
from tidelog.producer.lane import BrokerLane, Station
from tidelog.wire.envelopes import PRODUCE, Outgoing
from tidelog.wire.v1 import produce_pb2


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
        lane.end()
        reader: asyncio.Task[Any] = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(reader.cancel)
        await lane._end_stream(EndedCall(failure), reader)
        return reader.done()

    assert asyncio.run(end())


class EndingCall:
    """A call that goes on though nothing more will be written to it."""

    def __init__(self) -> None:
        self.is_cancelled = False

    async def done_writing(self) -> None:
        """Takes note."""

    def cancel(self) -> None:
        """Ends it."""
        self.is_cancelled = True


def test_who_is_cancelled_while_a_stream_ends_gives_it_up() -> None:
    async def end() -> None:
        call = EndingCall()
        unused: Any = None
        lane = BrokerLane(
            "127.0.0.1:1",
            cast(Station, unused),
            cast(Connections, unused),
            max_in_flight=5,
            request_timeout_s=1.0,
        )
        lane.end()
        reader: asyncio.Task[Any] = asyncio.create_task(asyncio.Event().wait())
        ending = asyncio.create_task(lane._end_stream(call, reader))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert call.is_cancelled
        with pytest.raises(asyncio.CancelledError):
            await reader

    asyncio.run(end())


class DeafCall:
    """A call whose requests nobody answers, until it is cancelled."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    async def write(self, request: object) -> None:
        """Takes it."""
        if self._ended.is_set():
            raise asyncio.InvalidStateError

    async def read(self) -> Any:
        """Waits for the end."""
        await self._ended.wait()
        return grpc.aio.EOF

    async def code(self) -> grpc.StatusCode:
        """What it ended with."""
        return grpc.StatusCode.CANCELLED

    async def details(self) -> str:
        """No words."""
        return ""

    def cancel(self) -> None:
        """Ends it."""
        self._ended.set()


class DeafBroker:
    """Connections to a broker that answers nothing."""

    metadata = ()

    async def get(self, address: str) -> DeafBroker:
        """There is one."""
        return self

    def produce_stream(self, metadata: object) -> DeafCall:
        """A stream on it."""
        return DeafCall()

    def drop(self, connection: object) -> None:
        """It is of no use any more."""


class Listening:
    """A station with these batches, one a request; notes what it hears of them."""

    def __init__(self, *batches: str, hears: int) -> None:
        self._batches = list(batches)
        self._hears = hears
        self.during_encode: dict[str, Callable[[], Awaitable[object]]] = {}
        self.heard: list[tuple[str, Any]] = []
        self.has_heard_all = asyncio.Event()

    def collect(self, address: str) -> list[Any]:
        """See `Station`."""
        return [self._batches.pop(0)] if self._batches else []

    async def encode(self, batches: list[Any]) -> list[Any]:
        """See `Station`; something may come meanwhile."""
        if batches[0] in self.during_encode:
            await self.during_encode.pop(batches[0])()
        return batches

    def request_of(self, batches: list[Any]) -> Any:
        """See `Station`."""
        return Outgoing(PRODUCE, produce_pb2.ProduceRequest())

    def on_written(self, batches: list[Any]) -> bool:
        """See `Station`."""
        return False

    def on_lost(self, batches: list[Any], error: TidelogError) -> None:
        """See `Station`."""
        self._hear("lost", batches)

    def on_turned_away(self, batches: list[Any], error: TidelogError) -> None:
        """See `Station`."""
        self._hear("turned away", batches)

    def on_cancelled(self, address: str) -> None:
        """See `Station`."""
        self._hear("cancelled", address)

    def _hear(self, what: str, of: Any) -> None:
        self.heard.append((what, of))
        if len(self.heard) == self._hears:
            self.has_heard_all.set()


def lane_of(station: Listening) -> BrokerLane:
    lane = BrokerLane(
        "127.0.0.1:1",
        cast(Station, station),
        cast(Connections, DeafBroker()),
        max_in_flight=5,
        request_timeout_s=1000.0,
    )
    lane.wake()
    return lane


def test_a_lane_that_somebody_cancels_says_what_it_had_and_that_it_is_gone() -> None:
    async def end() -> list[tuple[str, Any]]:
        station = Listening("unanswered", "being encoded", hears=3)
        lane = lane_of(station)
        encoding = asyncio.Event()

        async def for_ever() -> None:
            encoding.set()
            await asyncio.Event().wait()

        station.during_encode["being encoded"] = for_ever
        await encoding.wait()
        lane._task.cancel()
        await station.has_heard_all.wait()
        return station.heard

    assert asyncio.run(end()) == [
        ("turned away", ["being encoded"]),
        ("lost", ["unanswered"]),
        ("cancelled", "127.0.0.1:1"),
    ]


def test_a_batch_that_is_encoded_while_the_stream_is_given_up_is_lost_with_it() -> None:
    async def end() -> list[tuple[str, Any]]:
        station = Listening("unanswered", "being encoded", hears=2)
        lane = lane_of(station)

        async def give_up() -> None:
            lane._request_timeout_s = 0.0
            lane._look()

        station.during_encode["being encoded"] = give_up
        await station.has_heard_all.wait()
        await lane.close()
        return station.heard

    assert asyncio.run(end()) == [("lost", ["unanswered"]), ("lost", ["being encoded"])]
