"""What happens beneath a reader: restarts, deleted and recreated topics, cut logs, bad batches."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.nodes import LiveNode, on_node, run_on_node
from harness.reading import as_expected, batches_of, expected, fill, in_thread
from tidelog import (
    AsyncConsumer,
    Consumer,
    OffsetOutOfRange,
    TopicPartition,
    UnknownTopicId,
    UnreadableBatch,
)
from tidelog.records.builder import set_producer
from tidelog.wire.v1 import admin_pb2

ORDERS = TopicPartition("orders", 0)
RECORDS = 30_000


async def restart(node: LiveNode, address: str) -> None:
    """Restarts the node where it was, and waits until the raw client has noticed."""
    await node.restart(listeners=address)
    await node.client.channel.channel_ready()


async def delete_before(node: LiveNode, offset: int) -> None:
    request = admin_pb2.DeleteRecordsRequest()
    request.partitions.add(topic="orders", partition=0, before_offset=offset)
    (answer,) = (await node.client.admin.DeleteRecords(request)).partitions
    assert not answer.HasField("error"), answer.error


@on_node()
async def test_a_restart_in_mid_read_loses_and_repeats_nothing(node: LiveNode) -> None:
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, RECORDS))
    address = node.node.bootstrap
    async with AsyncConsumer(address, prefetch_bytes="100 KiB", fetch_max_bytes=20_000) as consumer:
        await consumer.assign("orders", start="earliest", until="end")
        offset = 0
        async for record in consumer:
            assert as_expected(record) == expected(offset)
            offset += 1
            if offset in (RECORDS // 3, RECORDS // 2):
                await restart(node, address)
        assert offset == RECORDS


@on_node()
async def test_a_sync_reader_survives_a_restart_too(node: LiveNode) -> None:
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, RECORDS))
    address = node.node.bootstrap
    half_read, restarted = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> int:
        offset = 0
        with Consumer(address, prefetch_bytes="100 KiB", fetch_max_bytes=20_000) as consumer:
            consumer.assign("orders", start="earliest", until="end")
            for record in consumer:
                assert as_expected(record) == expected(offset)
                offset += 1
                if offset == RECORDS // 2:
                    loop.call_soon_threadsafe(half_read.set)
                    asyncio.run_coroutine_threadsafe(restarted.wait(), loop).result()
        return offset

    reading = asyncio.create_task(in_thread(read))
    await half_read.wait()
    await restart(node, address)
    restarted.set()
    assert await reading == RECORDS


@on_node()
async def test_a_reader_at_the_end_goes_on_after_a_restart(node: LiveNode) -> None:
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, 10))
    address = node.node.bootstrap
    async with AsyncConsumer(address) as consumer:
        await consumer.assign("orders", start="earliest")
        assert len(await consumer.poll()) == 10
        await restart(node, address)
        await fill(node, "orders", batches_of(10, 10))
        assert [record.offset for record in await consumer.poll()] == list(range(10, 20))


@on_node()
async def test_a_topic_created_anew_is_not_taken_for_the_old_one(node: LiveNode) -> None:
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, 10))
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        await consumer.assign("orders", start="earliest")
        assert len(await consumer.poll()) == 10
        await node.client.delete("orders")
        await node.client.create("orders")
        await fill(node, "orders", batches_of(0, 20))
        for _ in range(2):
            with pytest.raises(UnknownTopicId, match="created anew"):
                await consumer.poll()
        with pytest.raises(UnknownTopicId, match="created anew"):
            await consumer.end_offsets()
        await consumer.assign("orders", start="earliest", until="end")
        assert [record.offset async for record in consumer] == list(range(20))


@on_node()
async def test_a_deleted_topic_is_an_error(node: LiveNode) -> None:
    await node.client.create("orders")
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        await consumer.assign("orders", start="earliest")
        assert await consumer.poll(timeout=0.05) == []
        await node.client.delete("orders")
        with pytest.raises(UnknownTopicId, match="was deleted"):
            await consumer.poll()


@pytest.mark.parametrize(
    ("policy", "first"),
    [("earliest", 30), ("latest", 40), ("by_duration:PT1H", 40), ("by_duration:P36500D", 30)],
)
def test_reset_policies(tmp_path: Path, policy: str, first: int) -> None:
    async def scenario(node: LiveNode) -> None:
        await node.client.create("orders")
        await fill(node, "orders", batches_of(0, 40, per_batch=10))
        await delete_before(node, 30)
        async with AsyncConsumer(node.node.bootstrap, auto_offset_reset=policy) as consumer:
            await consumer.assign("orders", start=5)
            while consumer.position(ORDERS) == 5:
                await consumer.poll(max_records=1, timeout=0.01)
            assert first <= consumer.position(ORDERS) <= first + 1

    run_on_node(tmp_path / "data", scenario)


@on_node()
async def test_without_a_policy_a_lost_position_is_an_error(node: LiveNode) -> None:
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, 40, per_batch=10))
    await delete_before(node, 30)
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        for offset in (5, 41):
            await consumer.assign("orders", start=offset)
            with pytest.raises(OffsetOutOfRange, match="auto_offset_reset"):
                await consumer.poll()
        await consumer.seek_to_beginning()
        assert [record.offset for record in await consumer.poll(max_records=2)] == [30, 31]


def rotten(batch: bytes, at: int) -> bytes:
    """A batch whose inside is rubbish although its checksum is right."""
    content = bytearray(batch)
    content[at : at + 64] = b"\xff" * 64
    return set_producer(bytes(content), -1, -1, -1)


async def topic_with_a_bad_batch(node: LiveNode) -> None:
    await node.client.create("orders")
    good = batches_of(0, 3_000)
    await fill(node, "orders", [good[0], rotten(good[1], 20_000), good[2]])


async def read_all(consumer: AsyncConsumer[bytes, bytes], seen: list[int]) -> None:
    async for record in consumer:
        seen.append(record.offset)  # noqa: PERF401 - what came before the error has to stay


async def poll_all(consumer: AsyncConsumer[bytes, bytes], seen: list[int]) -> None:
    while records := await consumer.poll(max_records=10_000):
        seen += [record.offset for record in records]


@on_node()
async def test_a_bad_batch_is_named_and_can_be_skipped(node: LiveNode) -> None:
    await topic_with_a_bad_batch(node)
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        await consumer.assign("orders", start="earliest", until="end")
        seen: list[int] = []
        for _ in range(2):
            with pytest.raises(UnreadableBatch, match="'orders', partition 0, offsets") as caught:
                await read_all(consumer, seen)
        assert seen == list(range(len(seen)))
        assert 1_000 <= len(seen) < 2_000
        await consumer.skip(caught.value)
        assert consumer.position(ORDERS) == 2_000
        assert [record.offset async for record in consumer] == list(range(2_000, 3_000))


@on_node()
async def test_columns_stop_before_a_bad_batch_too(node: LiveNode) -> None:
    await topic_with_a_bad_batch(node)

    def read() -> None:
        with Consumer(node.node.bootstrap) as consumer:
            consumer.assign("orders", start="earliest", until="end")
            table = consumer.read_arrow()
            assert table.column("offset").to_pylist() == list(range(1_000))
            for _ in range(2):
                with pytest.raises(UnreadableBatch, match="offsets 1000 to 1999") as caught:
                    consumer.read_arrow()
            consumer.skip(caught.value)
            assert consumer.read_arrow().column("offset").to_pylist() == list(range(2_000, 3_000))
            assert consumer.read_arrow().num_rows == 0

    await in_thread(read)


@on_node()
async def test_polls_hand_out_what_is_good_first(node: LiveNode) -> None:
    await topic_with_a_bad_batch(node)
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        await consumer.assign("orders", start="earliest", until="end")
        seen: list[int] = []
        with pytest.raises(UnreadableBatch):
            await poll_all(consumer, seen)
        assert seen == list(range(len(seen)))
        assert len(seen) >= 1_000
