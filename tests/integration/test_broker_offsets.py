"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a log begins, ends and is cut."""

from __future__ import annotations

from unittest.mock import patch

from storage_kit.batches import batch

from harness.client import partition_batch, produce_request
from harness.nodes import LiveNode, on_node
from tidelog.wire.v1 import admin_pb2, common_pb2, offsets_pb2
from tidelog_broker.storage.journal import Journal

LATEST, EARLIEST, NEWEST = -1, -2, -3


async def write(node: LiveNode, *timestamps: int) -> None:
    for timestamp in timestamps:
        ack = await node.client.produce("orders", batch(b"x", timestamp=timestamp))
        assert not ack.HasField("error"), ack.error


def told(answer: offsets_pb2.PartitionOffset) -> tuple[int, int, int]:
    assert not answer.HasField("error"), answer.error
    return answer.offset, answer.timestamp_ms, answer.leader_epoch


@on_node()
async def test_an_empty_log_begins_and_ends_at_zero(node: LiveNode) -> None:
    await node.client.create("orders")
    assert told(await node.client.list_offset("orders", EARLIEST)) == (0, -1, -1)
    assert told(await node.client.list_offset("orders", LATEST)) == (0, -1, 0)
    assert told(await node.client.list_offset("orders", NEWEST)) == (-1, -1, -1)
    assert told(await node.client.list_offset("orders", 0)) == (-1, -1, -1)


@on_node()
async def test_offsets_by_time_stand_clocks_that_jump(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 1_000, 5_000, 2_000, 5_000, 7_000, 3_000)
    by_time = {
        at: told(await node.client.list_offset("orders", at))
        for at in (0, 1_000, 1_001, 5_000, 5_001, 7_000, 7_001, 2**62)
    }
    assert by_time == {
        0: (0, 1_000, 0),
        1_000: (0, 1_000, 0),
        1_001: (1, 5_000, 0),
        5_000: (1, 5_000, 0),
        5_001: (4, 7_000, 0),
        7_000: (4, 7_000, 0),
        7_001: (-1, -1, -1),
        2**62: (-1, -1, -1),
    }
    assert told(await node.client.list_offset("orders", NEWEST)) == (4, 7_000, 0)
    assert told(await node.client.list_offset("orders", LATEST))[0] == 6
    assert told(await node.client.list_offset("orders", EARLIEST))[0] == 0


@on_node()
async def test_unknown_special_timestamps_are_refused(node: LiveNode) -> None:
    await node.client.create("orders")
    for timestamp in (-4, -5, -(2**63)):
        answer = await node.client.list_offset("orders", timestamp)
        assert answer.error.code == common_pb2.INVALID_REQUEST
        assert str(timestamp) in answer.error.message


@on_node()
async def test_one_answer_a_partition_in_the_order_of_the_request(node: LiveNode) -> None:
    topic_id = await node.client.create("orders", 2)
    await write(node, 1_000)
    request = offsets_pb2.ListOffsetsRequest()
    request.partitions.add(topic="orders", partition=1, timestamp_ms=LATEST)
    request.partitions.add(topic="gone", timestamp_ms=LATEST)
    request.partitions.add(topic_id=topic_id, timestamp_ms=LATEST)
    request.partitions.add(topic="orders", partition=2, timestamp_ms=LATEST)
    request.partitions.add(topic="orders", timestamp_ms=LATEST, leader_epoch=4)
    answers = (await node.client.broker.ListOffsets(request)).partitions
    assert [answer.error.code for answer in answers] == [
        0,
        common_pb2.UNKNOWN_TOPIC_OR_PARTITION,
        0,
        common_pb2.UNKNOWN_TOPIC_OR_PARTITION,
        common_pb2.UNKNOWN_LEADER_EPOCH,
    ]
    assert [answers[0].offset, answers[2].offset] == [0, 1]
    assert answers[2].topic_id == topic_id


