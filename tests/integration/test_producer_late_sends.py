"""Sends that another thread's `close` overtakes: taken with a verdict, or refused in words.

A serializer holds each of them back at the place where the closing has got to; none goes by luck.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tidelog import ClientClosed, Delivery, Producer, Refused
from tidelog_node.testing import InProcessCluster


class HeldBack:
    """A serializer that waits until it is let go, once somebody asked for that."""

    def __init__(self) -> None:
        self.holds = False
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, value: bytes) -> bytes:
        if self.holds:
            self.begun.set()
            self.let_go.wait()
        return value


class Overtaken:
    """A producer, and a send of another thread that stands in its serializer."""

    def __init__(self, producer: Producer[Any, Any], held: HeldBack) -> None:
        self.producer = producer
        self._held = held
        self.sent: Future[Delivery]

    def begin(self, threads: ThreadPoolExecutor) -> None:
        self._held.holds = True
        self.sent = threads.submit(self.producer.send, "orders", b"late")
        self._held.begun.wait()

    def go_on(self) -> None:
        """Lets the send end, as a value or an error."""
        self._held.let_go.set()
        self.sent.exception()

    def go_on_before(self, owner: object, name: str) -> None:
        """Has the send end before that step of the closing, which waits for it."""
        step: Callable[[], Awaitable[None]] = getattr(owner, name)

        async def wait_first() -> None:
            await asyncio.get_running_loop().run_in_executor(None, self.go_on)
            await step()

        setattr(owner, name, wait_first)


@contextmanager
def overtaken(address: str) -> Iterator[Overtaken]:
    held = HeldBack()
    with ThreadPoolExecutor(1) as threads, Producer(address, value=held) as producer:
        producer.send("orders", b"first").result()
        one = Overtaken(producer, held)
        one.begin(threads)
        yield one


def test_a_send_that_comes_once_all_is_closed(tidelog_cluster: InProcessCluster) -> None:
    with overtaken(tidelog_cluster.address) as late:
        late.producer.close()
        late.go_on()
        with pytest.raises(ClientClosed):
            late.sent.result()


def test_a_send_that_comes_behind_the_last_verdict(tidelog_cluster: InProcessCluster) -> None:
    with overtaken(tidelog_cluster.address) as late:
        late.go_on_before(late.producer._pipeline.cluster, "close")
        late.producer.close()
        with pytest.raises(ClientClosed):
            late.sent.result()


def test_a_send_that_is_still_taken_has_its_verdict(tidelog_cluster: InProcessCluster) -> None:
    with overtaken(tidelog_cluster.address) as late:
        late.go_on_before(late.producer._pipeline._questions, "close")
        with pytest.raises(Refused, match="1 record was not acknowledged"):
            late.producer.close()
        with pytest.raises(ClientClosed, match="before the record was sent"):
            late.sent.result().result()


def test_who_asks_when_closing_has_brought_the_verdict(tidelog_cluster: InProcessCluster) -> None:
    """The verdict comes between the look at it and the wish to hear it soon."""
    with Producer(tidelog_cluster.address, linger_ms=60_000) as producer:
        delivery = producer.send("orders", b"lingers")
        batch = delivery._batch
        hurry = batch.hurry

        def close_first(blocks: bool) -> None:
            producer.close()
            hurry(blocks)

        batch.hurry = close_first
        assert delivery.result().offset == 0
