"""Somebody presses Ctrl-C while a client closes: it ends, and every record has a verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidelog import (
    AsyncProducer,
    Delivery,
    OutcomeUnknown,
    Producer,
    Refused,
    RequestTimedOut,
)
from tidelog_node.testing import InProcessCluster

INTERRUPTED_AFTER_S = 0.3


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
    """An error that was caught keeps its call, and so a thread of grpc's, until it is collected."""
    yield
    gc.collect()


@contextmanager
def interrupted() -> Iterator[None]:
    """Expects to be left by the KeyboardInterrupt that it lets come."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, INTERRUPTED_AFTER_S)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_producer_that_is_interrupted_while_closing(
    tidelog_cluster: InProcessCluster, is_silent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(tidelog_cluster.address)
    producer.send("orders", b"before").result()
    tidelog_cluster.cut_network(silently=is_silent)
    handle = producer.send("orders", b"cut off")
    with caplog.at_level(logging.ERROR, logger=asyncio.__name__), interrupted():
        producer.close()
    assert handle.done()
    assert isinstance(handle.exception(0), OutcomeUnknown | Refused)
    assert not caplog.records
    producer.close()


def test_what_an_interrupted_close_could_not_tell_the_next_one_does(
    tidelog_cluster: InProcessCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(tidelog_cluster.address)
    producer.send("orders", b"before").result()
    tidelog_cluster.cut_network(silently=True)
    producer.send("orders", b"cut off")
    with interrupted():
        producer.close()
    assert "The closing of a producer was interrupted: 1 record was not" in caplog.text
    with pytest.raises(OutcomeUnknown, match="1 record was not acknowledged"):
        producer.close()
    producer.close()


def test_a_wait_that_was_interrupted_says_nothing_of_the_thread_that_was_waited_for(
    tidelog_cluster: InProcessCluster,
) -> None:
    """Python takes a thread for dead whose `join` was interrupted; its records go on."""
    producer = Producer(tidelog_cluster.address)
    producer.send("orders", b"before").result()
    is_called, may_close, closes = threading.Event(), threading.Event(), threading.Event()

    def close(_: Delivery) -> None:
        is_called.set()
        may_close.wait()
        producer.close()
        closes.set()

    producer.send("orders", b"first", on_delivery=close)
    is_called.wait()
    tidelog_cluster.cut_network(silently=True)
    handle = producer.send("orders", b"second")
    may_close.set()
    closes.wait()
    with interrupted():
        producer.close()
    assert not handle.done()
    with pytest.raises(RequestTimedOut):
        handle.result(timeout=0)
    tidelog_cluster.heal_network()
    producer.close()
    assert handle.result(timeout=0).offset == 2


ENDS_BEHIND_A_CLOSE = """
import sys, threading
from tidelog import Producer
from tidelog.producer import producer as module
from tidelog_node.testing import InProcessCluster
module.EXIT_LIMIT_S = 0.5
cluster = InProcessCluster()
cluster.start()
producer = Producer(cluster.address)
producer.send("orders", b"before").result()
begun, go_on, closes = threading.Event(), threading.Event(), threading.Event()
def close(_):
    begun.set(); go_on.wait(); producer.close(); closes.set()
producer.send("orders", b"first", on_delivery=close)
begun.wait()
cluster.cut_network(silently=True)
producer.send("orders", b"second")
go_on.set(); closes.wait()
"""


def test_at_exit_a_record_behind_an_unwaited_close_is_told_of() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_BEHIND_A_CLOSE], capture_output=True, text=True, check=False
    )
    assert "At exit, from a producer that was never closed: 1 record was not" in ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_what_a_signal_raises_in_a_callback_ends_the_program(
    tidelog_cluster: InProcessCluster, ending: type[BaseException]
) -> None:
    """As it would anywhere else on the main thread; the verdicts of others are told before."""
    told: list[Delivery] = []
    producer = AsyncProducer(tidelog_cluster.address)

    def leave(_: Delivery) -> None:
        raise ending

    async def send() -> None:
        await producer.send("orders", b"before")
        producer.send_nowait("orders", b"1", on_delivery=leave)
        producer.send_nowait("orders", b"2", on_delivery=told.append)

    with asyncio.Runner() as runner:
        runner.run(send())
        with pytest.raises(ending):
            runner.get_loop().run_forever()
        runner.run(producer.close())
    assert len(told) == 1
