"""Fetch, the long-poll twin: limits, waiting, positions, and what is told about the log."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from grpc.aio import AioRpcError
from storage_kit.batches import batch, headers

from harness.client import partition_batch, produce_request
from harness.nodes import LiveNode, on_node
from tidelog.records.decoder import decode_records
from tidelog.wire.v1 import common_pb2, fetch_pb2
from tidelog_broker.storage.log_reader import LogReader


def request(
    *partitions: fetch_pb2.FetchPartition,
    min_bytes: int = 0,
    max_wait_ms: int = 0,
    max_bytes: int = 0,
) -> fetch_pb2.FetchRequest:
    options = fetch_pb2.FetchOptions(
        min_bytes=min_bytes, max_wait_ms=max_wait_ms, max_bytes=max_bytes
    )
    return fetch_pb2.FetchRequest(options=options, partitions=partitions)


def orders(
    offset: int = 0, *, partition: int = 0, max_bytes: int = 0, end: int | None = None
) -> fetch_pb2.FetchPartition:
    return fetch_pb2.FetchPartition(
        topic="orders",
        partition=partition,
        fetch_offset=offset,
        max_bytes=max_bytes,
        end_offset=end,
    )


async def write(node: LiveNode, count: int, *, partition: int = 0, size: int = 100) -> int:
    """Writes batches of one record each; the bytes of one."""
    for number in range(count):
        content = batch(b"%0*d" % (size, number))
        ack = await node.client.produce("orders", content, partition=partition)
        assert not ack.HasField("error"), ack.error
    return len(content)


async def only(node: LiveNode, wanted: fetch_pb2.FetchRequest) -> fetch_pb2.PartitionRecords:
    (answer,) = (await node.client.broker.Fetch(wanted)).partitions
    return answer


@on_node()
async def test_what_lies_behind_the_end_offset_is_not_answered(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 4)
    # All that is ever wanted is there: to wait for more bytes would be for nothing.
    wanted = request(orders(1, end=3), min_bytes=1 << 20, max_wait_ms=3_600_000)
    answer = await only(node, wanted)
    assert [header.base_offset for header in headers(answer.records)] == [1, 2]
    for end in (1, 0, -1):
        refused = await only(node, request(orders(1, end=end)))
        assert refused.error.code == common_pb2.INVALID_REQUEST


@on_node()
async def test_answers_come_in_the_order_of_the_request(node: LiveNode) -> None:
    await node.client.create("orders", 3)
    for partition in range(3):
        await write(node, 2, partition=partition)
    wanted = [orders(1, partition=2), orders(partition=0), orders(2, partition=1)]
    answers = (await node.client.broker.Fetch(request(*wanted))).partitions
    assert [(answer.topic, answer.partition) for answer in answers] == [
        ("orders", 2), ("orders", 0), ("orders", 1),
    ]  # fmt: skip
    assert [len(headers(answer.records)) for answer in answers] == [1, 2, 0]
    for answer in answers:
        assert (answer.high_watermark, answer.last_stable_offset) == (2, 2)
        assert answer.log_start_offset == 0


@on_node()
async def test_a_fetch_waits_for_min_bytes(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 1)
    wanted = request(orders(), min_bytes=size * 3, max_wait_ms=60_000)
    pending = asyncio.ensure_future(only(node, wanted))
    await write(node, 1)
    # An answered call behind it shows that the broker has had its turn.
    await node.client.fetch("orders")
    assert not pending.done()
    await write(node, 1)
    assert len((await pending).records) == size * 3


@on_node()
async def test_a_fetch_waits_no_longer_than_max_wait(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await only(node, request(orders(), min_bytes=size * 3, max_wait_ms=200))
    assert loop.time() - began >= 0.19
    assert len(answer.records) == size
    answer = await only(node, request(orders(1), min_bytes=1, max_wait_ms=0))
    assert answer.records == b""
    assert not answer.HasField("error")


@on_node()
async def test_a_fetch_reads_once_however_long_it_waits(node: LiveNode) -> None:
    await node.client.create("orders")
    size = len(batch(b"x" * 1_000))
    reads: list[int] = []
    read = LogReader.read

    def count(reader: LogReader, offset: int, *values: Any, **options: Any) -> bytes:
        reads.append(offset)
        return read(reader, offset, *values, **options)

    with patch.object(LogReader, "read", count):
        wanted = request(orders(), min_bytes=size * 20, max_wait_ms=3_600_000)
        pending = asyncio.ensure_future(only(node, wanted))
        for _ in range(20):
            assert not pending.done()
            await node.client.produce("orders", batch(b"x" * 1_000))
        assert len((await pending).records) == size * 20
    assert reads == [0]


@on_node()
async def test_a_fetch_does_not_wait_for_what_its_answer_can_not_hold(node: LiveNode) -> None:
    await node.client.create("orders", configs={"segment.bytes": str(1 << 20)})
    size = len(batch(bytes(300_000)))
    for _ in range(4):
        await node.client.produce("orders", batch(bytes(300_000)))
    # It ends with the segment, and a partition's part of it with what is wanted of the partition.
    for part, batches in ((orders(), 3), (orders(max_bytes=size * 2 + 1), 2)):
        wanted = request(part, min_bytes=1 << 20, max_wait_ms=3_600_000)
        assert len((await only(node, wanted)).records) == size * batches


@on_node()
async def test_an_empty_fetch_waits_for_the_first_record(node: LiveNode) -> None:
    await node.client.create("orders")
    pending = asyncio.ensure_future(only(node, request(orders(), max_wait_ms=60_000)))
    await node.client.fetch("orders")
    assert not pending.done()
    await write(node, 1)
    assert len(headers((await pending).records)) == 1


@on_node()
async def test_an_error_is_told_at_once(node: LiveNode) -> None:
    await node.client.create("orders")
    wanted = request(orders(), orders(partition=7), min_bytes=1_000, max_wait_ms=60_000)
    waiting, refused = (await node.client.broker.Fetch(wanted)).partitions
    assert not waiting.HasField("error")
    assert refused.error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION


@on_node()
async def test_limits_hold_but_one_batch_always_comes(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    for partition in range(2):
        size = await write(node, 5, partition=partition)
    assert len((await only(node, request(orders(max_bytes=size * 3)))).records) == size * 3
    assert len((await only(node, request(orders(max_bytes=size * 3 - 1)))).records) == size * 2
    assert len((await only(node, request(orders(max_bytes=1)))).records) == size
    assert len((await only(node, request(orders(), max_bytes=1))).records) == size
    both = request(orders(), orders(partition=1), max_bytes=size * 7)
    sizes = [len(item.records) for item in (await node.client.broker.Fetch(both)).partitions]
    assert sizes == [size * 5, size * 2]
    short = request(
        orders(),
        orders(partition=1),
        max_bytes=size * 6 - 1,
        min_bytes=size * 6,
        max_wait_ms=60_000,
    )
    sizes = [len(item.records) for item in (await node.client.broker.Fetch(short)).partitions]
    assert sizes == [size * 5, 0], "only the first batch of an answer may exceed the limit"
    tight = request(orders(), orders(partition=1), max_bytes=1)
    sizes = [len(item.records) for item in (await node.client.broker.Fetch(tight)).partitions]
    assert sizes == [size, 0]


@on_node()
async def test_the_first_partition_with_records_gets_its_batch(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    size = await write(node, 1, partition=1)
    wanted = request(orders(partition=0), orders(partition=1), max_bytes=1)
    sizes = [len(item.records) for item in (await node.client.broker.Fetch(wanted)).partitions]
    assert sizes == [0, size]


@on_node()
async def test_a_batch_is_sent_whole_from_an_offset_within_it(node: LiveNode) -> None:
    await node.client.create("orders")
    await node.client.produce("orders", batch(b"a", b"b", b"c"))
    answer = await node.client.fetch("orders", 1)
    (header,) = headers(answer.records)
    assert (header.base_offset, header.last_offset) == (0, 2)
    found = decode_records(answer.records, "orders", 0, start_offset=1)
    assert [record.offset for record in found] == [1, 2]


@on_node()
async def test_positions_outside_the_log_are_refused(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 3)
    for offset in (-1, 4, 2**62):
        answer = await node.client.fetch("orders", offset)
        assert answer.error.code == common_pb2.OFFSET_OUT_OF_RANGE
        assert "0 to 3" in answer.error.message
    end = await node.client.fetch("orders", 3)
    assert not end.HasField("error")
    assert end.records == b""


@on_node()
async def test_leader_epochs_fence_readers(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 1)
    wanted = orders()
    for epoch, code in ((0, 0), (3, common_pb2.UNKNOWN_LEADER_EPOCH)):
        wanted.leader_epoch = epoch
        assert (await only(node, request(wanted))).error.code == code
    wanted.leader_epoch = -4
    fenced = await only(node, request(wanted))
    assert fenced.error.code == common_pb2.FENCED_LEADER_EPOCH
    assert (fenced.leader.leader_id, fenced.leader.leader_epoch) == (1, 0)


@on_node()
async def test_divergence_is_answered_at_once(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 3)
    wanted = orders(3)
    wanted.last_fetched_epoch = 0
    agreeing = await only(node, request(wanted))
    assert not agreeing.HasField("diverging_epoch")
    wanted.last_fetched_epoch = 5
    parted = await only(node, request(wanted, max_wait_ms=60_000))
    assert parted.HasField("diverging_epoch")
    assert (parted.diverging_epoch.leader_epoch, parted.diverging_epoch.end_offset) == (0, 3)
    assert parted.records == b""


@on_node()
async def test_a_topic_can_be_fetched_by_its_id(node: LiveNode) -> None:
    topic_id = await node.client.create("orders")
    await write(node, 1)
    by_id = fetch_pb2.FetchPartition(topic_id=topic_id)
    assert headers((await only(node, request(by_id))).records)
    unknown = fetch_pb2.FetchPartition(topic="orders", topic_id=bytes(16))
    answer = await only(node, request(unknown))
    assert answer.error.code == common_pb2.UNKNOWN_TOPIC_ID


@on_node()
async def test_a_request_that_contradicts_itself_is_refused_as_a_whole(node: LiveNode) -> None:
    await node.client.create("orders")
    for bad in (
        request(orders(), min_bytes=-1),
        request(orders(), max_wait_ms=-1),
        request(fetch_pb2.FetchPartition()),
        request(*[orders()] * 10_001),
    ):
        with pytest.raises(AioRpcError) as raised:
            await node.client.broker.Fetch(bad)
        keys = [key for key, _ in raised.value.trailing_metadata() or ()]
        assert "tidelog-error-bin" in keys


@on_node()
async def test_a_request_without_partitions_is_answered_at_once(node: LiveNode) -> None:
    response = await node.client.broker.Fetch(request(min_bytes=5, max_wait_ms=60_000))
    assert list(response.partitions) == []


@on_node()
async def test_a_topic_deleted_meanwhile_ends_the_wait(node: LiveNode) -> None:
    await node.client.create("orders")
    pending = asyncio.ensure_future(only(node, request(orders(), max_wait_ms=60_000)))
    await node.client.fetch("orders")
    await node.client.delete("orders")
    assert (await pending).HasField("error")


@on_node()
async def test_deleted_records_are_out_of_range(node: LiveNode) -> None:
    await node.client.create("orders")
    for number in range(4):
        item = partition_batch("orders", batch(b"%d" % number))
        await node.client.broker.Produce(produce_request(item))
    partition = next(iter(node.node.broker.replicas))
    partition.log.advance_log_start(2, now_ms=0)
    answer = await node.client.fetch("orders", 1)
    assert answer.error.code == common_pb2.OFFSET_OUT_OF_RANGE
    left = await node.client.fetch("orders", 2)
    assert left.log_start_offset == 2
    assert await node.client.values("orders") == [b"2", b"3"]
