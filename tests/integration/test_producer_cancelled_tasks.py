"""Programs that cancel all tasks of their loop: a producer's own are among them, and it goes on."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tidelog import AsyncProducer, Delivery, Refused
from tidelog.producer.partition_queue import RETRY_BACKOFF_S, QueuedBatch
from tidelog.producer.pipeline import COMPRESSED_ASIDE_BYTES
from tidelog_node.testing import InProcessCluster

FOREVER_MS = 600_000


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
    """A call whose tasks were cancelled keeps a thread of grpc's until it is collected."""
    yield
    gc.collect()


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


def test_what_is_under_way_when_all_tasks_are_cancelled(tidelog_cluster: InProcessCluster) -> None:
    """The lane to the broker is one of them, with the request that it waits for."""

    async def main() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            await producer.send("orders", b"first")
            under_way = producer.send_nowait("orders", b"under way")
            await asyncio.sleep(0)
            cancel_all()
            behind = producer.send_nowait("orders", b"behind")
            assert [(await handle).offset for handle in (under_way, behind)] == [1, 2]
            cancel_all()
            assert (await producer.send("orders", b"later")).offset == 3

    asyncio.run(main())
    values = [record.value for record in tidelog_cluster.records("orders")]
    assert values == [b"first", b"under way", b"behind", b"later"]


@pytest.mark.parametrize("question", ["tidelog-producer-identity", "tidelog-producer-metadata"])
def test_a_question_that_is_cancelled_is_asked_anew(
    tidelog_cluster: InProcessCluster, question: str
) -> None:
    """No record that comes later reminds the producer of what it has asked."""

    async def main() -> None:
        async with AsyncProducer(
            tidelog_cluster.address, linger_ms=0, delivery_timeout_ms=FOREVER_MS
        ) as sender:
            await sender._prepare("orders", None)
            assert sender._pipeline is not None
            if question.endswith("metadata"):
                sender._pipeline._questions._leaders.clear()
                sender._pipeline.doubt("orders")
            tidelog_cluster.cut_network(silently=True)
            delivery = sender.send_nowait("orders", b"waits for the answer")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            [asked] = [task for task in asyncio.all_tasks() if task.get_name() == question]
            asked.cancel()
            tidelog_cluster.heal_network()
            assert (await delivery).offset == 0

    asyncio.run(main())


def test_a_batch_that_is_compressed_when_all_tasks_are_cancelled(
    tidelog_cluster: InProcessCluster,
) -> None:
    """Another thread does that, and goes on: who takes the batch over waits for it."""
    begun, goes_on, running = threading.Event(), threading.Event(), threading.Lock()

    async def main() -> None:
        async with AsyncProducer(tidelog_cluster.address, compression="gzip") as producer:
            await producer.send("orders", b"first")
            assert producer._pipeline is not None
            encode = producer._pipeline._encode

            def encode_late(batch: QueuedBatch) -> None:
                assert running.acquire(blocking=False), "two encode it"
                begun.set()
                goes_on.wait()
                encode(batch)
                running.release()

            producer._pipeline._encode = encode_late  # type: ignore[method-assign]
            large = producer.send_nowait("orders", bytes(2 * COMPRESSED_ASIDE_BYTES))
            await asyncio.to_thread(begun.wait)
            cancel_all()
            # By then another lane would have begun, too.
            asyncio.get_running_loop().call_later(2 * RETRY_BACKOFF_S, goes_on.set)
            assert (await large).offset == 1

    asyncio.run(main())
