"""Disks that stall, fail and fill up: who is answered what, and that the others go on."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import Client, error_of, partition_batch, produce_request
from harness.disks import FaultyDisk
from harness.nodes import LiveNode, on_node
from harness.processes import running_node
from support.eventually import eventually_async
from tidelog.errors import BY_CODE
from tidelog.wire.v1 import common_pb2


def faulty(node: LiveNode) -> FaultyDisk:
    assert isinstance(node.disk, FaultyDisk)
    return node.disk


@on_node(make_disk=FaultyDisk)
async def test_a_stalled_sync_ends_in_a_timeout_whose_outcome_is_unknown(node: LiveNode) -> None:
    await node.client.create("orders")
    content = batch(b"a", producer=(1, 0, 0))
    faulty(node).stall()
    try:
        unary = await node.client.produce("orders", content, timeout_ms=100)
        assert unary.error.code == common_pb2.REQUEST_TIMED_OUT
        assert BY_CODE[unary.error.code].outcome_unknown
        assert "may still be committed" in unary.error.hint
        stream = node.client.produce_stream()
        await stream.send(
            produce_request(partition_batch("orders", content), timeout_ms=100, correlation_id=5)
        )
        answer = await stream.answer()
        assert answer.correlation_id == 5
        assert answer.partitions[0].error.code == common_pb2.REQUEST_TIMED_OUT
        hidden = await node.client.fetch("orders")
        assert (hidden.high_watermark, hidden.records) == (0, b"")
        quick = await node.client.produce("orders", batch(b"b"), acks=common_pb2.ACKS_LEADER)
        assert not quick.HasField("error"), "acks=1 does not wait for the disk"
    finally:
        faulty(node).go_on()
    again = await node.client.produce("orders", content)
    assert (again.duplicate, again.base_offset) == (True, 0)
    assert not (await node.client.produce("orders", batch(b"c"))).HasField("error")
    assert await node.client.values("orders") == [b"a", b"b", b"c"]
    await stream.finish()


@on_node(make_disk=FaultyDisk)
async def test_a_duplicate_is_not_acknowledged_before_its_first_writing_is(node: LiveNode) -> None:
    await node.client.create("orders")
    content = batch(b"a", producer=(1, 0, 0))
    faulty(node).stall()
    try:
        stream = node.client.produce_stream()
        for number in (1, 2):
            await stream.send(
                produce_request(partition_batch("orders", content), correlation_id=number)
            )
        pending = asyncio.ensure_future(stream.answer())
        await node.client.fetch("orders")
        assert not pending.done()
    finally:
        faulty(node).go_on()
    assert (await pending).correlation_id == 1
    assert (await stream.answer()).partitions[0].duplicate
    await stream.finish()


@on_node(
    make_disk=FaultyDisk,
    queued_max_request_bytes="200000",
    socket_request_max_bytes="150000",
    message_max_bytes="100000",
)
async def test_unanswered_bytes_hold_back_reading(node: LiveNode) -> None:
    await node.client.create("orders")
    content = batch(b"x" * 50_000)
    in_flight = node.node.broker.in_flight
    faulty(node).stall()
    try:
        stream = node.client.produce_stream()

        async def send_all() -> None:
            for number in range(100):
                request = produce_request(
                    partition_batch("orders", content), correlation_id=number, timeout_ms=60_000
                )
                await stream.send(request)
            await stream.call.done_writing()

        sending = asyncio.ensure_future(send_all())
        answers = asyncio.ensure_future(collect(stream))

        async def is_full() -> bool:
            return not in_flight.has_room

        await eventually_async(is_full, waiting_for="the limit to be reached")
        partition = next(iter(node.node.broker.replicas))
        await node.client.fetch("orders")
        assert partition.log.log_end <= 5, "no more is written than fits, and one request"
        assert in_flight.bytes <= 200_000 + len(content)
        assert not answers.done()
    finally:
        faulty(node).go_on()
    await sending
    assert await answers == list(range(100))
    assert in_flight.bytes == 0


@on_node(
    make_disk=FaultyDisk,
    queued_max_request_bytes="200000",
    socket_request_max_bytes="150000",
    message_max_bytes="100000",
)
async def test_a_unary_produce_that_finds_no_room_is_refused_and_not_held(node: LiveNode) -> None:
    """Each would keep its batches while it waits, and nobody bounds how many there are."""
    await node.client.create("orders")
    content = batch(b"x" * 90_000)
    in_flight = node.node.broker.in_flight
    faulty(node).stall()
    try:
        calls = [asyncio.ensure_future(node.client.produce("orders", content)) for _ in range(20)]
        for call in islice(asyncio.as_completed(calls), 17):
            with pytest.raises(AioRpcError) as refusal:
                await call
            error = error_of(refusal.value)
            assert error.code == common_pb2.THROTTLING_QUOTA_EXCEEDED
            assert BY_CODE[error.code].retriable
            assert not BY_CODE[error.code].outcome_unknown
        assert in_flight.bytes <= 3 * (len(content) + 1_024)
    finally:
        faulty(node).go_on()
    acks = await asyncio.gather(*calls, return_exceptions=True)
    taken = [ack for ack in acks if not isinstance(ack, BaseException)]
    assert len(taken) == 3
    assert len(await node.client.values("orders")) == 3, "nothing of the others was written"
    assert in_flight.bytes == 0
    assert not (await node.client.produce("orders", content)).HasField("error")


async def collect(stream: object) -> list[int]:
    owed = []
    async for answer in stream.call:  # type: ignore[attr-defined]
        assert not answer.partitions[0].HasField("error"), answer
        owed.append(answer.correlation_id)
    return owed


@on_node(make_disk=FaultyDisk, expected_errors=("a sync failed", "takes no more writes"))
async def test_a_failed_sync_makes_one_partition_faulty_and_no_other(node: LiveNode) -> None:
    topic_id = await node.client.create("orders", 2)
    await node.client.produce("orders", batch(b"kept"), partition=0)
    faulty(node).fail_syncs_below(f"topics/{topic_id.hex()}/0/")
    ack = await node.client.produce("orders", batch(b"lost?"), partition=0)
    kind = BY_CODE[ack.error.code]
    assert kind.retriable
    assert kind.outcome_unknown
    assert "was synced" in ack.error.message
    later = await node.client.produce("orders", batch(b"refused"), partition=0)
    assert later.HasField("error")
    assert BY_CODE[later.error.code].retriable
    assert (await node.client.fetch("orders", partition=0)).HasField("error")
    fine = await node.client.produce("orders", batch(b"fine"), partition=1)
    assert not fine.HasField("error"), fine.error
    assert await node.client.values("orders", 1) == [b"fine"]


@on_node(make_disk=FaultyDisk, expected_errors=("an append failed",))
async def test_a_failed_append_answers_at_once_who_waits_for_the_batches_before(
    node: LiveNode,
) -> None:
    await node.client.create("orders")
    partition = next(iter(node.node.broker.replicas))
    faulty(node).stall()
    try:
        waiting = asyncio.ensure_future(node.client.produce("orders", batch(b"kept?")))

        async def is_written() -> bool:
            return partition.log.log_end == 1

        await eventually_async(is_written, waiting_for="the first batch to be written")
        faulty(node).failing_append = 1
        refused = await node.client.produce("orders", batch(b"refused"))
        assert refused.error.code == common_pb2.STORAGE_ERROR, refused
        assert not BY_CODE[refused.error.code].outcome_unknown
        answer = await waiting
        assert BY_CODE[answer.error.code].outcome_unknown
        assert BY_CODE[answer.error.code].retriable
        assert "failed while orders-0 was written" in answer.error.message
    finally:
        faulty(node).go_on()
    later = await node.client.produce("orders", batch(b"refused"))
    assert BY_CODE[later.error.code].retriable


@on_node(make_disk=FaultyDisk, expected_errors=("an append failed",))
async def test_a_failed_append_leaves_no_other_partition_of_its_request_unanswered(
    node: LiveNode,
) -> None:
    await node.client.create("orders", 2)
    faulty(node).failing_append = 2
    answer = await node.client.broker.Produce(
        produce_request(
            partition_batch("orders", batch(b"kept?")),
            partition_batch("orders", batch(b"refused")),
            partition_batch("orders", batch(b"kept"), partition=1),
        )
    )
    unknown, refused, kept = answer.partitions
    assert BY_CODE[unknown.error.code].outcome_unknown, unknown
    assert refused.error.code == common_pb2.STORAGE_ERROR, refused
    assert not kept.HasField("error"), kept
    assert await node.client.values("orders", 1) == [b"kept"]


@on_node(make_disk=FaultyDisk, expected_errors=("the disk is full",))
async def test_a_full_disk_refuses_writes_serves_reads_and_recovers(node: LiveNode) -> None:
    await node.client.create("orders")
    await node.client.produce("orders", batch(b"a"))
    faulty(node).is_full = True
    for _ in range(3):
        ack = await node.client.produce("orders", batch(b"refused"))
        assert ack.error.code == common_pb2.DISK_FULL
        assert BY_CODE[ack.error.code].retriable
        assert not BY_CODE[ack.error.code].outcome_unknown
    assert await node.client.values("orders") == [b"a"]
    faulty(node).is_full = False

    async def is_accepted() -> bool:
        return not (await node.client.produce("orders", batch(b"b"))).HasField("error")

    await eventually_async(is_accepted, waiting_for="writes to be taken again")
    assert await node.client.values("orders") == [b"a", b"b"]


#: Batches in the topic that is deleted.
FILLERS = 2


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB of its own."""
    folder = tmp_path / "volume"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tidelog-test", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_volume_that_is_really_full(small_volume: Path, tmp_path: Path) -> None:
    content = batch(b"x" * 100_000)

    async def fill(address: str) -> int:
        async with Client(address) as client:
            await client.create("orders", configs={"file.delete.delay.ms": "0"})
            await client.create("filler", configs={"file.delete.delay.ms": "0"})
            # So much that its end leaves more than the margin below which none are taken again.
            for _ in range(FILLERS):
                await client.produce("filler", content)
            count = 0
            while not (ack := await client.produce("orders", content)).HasField("error"):
                count += 1
            assert ack.error.code == common_pb2.DISK_FULL, ack.error
            assert 5 <= count <= 20
            assert len(await client.values("orders")) == count
            assert len(await client.values("filler")) == FILLERS
            return count

    async def check(address: str, count: int) -> None:
        async with Client(address) as client:
            assert len(await client.values("orders")) == count
            await client.delete("filler")

            async def is_accepted() -> bool:
                return not (await client.produce("orders", batch(b"small"))).HasField("error")

            await eventually_async(is_accepted, waiting_for="writes to be taken again")
            assert len(await client.values("orders")) == count + 1

    with running_node(small_volume / "data", log_folder=tmp_path / "log") as node:
        count = asyncio.run(fill(node.bootstrap))
        node.kill()
    with running_node(small_volume / "data", log_folder=tmp_path / "log") as node:
        asyncio.run(check(node.bootstrap, count))
        node.terminate()
        assert node.exit_code() == 0
        assert "Traceback" not in node.log
