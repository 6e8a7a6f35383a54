"""Closings that are cut off, come at once, or come from a callback: each record has its verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from tidelog import AsyncProducer, ClientClosed, Consumer, Producer, Refused, RequestTimedOut
from tidelog.errors import InvalidRequest, TidelogError
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


def test_a_callback_may_close_what_is_just_being_closed(tidelog_cluster: InProcessCluster) -> None:
    with Producer[bytes, bytes](tidelog_cluster.address, linger_ms=FOREVER_MS) as producer:
        delivery = producer.send("orders", b"first", on_delivery=lambda _: producer.close())
    assert delivery.result().offset == 0
    assert not producer._thread.is_alive


def test_who_closes_with_a_limit_waits_no_longer_for_another_who_closes(
    tidelog_cluster: InProcessCluster,
) -> None:
    producer = Producer[bytes, bytes](tidelog_cluster.address)
    producer.send("orders", b"first").result()
    tidelog_cluster.cut_network(silently=True)
    delivery = producer.send("orders", b"under way")
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(producer.close)
        while not producer._is_closed:
            threading.Event().wait(0)
        producer.close(0)
        assert not first.done()
        tidelog_cluster.heal_network()
        first.result()
    assert delivery.result().offset == 1


def interrupted(producer: Producer[bytes, bytes], handler: Callable[[], object]) -> None:
    """Lets a handler come while the next batch is begun, as a signal might have it."""
    accumulator = producer._accumulator

    def clock() -> float:
        accumulator._clock = time.monotonic
        handler()
        return time.monotonic()

    accumulator._clock = clock


def test_a_close_in_the_midst_of_a_send_is_waited_for_by_the_next(
    tidelog_cluster: InProcessCluster,
) -> None:
    producer = Producer[bytes, bytes](tidelog_cluster.address)
    producer.send("orders", b"first").result()
    interrupted(producer, producer.close)
    delivery = producer.send("orders", b"second")
    with pytest.raises(ClientClosed):
        producer.send("orders", b"third")
    producer.close()
    assert not producer._thread.is_alive
    assert delivery.done()
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"first", b"second"]


def test_in_the_midst_of_a_send_nothing_is_waited_for(tidelog_cluster: InProcessCluster) -> None:
    with Producer[bytes, bytes](tidelog_cluster.address, linger_ms=FOREVER_MS) as producer:
        pending = producer.send("orders", b"first", partition=0)
        producer._accumulator.seal_all([])
        refused: list[str] = []

        def handler() -> None:
            for call in (producer.flush, pending.result, lambda: producer.send("orders", b"no")):
                with pytest.raises(InvalidRequest) as refusal:
                    call()
                refused.append(str(refusal.value))

        interrupted(producer, handler)
        producer.send("orders", b"second").result()
        assert [words.count("in the midst of") for words in refused] == [1, 1, 1]
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"first", b"second"]


def test_a_closing_that_is_cancelled_early_waits_no_longer(
    tidelog_cluster: InProcessCluster,
) -> None:
    """What was under way would have kept it until the delivery timeout, which is for ever here."""

    async def main() -> None:
        producer = AsyncProducer(tidelog_cluster.address, delivery_timeout_ms=FOREVER_MS)
        await producer.send("orders", b"first")
        tidelog_cluster.cut_network(silently=True)
        under_way = producer.send_nowait("orders", b"under way")
        staged = producer.send_nowait("never asked for", b"staged")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert under_way.done()
        assert staged.done()

    asyncio.run(main())


def test_a_closing_that_is_cancelled_twice_leaves_nothing_on_the_loop(
    tidelog_cluster: InProcessCluster,
) -> None:
    """The second time comes before what ends the lanes had its first step."""

    async def main() -> None:
        producer = AsyncProducer(tidelog_cluster.address, delivery_timeout_ms=FOREVER_MS)
        await producer.send("orders", b"first")
        assert producer._pipeline is not None
        pipeline, [lane] = producer._pipeline, producer._pipeline._lanes.values()
        tidelog_cluster.cut_network(silently=True)
        delivery = producer.send_nowait("orders", b"under way")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        close_lanes = pipeline._close_lanes

        async def cancelled_again() -> None:
            asyncio.get_running_loop().call_soon(closing.cancel)
            await close_lanes()

        pipeline._close_lanes = cancelled_again  # type: ignore[method-assign]
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert delivery.done()
        await asyncio.wait([lane._task])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    gc.collect()  # a call whose end was cut off keeps a thread of grpc's until then


def test_a_second_close_waits_for_the_first_one(tidelog_cluster: InProcessCluster) -> None:
    async def main() -> None:
        producer = AsyncProducer(tidelog_cluster.address, linger_ms=FOREVER_MS)
        await producer.send("orders", b"first")
        delivery = producer.send_nowait("orders", b"second")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        with pytest.raises(InvalidRequest, match="holds up the event loop"):
            delivery.result()
        await producer.close(0)
        assert not closing.done()
        await producer.close()
        assert delivery.done()
        await closing

    asyncio.run(main())


def test_a_forked_child_waits_for_nobody_who_was_closing(
    tidelog_cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that held the lock at the fork is not there to let it go."""
    with (
        Producer[bytes, bytes](tidelog_cluster.address) as producer,
        ThreadPoolExecutor(1) as threads,
    ):
        threads.submit(producer._closing.acquire).result()
        with monkeypatch.context() as forked:
            forked.setattr(producer, "_process_id", 0)
            producer.close()
        threads.submit(producer._closing.release).result()


