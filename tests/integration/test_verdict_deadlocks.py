"""Who waits for a verdict in the thread that would bring it hears so, and nothing stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.hang_guard import HANG_S
from tidelog import AsyncProducer, Deliveries, Delivery, Producer
from tidelog.errors import InvalidRequest, TidelogError
from tidelog_node.testing import InProcessCluster

WAYS: list[Callable[[Any, float], object]] = [
    lambda sent, limit_s: sent.result(limit_s),
    lambda sent, limit_s: (
        sent.exception(limit_s) if isinstance(sent, Delivery) else sent.confirm(limit_s)
    ),
]


@pytest.mark.parametrize("wait", WAYS)
@pytest.mark.parametrize("many", [False, True])
def test_a_delivery_callback_that_waits_for_another_verdict(
    tidelog_cluster: InProcessCluster, wait: Callable[[Any, float], object], many: bool
) -> None:
    errors: list[TidelogError] = []
    with Producer(tidelog_cluster.address) as producer:

        def send_and_wait(_: Delivery) -> None:
            sent: Delivery | Deliveries = (
                producer.send_many("orders", [b"second"]) if many else producer.send("orders", b"x")
            )
            try:
                wait(sent, HANG_S)
            except TidelogError as error:
                errors.append(error)

        first = producer.send("orders", b"first", on_delivery=send_and_wait)
        assert first.result(HANG_S).offset == 0
        producer.flush(HANG_S)
        assert producer.send("orders", b"third").result(HANG_S).offset == 2
    (error,) = errors
    assert isinstance(error, InvalidRequest)
    assert "A delivery callback called the producer in a way that has to wait" in str(error)


@pytest.mark.parametrize("wait", WAYS)
def test_a_verdict_that_is_waited_for_on_its_own_loop(
    tidelog_cluster: InProcessCluster, wait: Callable[[Any, float], object]
) -> None:
    async def use() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            await producer.send("orders", b"first")
            sent = producer.send_nowait("orders", b"second")
            with pytest.raises(InvalidRequest, match="Write `await delivery`"):
                wait(sent, HANG_S)
            assert (await sent).offset == 1
            assert sent.result().offset == 1  # known by now: nobody has to wait
            late = producer.send_nowait("orders", b"third")
            receipt = await asyncio.to_thread(late.result, HANG_S)
            assert receipt.offset == 2

    asyncio.run(use())


def test_a_thread_of_its_own_sends_for_a_loop_that_waits(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def use() -> None:
        with Producer(tidelog_cluster.address) as producer:
            assert producer.send("orders", b"first").result(HANG_S).offset == 0

    asyncio.run(use())
