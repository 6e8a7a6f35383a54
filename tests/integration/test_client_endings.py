"""What clients leave behind when they close: nothing, and at once.

An event loop that ends right after `close` is the usual case (`asyncio.run`), and a gRPC event
that comes later would find it closed; the leak check of every test fails on what asyncio then logs.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.nodes import LiveNode, on_node
from harness.reading import batches_of, fill
from support.eventually import eventually
from tidelog import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ClientClosed,
    Consumer,
    Producer,
)
from tidelog.channel_grpc import grpc_channel_factory
from tidelog.engine.connections import Connections
from tidelog.errors import BrokerUnreachable
from tidelog_node.testing import InProcessCluster

#: Together, over the six kinds of clients.
OPENS = 1_000


@pytest.fixture
def address(tidelog_cluster: InProcessCluster) -> str:
    """A node with one record in the topic "orders"."""
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"x")
    return tidelog_cluster.address


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def client_threads() -> int:
    """The node's own threads come as they are needed, and stay."""
    names = [thread.name for thread in threading.enumerate()]
    return len([name for name in names if not name.startswith("tidelog-sync")])


async def produce(address: str) -> None:
    async with AsyncProducer(address, linger_ms=0) as producer:
        await producer.send("orders", b"x")


async def consume(address: str) -> None:
    async with AsyncConsumer(address) as consumer:
        await consumer.assign("orders", start="earliest")
        await consumer.poll(max_records=1)


async def consume_nothing(address: str) -> None:
    """The stream is closed before its leader has said a word."""
    async with AsyncConsumer(address) as consumer:
        await consumer.assign("orders", start="latest")


async def administrate(address: str) -> None:
    async with AsyncAdmin(address) as admin:
        await admin.list_topics()


async def give_up(address: str) -> None:
    """A question that is cancelled before its answer."""
    async with AsyncAdmin(address) as admin:
        await admin.list_topics()
        question = asyncio.create_task(admin.describe_cluster())
        await asyncio.sleep(0)
        question.cancel()


Use = Callable[[str], Awaitable[None]]
ASYNC_USES: tuple[Use, ...] = (produce, consume, consume_nothing, administrate, give_up)


@pytest.mark.parametrize("use", ASYNC_USES)
def test_nothing_is_left_on_the_loop(address: str, use: Use) -> None:
    async def open_and_close() -> set[str]:
        await use(address)
        return {str(task) for task in asyncio.all_tasks() - {asyncio.current_task()}}

    for _ in range(40):
        assert asyncio.run(open_and_close()) == set()


def test_a_thousand_opens_leave_nothing(address: str) -> None:
    def use_sync_clients() -> None:
        with Producer(address, linger_ms=0) as producer:
            producer.send("orders", b"x")
        with Consumer(address) as consumer:
            consumer.assign("orders", start="latest")
        with Admin(address) as admin:
            admin.list_topics()

    async def use_async_clients() -> None:
        for use in (produce, consume_nothing, administrate):
            await use(address)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    def open_six() -> None:
        use_sync_clients()
        asyncio.run(use_async_clients())

    open_six()
    gc.collect()
    threads, files = client_threads(), open_files()
    for _ in range(OPENS // 6):
        open_six()
    gc.collect()
    # The kernel is told by a thread of gRPC's, soon after.
    eventually(lambda: open_files() <= files, waiting_for="the last connections to close")
    assert client_threads() <= threads


@on_node()
async def test_a_stream_survives_what_others_do_to_its_connection(node: LiveNode) -> None:
    """Whoever finds a connection broken drops it: what else ran on it goes on elsewhere."""
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, 10))
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        await consumer.assign("orders", start="earliest")
        assert len(await consumer.poll()) == 10
        connections = consumer._engine.cluster.connections
        connections.drop(await connections.get(node.node.bootstrap))
        await fill(node, "orders", batches_of(10, 10))
        assert [record.offset for record in await consumer.poll()] == list(range(10, 20))


@pytest.fixture
def mute() -> Iterator[str]:
    """An address where connections are taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_closing_ends_what_another_thread_waits_for(mute: str) -> None:
    """In words: nobody has cancelled that thread."""
    admin = Admin(mute)
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(admin.list_topics)
        eventually(asking.running, waiting_for="the question")
        admin.close()
        with pytest.raises(ClientClosed):
            asking.result()


def test_closing_ends_what_another_task_waits_for(mute: str) -> None:
    async def run() -> None:
        consumer = AsyncConsumer(mute)
        assigning = asyncio.create_task(consumer.assign("orders", start="latest"))
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(ClientClosed):
            await assigning
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_a_connection_that_somebody_cancels_is_no_closed_client(mute: str) -> None:
    """Who waits for it tries again: it was cancelled with all other tasks of the loop."""

    async def run() -> None:
        connections = Connections(grpc_channel_factory(), "test", 10.0)
        asking = asyncio.create_task(connections.get(mute))
        await asyncio.sleep(0)
        connections._opening[mute].cancel()
        with pytest.raises(BrokerUnreachable, match="was cancelled while it was made"):
            await asking
        await connections.close()

    asyncio.run(run())
