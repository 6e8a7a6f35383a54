"""A consumer's life: what it opens it closes, forks are noticed, wrong settings are refused."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from dataclasses import dataclass

import pytest
from storage_kit.batches import batch

import tidelog
from harness.nodes import LiveNode, on_node
from harness.reading import batches_of, fill, in_thread
from support.eventually import eventually
from tidelog import (
    AsyncConsumer,
    BrokerUnreachable,
    ClientClosed,
    Consumer,
    ForkedClient,
    InvalidConfig,
    InvalidRequest,
    SerializationFailed,
    TopicPartition,
)

ORDERS = TopicPartition("orders", 0)
OPENS = 25


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def topic(node: LiveNode, records: int = 2_000) -> str:
    """The address of a node whose topic holds so many records."""
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, records))
    return node.node.bootstrap


@on_node()
async def test_sync_consumers_leave_nothing_open(node: LiveNode) -> None:
    address = await topic(node)

    def once() -> None:
        with Consumer(address) as consumer:
            consumer.assign("orders", start="earliest")
            for record in consumer:
                if record.offset == 1_500:
                    break

    def often() -> None:
        once()
        gc.collect()
        threads, files = threading.active_count(), open_files()
        for _ in range(OPENS):
            once()
        gc.collect()
        assert threading.active_count() <= threads
        eventually(lambda: open_files() <= files, waiting_for="the last connections to close")

    await in_thread(often)


@on_node()
async def test_async_consumers_leave_nothing_open(node: LiveNode) -> None:
    address = await topic(node)

    async def once() -> None:
        async with AsyncConsumer(address) as consumer:
            await consumer.assign("orders", start="earliest")
            async for record in consumer:
                if record.offset == 1_500:
                    break

    await once()
    gc.collect()
    tasks, files = {task.get_name() for task in asyncio.all_tasks()}, open_files()
    for _ in range(OPENS):
        await once()
    gc.collect()
    left = {task.get_name() for task in asyncio.all_tasks()} - tasks
    assert not [name for name in left if name.startswith("tidelog")]
    await in_thread(
        lambda: eventually(lambda: open_files() <= files, waiting_for="connections to close")
    )


@on_node()
async def test_a_forgotten_consumer_ends_its_thread(node: LiveNode) -> None:
    address = await topic(node)

    def forget() -> None:
        consumer = Consumer(address, client_id="forgotten")
        consumer.assign("orders", start="earliest")
        consumer.poll(max_records=1)

    await in_thread(forget)
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name == "forgotten"]


@on_node()
async def test_closing_wakes_a_reader_that_waits(node: LiveNode) -> None:
    address = await topic(node, 1)
    consumer = Consumer(address)
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        consumer.assign("orders", start="latest")
        loop.call_soon_threadsafe(waits.set)
        consumer.poll()

    reading = asyncio.create_task(in_thread(read))
    await waits.wait()
    await in_thread(consumer.close)
    with pytest.raises(ClientClosed):
        await reading
    with pytest.raises(ClientClosed):
        consumer.poll(timeout=0)
    consumer.close()

    async with AsyncConsumer(address) as other:
        await other.assign("orders", start="latest")
        polling = asyncio.create_task(other.poll())
        await asyncio.sleep(0)
    with pytest.raises(ClientClosed):
        await polling


@on_node()
async def test_a_cancelled_poll_loses_nothing(node: LiveNode) -> None:
    address = await topic(node, 10)
    async with AsyncConsumer(address) as consumer:
        await consumer.assign("orders", start=10)
        seen: list[int] = []
        for offset in range(10, 30):
            polling = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0)
            polling.cancel()
            await asyncio.wait([polling])
            if not polling.cancelled():
                seen += [record.offset for record in polling.result()]
            await fill(node, "orders", batches_of(offset, 1))
        while len(seen) < 20:
            seen += [record.offset for record in await consumer.poll()]
        assert seen == list(range(10, 30))


def in_child(work: str, consumer: Consumer[bytes, bytes]) -> str:
    """What a forked child says about using its parent's consumer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            consumer.poll(timeout=0) if work == "poll" else consumer.end_offsets()
            said = "nothing"
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent wants to know
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@on_node()
async def test_a_fork_is_noticed(node: LiveNode) -> None:
    address = await topic(node)
    with await in_thread(lambda: Consumer(address)) as consumer:
        await in_thread(lambda: consumer.assign("orders", start="earliest"))
        await in_thread(lambda: consumer.poll(max_records=1))
        for work in ("poll", "end_offsets"):
            said = in_child(work, consumer)
            assert said.startswith(ForkedClient.__name__), said
            assert "spawn" in said
        assert len(await in_thread(lambda: consumer.poll(max_records=3))) == 3


@dataclass
class Order:
    """What the application works with."""

    number: int


@on_node()
async def test_keys_and_values_are_deserialized_when_asked_for(node: LiveNode) -> None:
    await node.client.create("orders")
    await fill(node, "orders", [batch(b'{"number":1}', b"no json", b'{"number":3}')])

    def read() -> None:
        typed = Consumer(node.node.bootstrap, key=tidelog.utf8, value=tidelog.json(Order))
        with typed as consumer:
            consumer.assign("orders", start="earliest", until="end")
            first, second, third = consumer
            assert (first.key, first.value) == (None, Order(1))
            assert third.value == Order(3)
            assert (first.offset, first.partition, first.topic) == (0, 0, "orders")
            with pytest.raises(SerializationFailed, match="offset 1 of orders-0"):
                _ = second.value
            consumer.seek_to_beginning()
        with Consumer(node.node.bootstrap, value=lambda payload: len(payload or b"")) as consumer:
            consumer.assign("orders", start=1, until="end")
            assert [record.value for record in consumer] == [7, 12]

    await in_thread(read)


def test_wrong_settings_are_refused_before_anything_is_opened() -> None:
    threads = threading.active_count()
    with pytest.raises(InvalidConfig, match="Did you mean 'prefetch_bytes'"):
        Consumer("localhost:1", prefetch_byte=1)  # type: ignore[call-overload]
    with pytest.raises(InvalidConfig, match="auto_offset_reset"):
        Consumer("localhost:1", auto_offset_reset="by_duration:1h")
    with pytest.raises(InvalidConfig, match="no address"):
        Consumer("nowhere")
    with pytest.raises(InvalidRequest, match="no consumer groups yet"):
        Consumer("localhost:1", group="billing")
    assert threading.active_count() == threads


def test_a_broker_that_is_not_there_is_named() -> None:
    with (
        Consumer("127.0.0.1:1", default_api_timeout_ms=300) as consumer,
        pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1.*tidelog doctor"),
    ):
        consumer.assign("orders", start="earliest")
    gc.collect()
