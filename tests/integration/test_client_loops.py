"""An asyncio client on a second event loop says so, and goes on working on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidelog import AsyncAdmin, AsyncConsumer, AsyncProducer, InvalidRequest
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
