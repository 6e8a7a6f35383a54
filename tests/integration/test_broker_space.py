"""The space of the disk: what was deleted gives it back by itself, off the loop, and soon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from storage_kit.batches import batch

from harness.disks import FaultyDisk
from harness.nodes import LiveNode, on_node
from support.eventually import eventually_async
from tidelog.wire.v1 import admin_pb2, common_pb2
from tidelog_broker import broker as broker_module

#: Retention, which once gave the space back, does not run while a test does.
RARELY = str(3_600_000)
AT_ONCE = {"file.delete.delay.ms": "0"}
LATER = {"file.delete.delay.ms": "200"}
MUCH_LATER = {"file.delete.delay.ms": RARELY}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "SPACE_CHECK_S", 0.02)


def faulty(node: LiveNode) -> FaultyDisk:
    assert isinstance(node.disk, FaultyDisk)
    return node.disk


def deleted_names(data_dir: Path) -> list[str]:
    return [name for name in os.listdir(data_dir / "topics") if name.endswith(".deleted")]


async def filled(node: LiveNode, configs: dict[str, str]) -> None:
    await node.client.create("orders", 3, configs)
    for partition in range(3):
        await node.client.produce("orders", batch(b"x"), partition=partition)


async def until_nothing_is_left(node: LiveNode) -> None:
    async def nothing_is_left() -> bool:
        return deleted_names(node.data_dir) == []

    await eventually_async(nothing_is_left, waiting_for="the space to come back")


@on_node(log_retention_check_interval_ms=RARELY)
async def test_a_deleted_topic_gives_its_space_back_after_its_delay(node: LiveNode) -> None:
    await filled(node, LATER)
    await node.client.delete("orders")
    assert len(deleted_names(node.data_dir)) == 1
    await until_nothing_is_left(node)
    assert list((node.data_dir / "topics").iterdir()) == []


@on_node(log_retention_check_interval_ms=RARELY, make_disk=FaultyDisk)
async def test_the_broker_serves_while_files_are_removed(node: LiveNode) -> None:
    await filled(node, AT_ONCE)
    await node.client.create("others")
    disk = faulty(node)
    disk.stall_removals()
    try:
        await node.client.delete("orders")

        async def has_begun() -> bool:
            return bool(disk.removals)

        await eventually_async(has_begun, waiting_for="the removal to begin")
        assert not (await node.client.produce("others", batch(b"a"))).HasField("error")
    finally:
        disk.go_on()
    await until_nothing_is_left(node)
    assert len(disk.removals) == 4, "one step a partition, and one for the rest"


@on_node(log_retention_check_interval_ms=RARELY)
async def test_the_next_start_removes_what_a_stop_left(node: LiveNode) -> None:
    await filled(node, MUCH_LATER)
    await node.client.delete("orders")
    await node.restart()
    await until_nothing_is_left(node)


@on_node(
    log_retention_check_interval_ms=RARELY,
    make_disk=FaultyDisk,
    expected_errors=("the disk is full",),
)
async def test_a_full_disk_is_noticed_and_has_its_space_back_at_once(node: LiveNode) -> None:
    await filled(node, MUCH_LATER)
    await node.client.create("others")
    await node.client.delete("orders")
    space = node.node.broker.directory.volume.space
    disk = faulty(node)

    async def is_full() -> bool:
        return space.full

    async def has_room() -> bool:
        return not space.full

    disk.is_full = True
    await eventually_async(is_full, waiting_for="the full disk to be noticed, unasked")
    ack = await node.client.produce("others", batch(b"a"))
    assert ack.error.code == common_pb2.DISK_FULL
    await until_nothing_is_left(node)
    disk.is_full = False
    await eventually_async(has_room, waiting_for="the space to be noticed, unasked")
    assert not (await node.client.produce("others", batch(b"a"))).HasField("error")


@on_node(make_disk=FaultyDisk, expected_errors=("can't be looked after",))
async def test_a_disk_that_does_not_tell_its_space_ends_nothing(node: LiveNode) -> None:
    await node.client.create("orders")
    space = node.node.broker.directory.volume.space
    disk = faulty(node)
    disk.is_unreadable = True
    checked_ms = space.checked_ms

    async def was_asked_again() -> bool:
        return space.checked_ms > checked_ms

    await eventually_async(was_asked_again, waiting_for="the free space to be asked for")
    assert not (await node.client.produce("orders", batch(b"a"))).HasField("error")
    disk.is_unreadable = False
    assert node.node.failure is None


@on_node(
    log_retention_check_interval_ms=RARELY,
    make_disk=FaultyDisk,
    expected_errors=("left until the next start",),
)
async def test_a_folder_that_cannot_be_removed_keeps_no_other(node: LiveNode) -> None:
    await filled(node, AT_ONCE)
    topic_id = await node.client.create("others", 1, AT_ONCE)
    faulty(node).fail_syncs_below(f"topics/{topic_id.hex()}.1.deleted/0")
    await node.client.delete("others")
    await node.client.delete("orders")
    await until_nothing_is_left(node)


@on_node(log_retention_check_interval_ms=RARELY, log_segment_bytes="1048576")
async def test_segments_dropped_before_a_stop_are_removed_though_nobody_comes(
    node: LiveNode,
) -> None:
    topic_id = await node.client.create("orders", 1, MUCH_LATER)
    for _ in range(6):
        await node.client.produce("orders", batch(os.urandom(400_000)))
    request = admin_pb2.DeleteRecordsRequest()
    request.partitions.add(topic="orders", before_offset=5)
    await node.client.admin.DeleteRecords(request)
    folder = node.data_dir / "topics" / topic_id.hex() / "0"
    assert list(folder.glob("*.deleted"))
    await node.restart()

    async def is_removed() -> bool:
        return not list(folder.glob("*.deleted"))

    await eventually_async(is_removed, waiting_for="what was dropped to be removed")
