"""Requests that come in while the one before is served: which, how many, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import aclosing
from typing import Any

import pytest
from grpc.aio import EOF

from tidelog.wire.envelopes import PRODUCE, Incoming
from tidelog.wire.v1 import produce_pb2
from tidelog_broker.api.read_ahead import read_ahead
from tidelog_broker.in_flight import InFlightBytes

Request = Incoming[produce_pb2.ProduceRequest]

#: More turns of the loop than anything here takes.
TURNS = 20


def request(number: int, batch_bytes: int) -> Request:
    """A request as it arrives; large ones leave their batches in the message."""
    message = produce_pb2.ProduceRequest(correlation_id=number)
    message.partitions.add(topic="orders", batch=b"x" * batch_bytes)
    return PRODUCE.split(message.SerializeToString())


def large(number: int) -> Request:
    return request(number, 100_000)


def small(number: int) -> Request:
    return request(number, 100)


class Sent:
    """What a client sent, and how many of it were asked for; without an end, more is waited for."""

    def __init__(self, *requests: Request, end: object = None) -> None:
        self._requests = list(requests)
        self._end = end
        self.asked = 0
        self.cancelled = False

    async def read(self) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        if self._requests:
            return self._requests.pop(0)
        if self._end is EOF:
            return EOF
        if isinstance(self._end, Exception):
            raise self._end
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def others() -> set[asyncio.Task[object]]:
    """Tasks beside the one that asks."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def asked_while_served(sent: Sent, in_flight: InFlightBytes) -> list[tuple[int, int]]:
    """The number of each request, and how many were asked for by the end of its service."""
    seen = []
    async with aclosing(read_ahead(sent.read, in_flight)) as taken:
        async for one in taken:
            await turns()
            seen.append((one.message.correlation_id, sent.asked))
    assert not others()
    return seen


def test_one_request_comes_in_while_a_large_one_is_served() -> None:
    sent = Sent(large(0), large(1), large(2), end=EOF)
    seen = asyncio.run(asked_while_served(sent, InFlightBytes(1)))
    assert seen == [(0, 2), (1, 3), (2, 4)]


def test_it_is_asked_for_before_the_first_turn_of_the_service() -> None:
    async def main() -> None:
        sent = Sent(large(0), large(1))
        async with aclosing(read_ahead(sent.read, InFlightBytes(1))) as taken:
            await anext(taken)
            assert sent.asked == 2

    asyncio.run(main())


def test_small_requests_are_asked_for_one_by_one() -> None:
    sent = Sent(small(0), large(1), small(2), small(3), end=EOF)
    seen = asyncio.run(asked_while_served(sent, InFlightBytes(1)))
    assert seen == [(0, 1), (1, 3), (2, 3), (3, 4)]


def test_none_comes_in_while_the_broker_holds_all_it_may() -> None:
    full = InFlightBytes(1)
    full.add(1)
    sent = Sent(large(0), large(1), end=EOF)
    assert asyncio.run(asked_while_served(sent, full)) == [(0, 1), (1, 2)]


def test_what_ends_the_stream_comes_behind_the_request_before_it() -> None:
    async def main() -> None:
        sent = Sent(large(0), end=ValueError("the next one is no request"))
        async with aclosing(read_ahead(sent.read, InFlightBytes(1))) as taken:
            served = await anext(taken)
            await turns()
            assert served.message.correlation_id == 0
            with pytest.raises(ValueError, match="no request"):
                await anext(taken)
        assert not others()

    asyncio.run(main())


def test_who_leaves_leaves_nobody_waiting_and_no_complaint() -> None:
    async def main() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        waited = Sent(large(0))
        failed = Sent(large(0), end=ValueError("nobody asked for it any more"))
        for sent in (waited, failed):
            async with aclosing(read_ahead(sent.read, InFlightBytes(1))) as taken:
                await anext(taken)
                await turns()
            assert not others()
        assert waited.cancelled
        gc.collect()
        assert not complaints

    asyncio.run(main())


def test_who_is_cancelled_while_it_waits_leaves_nobody_waiting() -> None:
    async def main() -> None:
        sent = Sent(large(0))

        async def read() -> None:
            async with aclosing(read_ahead(sent.read, InFlightBytes(1))) as taken:
                async for _ in taken:
                    pass

        reader = asyncio.create_task(read(), name="reader")
        await turns()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert sent.cancelled
        assert not others()

    asyncio.run(main())


class Watched(list[int]):
    """A part of a request that can be watched, which bytes and messages can't."""


def test_an_idle_stream_keeps_no_request() -> None:
    async def main() -> None:
        part = Watched()
        watched = weakref.ref(part)
        sent = Sent(large(0)._replace(begins=part))
        del part

        async def read() -> None:
            async with aclosing(read_ahead(sent.read, InFlightBytes(1))) as taken:
                async for one in taken:
                    assert one.content
                    del one

        reader = asyncio.create_task(read(), name="reader")
        await turns()
        assert sent.asked == 2
        assert watched() is None
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    asyncio.run(main())
