"""An asyncio client on a second event loop says so, and goes on working on its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from tidelog import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ClientClosed,
    Delivery,
    InvalidRequest,
    Receipt,
)
from tidelog_node.testing import InProcessCluster


async def on_another_loop(call: Callable[[], Any]) -> None:
    """Runs a call of a client in another thread, on a loop of its own."""
    await asyncio.to_thread(lambda: asyncio.run(call()))


def test_another_loop_is_named(tidelog_cluster: InProcessCluster) -> None:
    address = tidelog_cluster.address

    async def use() -> None:
        async with (
            AsyncProducer(address) as producer,
            AsyncConsumer(address) as consumer,
            AsyncAdmin(address) as admin,
        ):
            await producer.send("orders", b"first")
            await consumer.assign("orders", start="earliest")
            await admin.list_topics()
            calls: list[Callable[[], Any]] = [
                lambda: producer.send("orders", b"refused"),
                lambda: producer.send_many("orders", [b"refused"]),
                producer.flush,
                producer.close,
                consumer.poll,
                consumer.end_offsets,
                consumer.close,
                admin.list_topics,
                admin.close,
            ]
            for call in calls:
                with pytest.raises(InvalidRequest, match="another event loop, which runs in"):
                    await on_another_loop(call)
            await producer.send("orders", b"second")
            assert await admin.list_topics() == ["orders"]
            values = [record.value for record in await consumer.poll()]
            while len(values) < 2:
                values += [record.value for record in await consumer.poll()]
            assert values == [b"first", b"second"]

    asyncio.run(use())


def test_a_record_from_another_loop_is_refused_before_it_is_taken(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def use() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            await producer.send("orders", b"first")

            async def send() -> None:
                producer.send_nowait("orders", b"refused")

            with pytest.raises(InvalidRequest, match="another event loop, which runs in"):
                await on_another_loop(send)
            with pytest.raises(InvalidRequest, match=r"where no event loop runs.*asyncio.run"):
                await asyncio.to_thread(producer.send_nowait, "orders", b"refused")
            await producer.send("orders", b"second")

    asyncio.run(use())
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"first", b"second"]


def test_outside_of_any_loop_it_is_said_so(tidelog_cluster: InProcessCluster) -> None:
    producer = AsyncProducer(tidelog_cluster.address)
    with pytest.raises(InvalidRequest, match="The producer was used where no event loop runs"):
        producer.send_nowait("orders", b"refused")
    asyncio.run(producer.close())
    with pytest.raises(ClientClosed):
        producer.send_nowait("orders", b"refused")


def test_a_handle_may_be_waited_for_on_another_loop(tidelog_cluster: InProcessCluster) -> None:
    async def use() -> int | None:
        async with AsyncProducer(tidelog_cluster.address, linger_ms=3_600_000) as producer:
            await producer.send("orders", b"first")
            handle = producer.send_nowait("orders", b"second")
            receipt = await asyncio.to_thread(lambda: asyncio.run(receipt_of(handle)))
            return receipt.offset

    assert asyncio.run(use()) == 1


async def receipt_of(handle: Delivery) -> Receipt:
    """As `await` alone, which is no coroutine."""
    return await handle


#: In a process of its own, since nothing can close what belongs to a loop that is closed.
LEFT_BEHIND: Final = """
import asyncio, os, sys, tidelog

async def leave():
    producer = tidelog.AsyncProducer(sys.argv[1], linger_ms=3_600_000)
    await producer.send("orders", b"first")
    return producer, producer.send_nowait("orders", b"left behind")

async def send():
    producer.send_nowait("orders", b"refused")

async def wait():
    await handle

producer, handle = asyncio.run(leave())
for call in send, wait:
    try:
        asyncio.run(call())
    except tidelog.InvalidRequest as error:
        print(error.message, flush=True)
os._exit(0)
"""


def test_what_belongs_to_a_loop_that_is_closed_is_not_waited_for(
    tidelog_cluster: InProcessCluster,
) -> None:
    seen = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND, tidelog_cluster.address],
        capture_output=True,
        text=True,
        check=False,
    )
    said = "The producer was first used on another event loop, which is closed\n"
    assert seen.stdout == said * 2, seen.stderr
