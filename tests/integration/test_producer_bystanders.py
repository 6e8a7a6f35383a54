"""Who waits for a record, and how he stops waiting, is nothing to the verdicts of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from support.hang_guard import HANG_S
from tidelog import AsyncProducer, Producer
from tidelog.producer.delivery import BatchDelivery, Delivery
from tidelog_node.testing import InProcessCluster


def nothing(blocks: bool) -> None:
    """A hurry that nobody is in."""


def test_a_verdict_for_a_loop_that_is_closed_is_told_to_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch = BatchDelivery("orders", 0, nothing)
    told: list[str] = []

    async def abandon() -> None:
        waiting = asyncio.ensure_future(wait_for(Delivery(batch, 0, 0)))
        await asyncio.sleep(0)
        batch.when_settled(lambda: told.append("after"))
        waiting.cancel()

    asyncio.run(abandon())
    batch.settle(7, -1, None)
    assert told == ["after"]
    assert not caplog.records, "nobody waits: that is no failure"


async def wait_for(delivery: Delivery) -> None:
    """As whoever wants a receipt."""
    await delivery


def test_one_who_can_not_be_told_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    batch = BatchDelivery("orders", 0, nothing)
    told: list[str] = []

    def fail() -> None:
        raise KeyboardInterrupt

    batch.when_settled(fail)
    batch.when_settled(lambda: told.append("after"))
    batch.settle(7, -1, None)
    assert told == ["after"]
    assert "could not be told" in caplog.text


def test_an_abandoned_await_leaves_the_producer_as_it_was(
    tidelog_cluster: InProcessCluster,
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"first").result(HANG_S)

        async def abandon() -> list[Delivery]:
            tidelog_cluster.cut_network(silently=True)
            handles = [producer.send("orders", b"x") for _ in range(2)]
            waiting = asyncio.ensure_future(wait_for(handles[0]))
            await asyncio.sleep(0)
            waiting.cancel()
            return handles

        handles = asyncio.run(abandon())
        tidelog_cluster.heal_network()
        assert [handle.result(HANG_S).offset for handle in handles] == [1, 2]
        assert producer.send("orders", b"last").result(HANG_S).offset == 3


def raises(failure: BaseException) -> Callable[[Delivery], None]:
    """A delivery callback with a fault."""

    def callback(_: Delivery) -> None:
        raise failure

    return callback


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1)])
def test_whatever_a_callback_raises_the_others_have_their_verdicts(
    tidelog_cluster: InProcessCluster, failure: BaseException
) -> None:
    callback = raises(failure)
    with Producer(tidelog_cluster.address) as producer:
        handles = [producer.send("orders", b"x", on_delivery=callback) for _ in range(3)]
        assert [handle.result(HANG_S).offset for handle in handles] == [0, 1, 2]
        assert producer.send("orders", b"next").result(HANG_S).offset == 3


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), ValueError()])
def test_whatever_fails_in_a_callback_on_the_loop_the_others_have_their_verdicts(
    tidelog_cluster: InProcessCluster, failure: BaseException
) -> None:
    """What ends the program does so: `test_client_interrupts`."""
    callback = raises(failure)

    async def on_a_loop() -> list[int | None]:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            handles = [producer.send_nowait("orders", b"x", on_delivery=callback) for _ in range(2)]
            return [(await handle).offset for handle in handles]

    assert asyncio.run(on_a_loop()) == [0, 1]
