"""Programs that cancel all tasks of their loop: a producer's own are among them, and it goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidelog import AsyncProducer, Delivery, Refused
from tidelog_node.testing import InProcessCluster


def cancel_all() -> None:
    """What `asyncio.run` does at its end, and programs that stop in a hurry."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def test_a_topic_whose_question_is_cancelled_before_it_began(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def main() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            refused = producer.send_nowait("orders", b"refused")
            cancel_all()
            await producer.flush()
            with pytest.raises(Refused, match="who asked for it was cancelled"):
                await refused
            assert producer._accumulator.used_bytes == 0
            receipt = await producer.send_nowait("orders", b"asked for anew")
            assert receipt.offset == 0

    asyncio.run(main())


def test_a_producer_that_is_left_when_all_tasks_are_cancelled(
    tidelog_cluster: InProcessCluster,
) -> None:
    """As `asyncio.run` has it at its end: the task that holds the producer is one of them."""

    async def hold(sent: asyncio.Future[Delivery]) -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            sent.set_result(producer.send_nowait("orders", b"staged"))
            await asyncio.Event().wait()

    async def main() -> None:
        sent: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        holding = asyncio.create_task(hold(sent))
        staged = await sent
        cancel_all()
        with pytest.raises(asyncio.CancelledError):
            await holding
        with pytest.raises(Refused, match="who asked for it was cancelled"):
            await staged

    asyncio.run(main())


def test_an_error_that_nobody_foresaw_refuses_what_is_staged(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def fails(topic: str, limit_s: float, partition: int = 0) -> Any:
        raise ZeroDivisionError("no brokers")

    async def main() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            assert producer._pipeline is not None
            producer._pipeline.route = fails  # type: ignore[method-assign]
            staged = producer.send_nowait("orders", b"staged")
            await producer.flush()
            with pytest.raises(Refused, match=r"ZeroDivisionError.*This is a bug"):
                await staged

    asyncio.run(main())