def test_a_close_that_is_interrupted_before_it_began_is_made_by_the_next(
    tidelog_cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    producer = Producer[bytes, bytes](tidelog_cluster.address, linger_ms=FOREVER_MS)
    delivery = producer.send("orders", b"first")
    with monkeypatch.context() as early:
        early.setattr(producer._thread, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.close()
    producer.close()
    assert delivery.done()
    assert not producer._thread.is_alive


def test_who_comes_just_behind_a_close_meets_no_closed_loop(
    tidelog_cluster: InProcessCluster,
) -> None:
    """A record that was added before the end wakes the engine behind it; a reader gives back."""
    producer = Producer[bytes, bytes](tidelog_cluster.address)
    consumer = Consumer(tidelog_cluster.address)
    producer.close()
    consumer.close()
    producer._wake()
    consumer._give_back("anywhere", 1 << 40)


def test_a_close_that_is_interrupted_as_it_begins_keeps_nobody_out(
    tidelog_cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes once the lock is taken, and before anybody knows that it was."""
    producer = Producer(tidelog_cluster.address)
    real = producer._closing

    class Interrupting:
        def acquire(self, timeout: float) -> bool:
            real.acquire(timeout=timeout)
            raise KeyboardInterrupt

        def release(self) -> None:
            real.release()

    monkeypatch.setattr(producer, "_closing", Interrupting())
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    monkeypatch.setattr(producer, "_closing", real)
    with ThreadPoolExecutor(1) as others:
        others.submit(producer.close, 60).result()
    assert not producer._thread.is_alive


def test_room_that_another_thread_is_quicker_to_take_is_no_missing_room(
    tidelog_cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was told that there is room need not look again: it may go beyond by a record."""
    with Producer(tidelog_cluster.address, buffer_memory=10_000, linger_ms=FOREVER_MS) as producer:
        first = producer.send("orders", bytes(9_000))
        producer.send("orders", bytes(9_000), partition=0)
        monkeypatch.setattr(producer, "_room", Mock(wait_for=lambda *_: True))
        last = producer.send("orders", b"beyond")
        assert {first.result().offset, last.result().offset} <= {0, 1, 2}


def test_a_wait_that_has_ended_leaves_nothing_with_the_record(
    tidelog_cluster: InProcessCluster,
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"before").result()
        tidelog_cluster.cut_network(silently=True)
        delivery = producer.send("orders", b"under way")
        for _ in range(3):
            with pytest.raises(RequestTimedOut):
                delivery.result(timeout=0)
        assert delivery._batch._callbacks == []
        tidelog_cluster.heal_network()
        delivery.result()


class ClosingHandler(logging.Handler):
    """A log in the midst of which a signal's handler closes a producer, within a limit."""

    def __init__(self, producer: Producer[bytes, bytes]) -> None:
        super().__init__()
        self._producer = producer
        self.refusals: list[TidelogError] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Holds the lock of this log meanwhile, as every handler does."""
        with pytest.raises(TidelogError) as refusal:
            self._producer.close(0)
        self.refusals.append(refusal.value)


def test_who_closes_while_he_holds_a_log_waits_for_nothing_that_is_logged(
    tidelog_cluster: InProcessCluster,
) -> None:
    producer = Producer[bytes, bytes](tidelog_cluster.address)
    producer.send("orders", b"first").result()
    tidelog_cluster.cut_network(silently=True)
    delivery = producer.send("orders", b"under way")
    handler = ClosingHandler(producer)
    log = logging.getLogger("tidelog.producer")
    log.addHandler(handler)
    try:
        log.warning("A program is just logging something")
    finally:
        log.removeHandler(handler)
    assert delivery.done()
    assert "1 record was not acknowledged" in str(handler.refusals[0])
    assert len(handler.refusals) == 1
