"""Every record once, in order, whole: by each way of reading, for each compression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.nodes import LiveNode, run_on_node
from harness.reading import Expected, as_expected, batches_of, expected, fill, in_thread
from tidelog import AsyncConsumer, Consumer
from tidelog.records.compression import Compression

RECORDS = 100_000
COLUMNS = ("offset", "timestamp", "key", "value", "headers")


def row_of(row: dict[str, Any]) -> Expected:
    """A row of an Arrow table in the form that is compared."""
    headers = tuple((pair["key"], pair["value"]) for pair in row["headers"])
    timestamp = round(row["timestamp"].timestamp() * 1000)
    return Expected(row["offset"], timestamp, row["key"], row["value"], headers)


class Check:
    """Takes what was read, one after the other, and compares."""

    def __init__(self) -> None:
        self.offset = 0

    def take(self, found: Expected) -> None:
        """The next one."""
        assert found == expected(self.offset)
        self.offset += 1

    def done(self) -> None:
        """Nothing may be missing."""
        assert self.offset == RECORDS


def sync_records(consumer: Consumer[bytes, bytes], check: Check) -> None:
    for record in consumer:
        check.take(as_expected(record))


def sync_polls(consumer: Consumer[bytes, bytes], check: Check) -> None:
    while records := consumer.poll(max_records=777):
        for record in records:
            check.take(as_expected(record))


def sync_batches(consumer: Consumer[bytes, bytes], check: Check) -> None:
    for batch in consumer.batches():
        assert batch.base_offset == check.offset
        records = batch.records()
        assert len(records) == len(batch)
        for record in records:
            check.take(as_expected(record))
        assert batch.next_offset == check.offset


def sync_tables(consumer: Consumer[bytes, bytes], check: Check) -> None:
    while rows := consumer.read_arrow(max_rows=7_777, columns=COLUMNS).to_pylist():
        assert len(rows) <= 7_777
        for row in rows:
            check.take(row_of(row))


async def async_records(consumer: AsyncConsumer[bytes, bytes], check: Check) -> None:
    async for record in consumer:
        check.take(as_expected(record))


async def async_batches(consumer: AsyncConsumer[bytes, bytes], check: Check) -> None:
    async for batch in consumer.batches():
        for row in batch.to_arrow(COLUMNS).to_pylist():
            check.take(row_of(row))


@pytest.mark.parametrize("compression", list(Compression), ids=lambda kind: kind.name.lower())
def test_every_record_arrives_once_in_order_and_whole(
    tmp_path: Path, compression: Compression
) -> None:
    async def scenario(node: LiveNode) -> None:
        await node.client.create("orders", configs={"segment.bytes": str(1 << 20)})
        await fill(node, "orders", batches_of(0, RECORDS, compression=compression))
        address = node.node.bootstrap

        def read_in_thread() -> None:
            with Consumer(address, fetch_max_bytes="200 KiB") as consumer:
                for way in (sync_records, sync_polls, sync_batches, sync_tables):
                    consumer.assign("orders", start="earliest", until="end")
                    check = Check()
                    way(consumer, check)
                    check.done()

        await in_thread(read_in_thread)
        async with AsyncConsumer(address) as reader:
            for way in (async_records, async_batches):
                await reader.assign("orders", start="earliest", until="end")
                check = Check()
                await way(reader, check)
                check.done()

    run_on_node(tmp_path / "data", scenario)


def test_many_partitions_are_read_in_turn_and_each_in_order(tmp_path: Path) -> None:
    async def scenario(node: LiveNode) -> None:
        await node.client.create("orders", 8)
        for partition in range(8):
            await fill(node, "orders", batches_of(0, 2_000, per_batch=100), partition)
        seen = dict.fromkeys(range(8), 0)
        async with AsyncConsumer(node.node.bootstrap, prefetch_bytes="64 KiB") as consumer:
            await consumer.assign("orders", start="earliest", until="end")
            async for record in consumer:
                assert record.offset == seen[record.partition]
                seen[record.partition] += 1
        assert seen == dict.fromkeys(range(8), 2_000)

    run_on_node(tmp_path / "data", scenario)
