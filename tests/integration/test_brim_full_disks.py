"""Where others filled the disk to its last byte, a node can be emptied, stopped and started."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from storage_kit.batches import batch

from harness.nodes import LiveNode, run_on_node
from simulation.disk import SimulatedDisk
from support.eventually import eventually_async
from tidelog.wire.v1 import admin_pb2
from tidelog_broker import broker as broker_module
from tidelog_runtime.disk import Disk
from tidelog_runtime.reserving_disk import RESERVE

CAPACITY = 8 << 20
RECORD = b"x" * 100_000
RECORDS = 40
IS_FULL = "the disk is full"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "SPACE_CHECK_S", 0.02)


class OneVolume:
    """Gives a node that is started again the volume it had."""

    def __init__(self) -> None:
        self.checkpoints_tried = 0
        self.disk = SimulatedDisk(Random(1), capacity_bytes=CAPACITY, observe=self._observe)

    def _observe(self, operation: str, path: str) -> None:
        self.checkpoints_tried += (operation, path) == ("append", "watermarks.tmp")

    def __call__(self, _data_dir: str) -> Disk:
        return self.disk

    def fill(self) -> None:
        """Somebody else takes every byte that is left."""
        self.disk.set_capacity(CAPACITY - self.disk.free_bytes())
        assert self.disk.free_bytes() == 0


async def filled(node: LiveNode) -> None:
    await node.client.create(
        "orders", 1, {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "0"}
    )
    for _ in range(RECORDS):
        assert not (await node.client.produce("orders", batch(RECORD))).HasField("error")


async def until_writes_are_taken(node: LiveNode) -> None:
    async def takes_a_write() -> bool:
        return not (await node.client.produce("orders", batch(b"after"))).HasField("error")

    await eventually_async(takes_a_write, waiting_for="the broker to take writes")


def test_records_can_be_deleted_and_the_broker_goes_on(tmp_path: Path) -> None:
    volume = OneVolume()

    async def scenario(node: LiveNode) -> None:
        await filled(node)
        volume.fill()
        assert (await node.client.produce("orders", batch(RECORD))).HasField("error")
        request = admin_pb2.DeleteRecordsRequest()
        request.partitions.add(topic="orders", partition=0, before_offset=RECORDS)
        (deleted,) = (await node.client.admin.DeleteRecords(request)).partitions
        assert not deleted.HasField("error"), deleted.error
        await until_writes_are_taken(node)

    run_on_node(tmp_path, scenario, make_disk=volume, expected_errors=(IS_FULL,))


def test_a_topic_can_be_deleted_and_another_made(tmp_path: Path) -> None:
    volume = OneVolume()

    async def scenario(node: LiveNode) -> None:
        await filled(node)
        volume.fill()
        await node.client.delete("orders")
        await node.client.create("orders")
        await until_writes_are_taken(node)

    run_on_node(tmp_path, scenario, make_disk=volume, expected_errors=(IS_FULL,))


def test_a_node_that_nobody_asks_for_anything_keeps_its_reserve(tmp_path: Path) -> None:
    volume = OneVolume()

    async def scenario(node: LiveNode) -> None:
        await filled(node)
        volume.fill()
        held = volume.disk.open(RESERVE).size
        assert held > 0
        # Its checkpoints find no space meanwhile, and can do without.
        tried_before = volume.checkpoints_tried

        async def has_tried() -> bool:
            return volume.checkpoints_tried > tried_before + 3

        await eventually_async(has_tried, waiting_for="some checkpoints")
        assert volume.disk.open(RESERVE).size == held

    run_on_node(
        tmp_path,
        scenario,
        make_disk=volume,
        expected_errors=(IS_FULL,),
        replica_high_watermark_checkpoint_interval_ms="20",
    )


def test_it_can_be_stopped_in_order_and_started(tmp_path: Path) -> None:
    volume = OneVolume()

    async def scenario(node: LiveNode) -> None:
        await filled(node)
        volume.fill()
        await node.restart()
        assert node.node.broker.directory.was_clean
        fetched = await node.client.fetch("orders", RECORDS - 1)
        assert RECORD in fetched.records

    run_on_node(tmp_path, scenario, make_disk=volume, expected_errors=(IS_FULL,))
