"""Seeks, pauses, positions, lag, ends and starts: what is handed out next is what was asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from harness.nodes import LiveNode, on_node
from harness.reading import FIRST_TIMESTAMP, batches_of, fill, in_thread
from tidelog import (
    AsyncAdmin,
    AsyncConsumer,
    Consumer,
    InvalidRequest,
    OffsetAndTimestamp,
    TopicPartition,
    UnknownTopic,
)
from tidelog.errors import InvalidPartitions, InvalidTopic, OffsetOutOfRange

ORDERS = TopicPartition("orders", 0)


async def offsets(consumer: AsyncConsumer[bytes, bytes], count: int) -> list[int]:
    """The offsets of the next records, taken by iteration."""
    found: list[int] = []
    async for record in consumer:
        found.append(record.offset)
        if len(found) == count:
            break
    return found


async def reader(node: LiveNode, records: int = 5_000) -> AsyncConsumer[bytes, bytes]:
    """A consumer at the beginning of a topic with so many records."""
    await node.client.create("orders")
    await fill(node, "orders", batches_of(0, records, per_batch=700))
    consumer = AsyncConsumer(node.node.bootstrap)
    await consumer.assign("orders", start="earliest")
    return consumer


@on_node()
async def test_what_iteration_leaves_the_next_call_goes_on_with(node: LiveNode) -> None:
    async with await reader(node) as consumer:
        assert await offsets(consumer, 3) == [0, 1, 2]
        assert consumer.position(ORDERS) == 3
        assert await offsets(consumer, 2) == [3, 4]
        assert [record.offset for record in await consumer.poll(max_records=4)] == [5, 6, 7, 8]
        table = await consumer.read_arrow(max_rows=700, columns=["value", "offset"])
        assert table.column_names == ["value", "offset"]
        assert table.column("offset").to_pylist() == list(range(9, 709))
        assert consumer.position(ORDERS) == 709
        table = await consumer.read_arrow(max_rows=2, columns=["offset"])
        assert table.column("offset").to_pylist() == [709, 710]
        assert [record.offset for record in await consumer.poll(max_records=2)] == [711, 712]
        async for batch in consumer.batches():
            assert batch.base_offset == 713
            assert [record.offset for record in batch][:2] == [713, 714]
            assert len(batch) == batch.next_offset - 713
            assert consumer.position(ORDERS) == batch.next_offset
            break


@on_node()
async def test_after_a_seek_nothing_of_before_is_handed_out(node: LiveNode) -> None:
    async with await reader(node) as consumer:
        for target in (4_000, 10, 699, 700, 701, 0):
            async for _ in consumer:
                await consumer.seek(ORDERS, target)
                break
            assert consumer.position(ORDERS) == target
            assert await offsets(consumer, 3) == [target, target + 1, target + 2]


@on_node()
async def test_a_seek_inside_a_loop_turns_the_loop(node: LiveNode) -> None:
    async with await reader(node) as consumer:
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            if record.offset == 2:
                await consumer.seek(ORDERS, 100)
            if record.offset == 102:
                break
        assert seen == [0, 1, 2, 100, 101, 102]


@on_node()
async def test_the_sync_loop_turns_as_well(node: LiveNode) -> None:
    await (await reader(node)).close()

    def read() -> list[int]:
        seen = []
        with Consumer(node.node.bootstrap) as consumer:
            consumer.assign("orders", start=1)
            for record in consumer:
                seen.append(record.offset)
                if record.offset == 2:
                    consumer.seek(ORDERS, 100)
                if record.offset == 102:
                    assert consumer.position(ORDERS) == 103
                    break
            seen += [record.offset for record in consumer.poll(max_records=2)]
        return seen

    assert await in_thread(read) == [1, 2, 100, 101, 102, 103, 104]


@on_node()
async def test_seeks_to_places(node: LiveNode) -> None:
    async with await reader(node) as consumer:
        await consumer.seek_to_end()
        assert consumer.positions() == {ORDERS: 5_000}
        assert await consumer.poll(timeout=0) == []
        await fill(node, "orders", batches_of(5_000, 1))
        assert await offsets(consumer, 1) == [5_000]
        await consumer.seek_to_beginning(ORDERS)
        assert await offsets(consumer, 1) == [0]
        time = datetime.fromtimestamp((FIRST_TIMESTAMP + 1_234) / 1000, UTC)
        await consumer.seek_to_time(time)
        assert await offsets(consumer, 1) == [1_234]
        await consumer.seek_to_time(timedelta(0), ORDERS)
        assert consumer.position(ORDERS) == 5_001


@on_node()
async def test_a_paused_partition_is_silent_and_goes_on_where_it_stopped(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    for partition in (0, 1):
        await fill(node, "orders", batches_of(0, 3_000, per_batch=500), partition)
    other = TopicPartition("orders", 1)
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        await consumer.assign("orders", start="earliest", until="end")
        async for record in consumer:
            if record.partition == 0 and record.offset == 20:
                break
        await consumer.pause(ORDERS)
        assert consumer.paused == (ORDERS,)
        seen = [record async for record in consumer.records(timeout=0.05)]
        assert {record.partition for record in seen} <= {1}
        assert consumer.position(ORDERS) == 21
        assert consumer.position(other) == 3_000
        await consumer.resume()
        assert [record.offset async for record in consumer] == list(range(21, 3_000))


@on_node()
async def test_starts_and_ends_of_each_kind(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    await fill(node, "orders", batches_of(0, 1_000), 0)
    await fill(node, "orders", batches_of(0, 1_000), 1)
    time = datetime.fromtimestamp((FIRST_TIMESTAMP + 900) / 1000, UTC)
    async with AsyncConsumer(node.node.bootstrap) as consumer:

        async def read() -> list[tuple[int, int]]:
            return sorted([(record.partition, record.offset) async for record in consumer])

        await consumer.assign("orders", start={0: 998, 1: "latest"}, until="end")
        assert await read() == [(0, 998), (0, 999)]
        await consumer.assign("orders", start=time, until=903, partitions=[1])
        assert await read() == [(1, 900), (1, 901), (1, 902)]
        await consumer.assign({ORDERS: 5}, until={0: 7})
        assert await read() == [(0, 5), (0, 6)]
        await consumer.assign({"orders": "latest"}, until="end")
        assert await read() == []
        await consumer.assign("orders", start=500, until=2)
        assert await read() == []
        await consumer.assign(["orders"], start=995, until="end")
        table = await consumer.read_arrow(max_rows=3, columns=["topic", "partition", "offset"])
        assert table.num_rows == 3
        assert set(table.column("topic").to_pylist()) == {"orders"}


@on_node()
async def test_a_start_behind_the_log_is_told_also_where_its_end_is_the_end(node: LiveNode) -> None:
    """It read nothing and said nothing: what was lost looked like what was not there yet."""
    await node.client.create("orders", 2)
    await fill(node, "orders", batches_of(0, 10), 0)
    async with AsyncConsumer(node.node.bootstrap) as consumer:
        with pytest.raises(OffsetOutOfRange, match=r"Offset 11 of orders-0 .* ends at 10"):
            await consumer.assign("orders", start={0: 11}, until="end")
        await consumer.assign("orders", start={0: 10}, until="end")
        assert [record async for record in consumer] == []
    async with AsyncConsumer(node.node.bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign("orders", start={0: 11, 1: 0}, until="latest")
        assert [record.offset async for record in consumer] == list(range(10))


@on_node()
async def test_lag_and_ends(node: LiveNode) -> None:
    async with await reader(node, 2_000) as consumer:
        assert await consumer.lag() == {ORDERS: 2_000}
        await offsets(consumer, 500)
        assert await consumer.lag(ORDERS) == {ORDERS: 1_500}
        assert await consumer.end_offsets() == {ORDERS: 2_000}
        assert await consumer.end_offsets("orders") == {ORDERS: 2_000}
        assert await consumer.beginning_offsets(ORDERS) == {ORDERS: 0}
        found = await consumer.offsets_for_times({ORDERS: FIRST_TIMESTAMP + 7})
        place = found[ORDERS]
        assert isinstance(place, OffsetAndTimestamp)
        assert (place.offset, place.timestamp) == (7, FIRST_TIMESTAMP + 7)
        assert await consumer.offsets_for_times({ORDERS: timedelta(0)}) == {ORDERS: None}


@on_node()
async def test_partitions_that_were_added_belong_to_the_topic(node: LiveNode) -> None:
    async with await reader(node, 1) as consumer, AsyncAdmin(node.node.bootstrap) as admin:
        await admin.create_partitions("orders", 3)
        every = tuple(TopicPartition("orders", number) for number in range(3))
        assert tuple(await consumer.end_offsets("orders")) == every
        await admin.create_partitions("orders", 4)
        await consumer.assign("orders", start="earliest")
        assert consumer.assignment == (*every, TopicPartition("orders", 3))


@on_node()
async def test_records_that_come_later_are_handed_out_at_once(node: LiveNode) -> None:
    async with await reader(node, 3) as consumer:
        assert await offsets(consumer, 3) == [0, 1, 2]
        for offset in range(3, 20):
            await fill(node, "orders", batches_of(offset, 1))
            assert await offsets(consumer, 1) == [offset]


@on_node()
async def test_wrong_calls_are_refused_in_words(node: LiveNode) -> None:
    async with await reader(node, 1) as consumer:
        with pytest.raises(UnknownTopic, match="Did you mean 'orders'"):
            await consumer.assign("ordres", start="earliest")
        with pytest.raises(InvalidRequest, match="Where to begin"):
            await consumer.assign("orders")
        with pytest.raises(InvalidRequest, match="Did you mean 'earliest'"):
            await consumer.assign("orders", start="earlist")
        with pytest.raises(InvalidPartitions, match="has no partition 7"):
            await consumer.assign("orders", start=0, partitions=[7])
        with pytest.raises(InvalidRequest, match="negative"):
            await consumer.seek(ORDERS, -1)
        with pytest.raises(InvalidRequest, match="orders-5 is not assigned"):
            consumer.position(TopicPartition("orders", 5))
        with pytest.raises(InvalidRequest, match="Did you mean 'value'"):
            await consumer.read_arrow(columns=["valeu"])
        with pytest.raises(InvalidRequest, match="A time limit of -1 s is not possible"):
            await consumer.poll(timeout=-1)
        with pytest.raises(InvalidRequest, match="The offset 9223372036854775808 is not possible"):
            await consumer.seek(ORDERS, 2**63)
        with pytest.raises(InvalidRequest, match="The offset 9223372036854775808 is not possible"):
            await consumer.assign("orders", start=2**63)
        with pytest.raises(InvalidPartitions, match="until has an end for partition 1, which"):
            await consumer.assign("orders", start=0, until={1: 7})
        for place in ({ORDERS: 0}, {"0": 0}):
            with pytest.raises(InvalidRequest, match="is no number of a partition"):
                await consumer.assign("orders", start=place)  # type: ignore[arg-type]
            with pytest.raises(InvalidRequest, match="is no number of a partition"):
                await consumer.assign("orders", start=0, until=place)  # type: ignore[arg-type]
        with pytest.raises(InvalidTopic, match="5 is no name of a topic"):
            await consumer.end_offsets(5)  # type: ignore[arg-type]
        await consumer.unassign()
        with pytest.raises(InvalidRequest, match="Nothing is assigned"):
            await consumer.poll(timeout=0)