@on_node()
async def test_where_epochs_end(node: LiveNode) -> None:
    await node.client.create("orders")

    async def ask(epoch: int, current: int | None = None) -> offsets_pb2.PartitionEpochEnd:
        request = offsets_pb2.OffsetForLeaderEpochRequest()
        request.partitions.add(topic="orders", leader_epoch=epoch, current_leader_epoch=current)
        (answer,) = (await node.client.broker.OffsetForLeaderEpoch(request)).partitions
        return answer

    def end(answer: offsets_pb2.PartitionEpochEnd) -> tuple[int, int]:
        assert not answer.HasField("error"), answer.error
        return answer.leader_epoch, answer.end_offset

    assert end(await ask(0)) == (-1, -1)
    await write(node, 1, 2, 3)
    assert end(await ask(0)) == (0, 3)
    assert end(await ask(9)) == (0, 3)
    assert end(await ask(-1)) == (-1, -1)
    assert end(await ask(0, 0)) == (0, 3)
    assert (await ask(0, 3)).error.code == common_pb2.UNKNOWN_LEADER_EPOCH
    assert (await ask(0, -3)).error.code == common_pb2.FENCED_LEADER_EPOCH


# --- deleting records ----------------------------------------------------------------------------


async def delete_below(
    node: LiveNode, offset: int, topic: str = "orders"
) -> admin_pb2.DeletedRecords:
    request = admin_pb2.DeleteRecordsRequest()
    request.partitions.add(topic=topic, before_offset=offset)
    (answer,) = (await node.client.admin.DeleteRecords(request)).partitions
    return answer


@on_node()
async def test_records_are_deleted_up_to_an_offset_for_good(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 1, 2, 3, 4)
    assert (await delete_below(node, 2)).low_watermark == 2
    assert (await delete_below(node, 1)).low_watermark == 2
    assert told(await node.client.list_offset("orders", EARLIEST))[0] == 2
    assert told(await node.client.list_offset("orders", 0)) == (2, 3, 0)
    await node.restart()
    assert told(await node.client.list_offset("orders", EARLIEST))[0] == 2
    refused = await node.client.fetch("orders", 1)
    assert refused.error.code == common_pb2.OFFSET_OUT_OF_RANGE
    assert [record.offset for record in await node.client.fetch_all("orders")] == [2, 3]


@on_node()
async def test_everything_can_be_deleted_and_offsets_go_on(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 1, 2, 3)
    assert (await delete_below(node, -1)).low_watermark == 3
    assert await node.client.values("orders") == []
    ack = await node.client.produce("orders", batch(b"next"))
    assert (ack.base_offset, ack.log_start_offset) == (3, 3)
    assert await node.client.values("orders") == [b"next"]


@on_node()
async def test_what_is_not_there_cannot_be_deleted(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 1)
    for offset in (2, -2, 2**62):
        answer = await delete_below(node, offset)
        assert answer.error.code == common_pb2.OFFSET_OUT_OF_RANGE
        assert answer.low_watermark == -1
        assert answer.error.hint
    assert (await delete_below(node, 0, "gone")).error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION


@on_node()
async def test_clients_cannot_delete_records_of_internal_topics(node: LiveNode) -> None:
    await node.internal.create("__groups")
    answer = await delete_below(node, -1, "__groups")
    assert answer.error.code == common_pb2.TOPIC_AUTHORIZATION_FAILED


@on_node()
async def test_partitions_share_the_sync_that_announces_what_is_deleted(node: LiveNode) -> None:
    """Each of a thousand had one of its own, and nobody was served for seconds."""
    await node.client.create("orders", 250)
    wanted = [*range(250), 7, 249, 250]
    for _ in range(3):
        items = (partition_batch("orders", batch(b"x"), partition=at) for at in range(250))
        await node.client.broker.Produce(produce_request(*items))
    request = admin_pb2.DeleteRecordsRequest()
    for at in wanted:
        request.partitions.add(topic="orders", partition=at, before_offset=at % 3)
    request.partitions[250].before_offset = 3
    journal = node.node.broker.directory.volume.journal
    with patch.object(Journal, "sync", autospec=True, side_effect=Journal.sync) as sync:
        answers = (await node.client.admin.DeleteRecords(request)).partitions
    assert sync.call_count == 16
    starts = [at % 3 for at in wanted]
    starts[250], starts[252] = 3, -1
    assert [answer.low_watermark for answer in answers] == starts
    assert answers[252].error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert set(journal.state.starts.values()) == {1, 2, 3}
    await node.restart()
    starts[7] = 3
    for at in range(250):
        found = await node.client.list_offset("orders", EARLIEST, partition=at)
        assert told(found)[0] == starts[at]
