"""Logs that the disk won't read, or won't cut: the others of a request or a stream go on."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import replace

from storage_kit.batches import batch

from harness.client import partition_batch, produce_request
from harness.disks import FaultyDisk
from harness.nodes import LiveNode, on_node
from support.eventually import eventually_async
from tidelog.errors import BY_CODE
from tidelog.wire.v1 import admin_pb2, common_pb2, fetch_pb2, produce_pb2
from tidelog_broker.storage import Log


class RefusingDisk(FaultyDisk):
    """A disk that lists no folder below a path, renames nothing, syncs none, once told so."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self.unlisted = ""
        self.renames = True
        self.syncs_folders = True

    def list_directory(self, path: str) -> list[str]:
        """Lists what may be listed."""
        if self.unlisted and path.startswith(self.unlisted):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().list_directory(path)

    def rename(self, path: str, new_path: str) -> None:
        """Renames, while it may."""
        if not self.renames:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().rename(path, new_path)

    def sync_directory(self, path: str) -> None:
        """Syncs; the folders of partitions while it may."""
        if not self.syncs_folders and path.startswith("topics/"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync_directory(path)


def refusing(node: LiveNode) -> RefusingDisk:
    assert isinstance(node.disk, RefusingDisk)
    return node.disk


async def half_unreadable(node: LiveNode) -> None:
    """A topic of two partitions with a record each; the files of the first can't be listed."""
    topic_id = await node.client.create("orders", 2)
    for partition in range(2):
        await node.client.produce("orders", batch(b"old"), partition=partition)
    await node.restart()
    refusing(node).unlisted = f"topics/{topic_id.hex()}/0"


@on_node(make_disk=RefusingDisk)
async def test_the_others_of_an_idempotent_request_are_written(node: LiveNode) -> None:
    await half_unreadable(node)
    sound = partition_batch("orders", batch(b"new", producer=(5, 0, 0)), partition=1)
    unreadable = partition_batch("orders", batch(b"new", producer=(5, 0, 0)))
    answer = await node.client.broker.Produce(produce_request(sound, unreadable))
    written, refused = answer.partitions
    assert not written.HasField("error"), written
    assert refused.error.code == common_pb2.STORAGE_ERROR
    assert BY_CODE[refused.error.code].retriable
    refusing(node).unlisted = ""
    again = await node.client.broker.Produce(produce_request(unreadable))
    assert not again.partitions[0].HasField("error"), "what could not be read is no fault of a log"
    assert await node.client.values("orders", 1) == [b"old", b"new"]


@on_node(make_disk=RefusingDisk)
async def test_the_others_of_a_fetch_stream_are_read(node: LiveNode) -> None:
    await half_unreadable(node)
    request = fetch_pb2.FetchStreamRequest(credit_bytes=1 << 20)
    request.start.add(topic="orders", partition=0, session=1, last_fetched_epoch=0)
    request.start.add(topic="orders", partition=1, session=2)
    call = node.client.broker.FetchStream()
    await call.write(request)
    found: dict[int, fetch_pb2.PartitionRecords] = {}
    while len(found) < 2:
        answer = await call.read()
        assert isinstance(answer, fetch_pb2.FetchStreamResponse)
        assert not answer.HasField("error"), answer
        found |= {item.session: item for item in answer.partitions}
    assert found[1].error.code == common_pb2.STORAGE_ERROR
    assert found[2].records
    await call.done_writing()
    refusing(node).unlisted = ""


async def unacknowledged(node: LiveNode, log: Log) -> asyncio.Future[produce_pb2.PartitionAck]:
    """The answer to one more batch, which is written and whose sync is stalled."""
    log_end = log.log_end
    waiting = asyncio.ensure_future(node.client.produce("orders", batch(b"kept?")))

    async def is_written() -> bool:
        return log.log_end == log_end + 1

    await eventually_async(is_written, waiting_for="the batch to be written")
    return waiting


@on_node(make_disk=RefusingDisk, log_segment_bytes="1048576")
async def test_a_cut_that_fails_is_told_to_who_waits(node: LiveNode) -> None:
    await node.client.create("orders")
    for _ in range(6):
        await node.client.produce("orders", batch(os.urandom(400_000)))
    partition = next(iter(node.node.broker.replicas))
    refusing(node).stall()
    try:
        waiting = await unacknowledged(node, partition.log)
        refusing(node).renames = False
        request = admin_pb2.DeleteRecordsRequest()
        request.partitions.add(topic="orders", before_offset=6)
        deleted = (await node.client.admin.DeleteRecords(request)).partitions[0]
        assert deleted.error.code == common_pb2.STORAGE_ERROR
        answer = await waiting
        assert BY_CODE[answer.error.code].outcome_unknown
        assert "failed while orders-0 was cut" in answer.error.message
    finally:
        refusing(node).renames = True
        refusing(node).go_on()


@on_node(
    make_disk=RefusingDisk,
    log_segment_bytes="1048576",
    log_retention_check_interval_ms="20",
    expected_errors=("a sync failed", "retention could not run"),
)
async def test_retention_that_finds_a_folder_spoilt_is_told_to_who_waits(node: LiveNode) -> None:
    await node.client.create("orders", 1, {"retention.ms": "-1"})
    for sequence in range(6):
        await node.client.produce("orders", batch(os.urandom(400_000), producer=(5, 0, sequence)))
    partition = next(iter(node.node.broker.replicas))
    refusing(node).stall()
    try:
        waiting = await unacknowledged(node, partition.log)
        refusing(node).syncs_folders = False
        partition.log.config = replace(partition.log.config, retention_bytes=1)
        answer = await waiting
        assert BY_CODE[answer.error.code].outcome_unknown
        assert "failed while orders-0 was synced" in answer.error.message
        assert partition.log.log_start > 0
    finally:
        refusing(node).syncs_folders = True
        refusing(node).go_on()
