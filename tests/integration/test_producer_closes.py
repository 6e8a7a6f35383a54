"""Closings that are cut off, come at once, or come from a callback: each record has its verdict."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidelog import AsyncProducer, ClientClosed, Producer, Refused
from tidelog_node.testing import InProcessCluster

FOREVER_MS = 600_000


def test_a_closing_that_is_cancelled_leaves_no_record_without_a_verdict(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        producer = AsyncProducer(tidelog_cluster.address)
        await producer.send("orders", b"first")
        tidelog_cluster.cut_network(silently=True)
        delivery = producer.send_nowait("orders", b"under way")
        assert producer._pipeline is not None
        producer._pipeline._questions.close = cancelled  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await producer.close(0)
        assert delivery.done()

    asyncio.run(main())


def test_a_record_whose_topic_was_not_even_asked_for_is_refused(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def main() -> None:
        producer = AsyncProducer(tidelog_cluster.address)
        delivery = producer.send_nowait("orders", b"at once")
        with pytest.raises(Refused, match="1 record was not acknowledged"):
            await producer.close(0)
        with pytest.raises(ClientClosed):
            await delivery
        assert producer._accumulator.used_bytes == 0

    asyncio.run(main())


@pytest.mark.parametrize("end", [Producer.flush, Producer.close])
def test_a_record_of_a_topic_that_was_dropped_meanwhile_is_not_forgotten(
    tidelog_cluster: InProcessCluster, end: Callable[[Producer[bytes, bytes]], None]
) -> None:
    """Its `send` had looked up the route; no other leads to its batch any more."""
    with Producer[bytes, bytes](tidelog_cluster.address, linger_ms=FOREVER_MS) as producer:
        producer.send("orders", b"first").result()
        route = producer._accumulator.routes.pop("orders")
        delivery = producer._accumulator.add(route, 0, b"late", None, (), 0)
        end(producer)
        assert delivery.done()
        assert delivery.result().partition == 0


def test_a_close_in_a_callback_is_waited_for_by_the_next(
    tidelog_cluster: InProcessCluster,
) -> None:
    goes_on, closed_itself = threading.Event(), threading.Event()
    producer: Producer[bytes, bytes] = Producer(tidelog_cluster.address)
    close_questions: Callable[[], Awaitable[None]] = producer._pipeline._questions.close

    async def close_late() -> None:
        await asyncio.get_running_loop().run_in_executor(threads, goes_on.wait)
        await close_questions()

    def close(_: object) -> None:
        producer.close()
        closed_itself.set()

    producer._pipeline._questions.close = close_late  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as threads:
        producer.send("orders", b"first", on_delivery=close)
        closed_itself.wait()
        producer.close(0)  # waits for nothing, and takes nothing from who would wait
        other = threads.submit(producer.close)
        try:
            with pytest.raises(TimeoutError):
                other.result(0.2)
        finally:
            goes_on.set()
        other.result()
    assert not producer._thread.is_alive
