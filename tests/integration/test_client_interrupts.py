"""Somebody presses Ctrl-C while a client closes: it ends, and every record has a verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidelog import OutcomeUnknown, Producer, Refused
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
