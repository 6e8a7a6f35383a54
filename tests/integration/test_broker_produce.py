"""Produce over gRPC, unary and by stream: verdicts, order, duplicates, what is refused and how."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import partition_batch, produce_request
from harness.nodes import LiveNode, on_node, run_on_node
from support.eventually import eventually_async
from tidelog.records.batch import LooseBatch
from tidelog.records.builder import set_producer
from tidelog.records.compression import Compression
from tidelog.wire.v1 import common_pb2, produce_pb2

ACKS = (common_pb2.ACKS_ALL, common_pb2.ACKS_LEADER, common_pb2.ACKS_NONE)


def produced_by(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch(*values, producer=(producer_id, epoch, sequence))


def offsets(response: produce_pb2.ProduceResponse) -> list[int]:
    assert not any(ack.HasField("error") for ack in response.partitions), response
    return [ack.base_offset for ack in response.partitions]


@on_node()
async def test_a_request_carries_many_partitions_of_many_topics(node: LiveNode) -> None:
    await node.client.create("orders", 3)
    await node.client.create("payments")
    request = produce_request(
        partition_batch("orders", batch(b"a"), partition=2),
        partition_batch("payments", batch(b"b", b"c")),
        partition_batch("orders", batch(b"d"), partition=0),
    )
    response = await node.client.broker.Produce(request)
    assert [(ack.topic, ack.partition) for ack in response.partitions] == [
        ("orders", 2), ("payments", 0), ("orders", 0),
    ]  # fmt: skip
    assert offsets(response) == [0, 0, 0]
    assert offsets(await node.client.broker.Produce(request)) == [1, 2, 1]
    assert await node.client.values("orders", 2) == [b"a", b"a"]
    assert await node.client.values("payments") == [b"b", b"c", b"b", b"c"]
    assert await node.client.values("orders", 1) == []


@on_node()
async def test_one_bad_partition_does_not_take_the_others_along(node: LiveNode) -> None:
    await node.client.create("orders", 3)
    damaged = bytearray(batch(b"b"))
    damaged[-1] ^= 1
    request = produce_request(
        partition_batch("orders", batch(b"a"), partition=0),
        partition_batch("orders", bytes(damaged), partition=1),
        partition_batch("orders", batch(b"c"), partition=2),
    )
    good, bad, fine = (await node.client.broker.Produce(request)).partitions
    assert not good.HasField("error")
    assert not fine.HasField("error")
    assert bad.error.code == common_pb2.CORRUPT_MESSAGE
    assert "CRC32C" in bad.error.message
    assert bad.partition == 1
    assert [await node.client.values("orders", at) for at in range(3)] == [[b"a"], [], [b"c"]]


@pytest.mark.parametrize("acks", ACKS, ids=common_pb2.Acks.Name)
def test_every_kind_of_acks_writes(tmp_path: Path, acks: common_pb2.Acks.ValueType) -> None:
    async def scenario(node: LiveNode) -> None:
        await node.client.create("orders")
        request = produce_request(partition_batch("orders", batch(b"a")), acks=acks)
        assert offsets(await node.client.broker.Produce(request)) == [0]
        stream = node.client.produce_stream()
        await stream.send(request)
        # acks=0 is not answered on a stream: whatever comes after it is answered first.
        await stream.send(produce_request(partition_batch("orders", batch(b"b")), correlation_id=7))
        owed = await stream.finish()
        silent = acks == common_pb2.ACKS_NONE
        assert [answer.correlation_id for answer in owed] == ([7] if silent else [0, 7])
        assert await node.client.values("orders") == [b"a", b"a", b"b"]

    run_on_node(tmp_path / "data", scenario)


@on_node()
async def test_acks_that_are_none_refuse_the_whole_request(node: LiveNode) -> None:
    await node.client.create("orders")
    request = produce_request(partition_batch("orders", batch()), correlation_id=3)
    request.acks = 9  # type: ignore[assignment] # what a careless client may send
    stream = node.client.produce_stream()
    await stream.send(request)
    answer = await stream.answer()
    assert answer.error.code == common_pb2.INVALID_REQUIRED_ACKS
    assert answer.correlation_id == 3
    assert "acks=9" in answer.error.message
    assert await stream.finish() == []
    with pytest.raises(AioRpcError, match="acks=9"):
        await node.client.broker.Produce(request)
    assert await node.client.values("orders") == []


@on_node()
async def test_a_stream_keeps_order_and_answers_by_correlation_id(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    stream = node.client.produce_stream()
    for number in range(50):
        value = b"%d" % number
        await stream.send(
            produce_request(
                partition_batch("orders", batch(value), partition=number % 2),
                correlation_id=number,
            )
        )
    answers = {answer.correlation_id: answer for answer in await stream.finish()}
    assert sorted(answers) == list(range(50))
    assert [offsets(answers[number]) for number in range(50)] == [[at // 2] for at in range(50)]
    for partition in range(2):
        expected = [b"%d" % number for number in range(partition, 50, 2)]
        assert await node.client.values("orders", partition) == expected


@on_node()
async def test_two_batches_of_one_request_to_one_partition_keep_their_order(
    node: LiveNode,
) -> None:
    await node.client.create("orders")
    request = produce_request(
        partition_batch("orders", batch(b"a")), partition_batch("orders", batch(b"b"))
    )
    assert offsets(await node.client.broker.Produce(request)) == [0, 1]
    assert await node.client.values("orders") == [b"a", b"b"]


@on_node()
async def test_a_request_without_partitions_is_answered(node: LiveNode) -> None:
    response = await node.client.broker.Produce(produce_request(correlation_id=4))
    assert response == produce_pb2.ProduceResponse(correlation_id=4)


# --- idempotence ---------------------------------------------------------------------------------


@on_node()
async def test_the_last_five_batches_are_recognised_and_answered_as_then(node: LiveNode) -> None:
    await node.client.create("orders")
    producer_id = await node.client.new_producer_id()
    sent = [produced_by(producer_id, at * 2, b"%d" % at, b"+") for at in range(7)]
    for at, content in enumerate(sent):
        ack = await node.client.produce("orders", content)
        assert (ack.base_offset, ack.duplicate) == (at * 2, False)
    for at in range(2, 7):
        ack = await node.client.produce("orders", sent[at])
        assert (ack.base_offset, ack.duplicate) == (at * 2, True)
    too_old = await node.client.produce("orders", sent[1])
    assert too_old.error.code == common_pb2.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(await node.client.values("orders")) == 14


@on_node()
async def test_duplicates_are_recognised_across_a_restart(node: LiveNode) -> None:
    await node.client.create("orders")
    producer_id = await node.client.new_producer_id()
    sent = [produced_by(producer_id, at, b"%d" % at) for at in range(6)]
    for content in sent:
        await node.client.produce("orders", content)
    await node.restart()
    for at in range(1, 6):
        ack = await node.client.produce("orders", sent[at])
        assert (ack.base_offset, ack.duplicate) == (at, True)
    follower = await node.client.produce("orders", produced_by(producer_id, 6, b"6"))
    assert (follower.base_offset, follower.duplicate) == (6, False)


@on_node()
async def test_a_gap_in_the_sequence_is_refused(node: LiveNode) -> None:
    await node.client.create("orders")
    producer_id = await node.client.new_producer_id()
    await node.client.produce("orders", produced_by(producer_id, 0, b"a"))
    ack = await node.client.produce("orders", produced_by(producer_id, 2, b"c"))
    assert ack.error.code == common_pb2.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert "1 was expected" in ack.error.message
    assert await node.client.values("orders") == [b"a"]


@on_node()
async def test_an_old_epoch_is_fenced_and_a_new_one_begins_at_zero(node: LiveNode) -> None:
    await node.client.create("orders")
    producer_id = await node.client.new_producer_id()
    await node.client.produce("orders", produced_by(producer_id, 0, b"a"))
    ack = await node.client.produce("orders", produced_by(producer_id, 1, b"x", epoch=1))
    assert ack.error.code == common_pb2.OUT_OF_ORDER_SEQUENCE_NUMBER
    ack = await node.client.produce("orders", produced_by(producer_id, 0, b"b", epoch=1))
    assert not ack.HasField("error")
    ack = await node.client.produce("orders", produced_by(producer_id, 1, b"y"))
    assert ack.error.code == common_pb2.INVALID_PRODUCER_EPOCH
    assert await node.client.values("orders") == [b"a", b"b"]


@on_node()
async def test_the_sequence_wraps(node: LiveNode) -> None:
    """A compressed batch may claim any number of records: the broker does not look inside."""
    await node.client.create("orders")
    last = 2**31 - 1
    long = LooseBatch(
        [b"x"],
        attributes=int(Compression.GZIP),
        record_count=last - 1,
        base_timestamp=1,
        max_timestamp=1,
    )
    steps = [
        b"".join(long.sealed((5, 0, 0))),
        produced_by(5, last - 1, b"y"),
        produced_by(5, last, b"y", b"z"),
    ]
    steps.append(produced_by(5, 1, b"w"))
    for content in steps:
        ack = await node.client.produce("orders", content)
        assert not ack.HasField("error"), ack.error
    for content in steps:
        assert (await node.client.produce("orders", content)).duplicate
    assert (await node.client.produce("orders", produced_by(5, 3, b"v"))).HasField("error")


# --- what a batch may be -------------------------------------------------------------------------


@on_node()
async def test_the_broker_stamps_log_append_time(node: LiveNode) -> None:
    await node.client.create("orders", configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = node.node.broker.clock.now_ms()
    content = batch(b"a", b"b", timestamp=1, producer=(9, 0, 0))
    ack = await node.client.produce("orders", content)
    again = await node.client.produce("orders", content)
    after_ms = node.node.broker.clock.now_ms()
    assert before_ms <= ack.append_time_ms <= after_ms
    assert (again.duplicate, again.append_time_ms) == (True, ack.append_time_ms)
    records = await node.client.fetch_all("orders")
    assert [record.timestamp for record in records] == [ack.append_time_ms] * 2
    assert [record.timestamp_type for record in records] == [1, 1]
    for asked in (0, ack.append_time_ms, -3):
        found = await node.client.list_offset("orders", asked)
        assert (found.offset, found.timestamp_ms) == (0, ack.append_time_ms)
    assert (await node.client.list_offset("orders", ack.append_time_ms + 1)).offset == -1


@on_node()
async def test_create_time_is_kept_and_no_append_time_is_told(node: LiveNode) -> None:
    await node.client.create("orders")
    ack = await node.client.produce("orders", batch(b"a", timestamp=1_234))
    assert ack.append_time_ms == -1
    assert [record.timestamp for record in await node.client.fetch_all("orders")] == [1_234]


@on_node()
async def test_max_message_bytes_of_the_topic_holds(node: LiveNode) -> None:
    content = batch(b"x" * 1_000)
    await node.client.create("orders", configs={"max.message.bytes": str(len(content))})
    assert not (await node.client.produce("orders", content)).HasField("error")
    ack = await node.client.produce("orders", batch(b"x" * 1_001))
    assert ack.error.code == common_pb2.MESSAGE_TOO_LARGE
    assert f"max.message.bytes={len(content)}" in ack.error.message
    assert ack.error.hint


@on_node()
async def test_a_timestamp_too_far_ahead_is_refused(node: LiveNode) -> None:
    await node.client.create("orders", configs={"message.timestamp.after.max.ms": "1000"})
    now_ms = node.node.broker.clock.now_ms()
    ack = await node.client.produce("orders", batch(b"a", timestamp=now_ms + 3_600_000))
    assert ack.error.code == common_pb2.INVALID_TIMESTAMP
    assert "message.timestamp.after.max.ms" in ack.error.message
    assert not (await node.client.produce("orders", batch(timestamp=now_ms))).HasField("error")


def flagged(bit: int) -> bytes:
    """A batch whose attributes carry one more bit, with the CRC that belongs to it."""
    content = bytearray(batch(b"a", producer=(7, 0, 0)))
    content[22] |= bit
    return set_producer(bytes(content), 7, 0, 0)


REFUSED_BATCHES = {
    "control": (flagged(0x20), common_pb2.INVALID_RECORD),
    "transactional": (flagged(0x10), common_pb2.INVALID_TXN_STATE),
    "log append time": (flagged(0x08), common_pb2.INVALID_TIMESTAMP),
    "unknown attribute": (flagged(0x40), common_pb2.CORRUPT_MESSAGE),
    "unknown compression": (flagged(0x07), common_pb2.UNSUPPORTED_COMPRESSION_TYPE),
    "trailing bytes": (batch(b"a") + b"\0", common_pb2.CORRUPT_MESSAGE),
    "two batches": (batch(b"a") + batch(b"b"), common_pb2.CORRUPT_MESSAGE),
    "empty": (b"", common_pb2.CORRUPT_MESSAGE),
    "only a header": (batch(b"a")[:61], common_pb2.CORRUPT_MESSAGE),
    "cut short": (batch(b"a")[:-1], common_pb2.CORRUPT_MESSAGE),
    "another magic": (batch(b"a")[:16] + b"\1" + batch(b"a")[17:], common_pb2.CORRUPT_MESSAGE),
    "no records": (
        set_producer(batch(b"a")[:57] + bytes(4) + batch(b"a")[61:], -1, -1, -1),
        common_pb2.CORRUPT_MESSAGE,
    ),
    "half a producer": (set_producer(batch(b"a"), 5, -1, 0), common_pb2.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("what", REFUSED_BATCHES)
def test_what_no_producer_may_send_is_refused_in_words(tmp_path: Path, what: str) -> None:
    content, code = REFUSED_BATCHES[what]

    async def scenario(node: LiveNode) -> None:
        await node.client.create("orders")
        ack = await node.client.produce("orders", content)
        assert ack.error.code == code, ack.error
        assert ack.error.message
        assert await node.client.values("orders") == []
        assert not (await node.client.produce("orders", batch(b"ok"))).HasField("error")

    run_on_node(tmp_path / "data", scenario)


@on_node()
async def test_transactional_producers_are_refused(node: LiveNode) -> None:
    await node.client.create("orders")
    request = produce_request(partition_batch("orders", batch()), correlation_id=1)
    request.transactional_id = "till-4"
    stream = node.client.produce_stream()
    await stream.send(request)
    answer = await stream.answer()
    assert answer.error.code == common_pb2.INVALID_TXN_STATE
    assert "till-4" in answer.error.message
    await stream.finish()
    with pytest.raises(AioRpcError, match="till-4"):
        await node.client.broker.Produce(request)


@on_node()
async def test_a_topic_needs_no_more_replicas_than_it_has(node: LiveNode) -> None:
    await node.client.create("orders", configs={"min.insync.replicas": "2"})
    ack = await node.client.produce("orders", batch(b"a"), acks=common_pb2.ACKS_ALL)
    assert not ack.HasField("error"), ack.error
    assert await node.client.values("orders") == [b"a"]


def requests_alive() -> int:
    return sum(isinstance(found, produce_pb2.ProduceRequest) for found in gc.get_objects())


@on_node()
async def test_a_refused_request_is_not_kept_until_garbage_is_collected(node: LiveNode) -> None:
    refused = produce_pb2.ProduceRequest(transactional_id="x")

    async def none_is_left() -> bool:
        return requests_alive() <= before

    gc.collect()
    gc.disable()
    try:
        before = requests_alive()
        for _ in range(10):
            with pytest.raises(AioRpcError):
                await node.client.broker.Produce(refused)
        await eventually_async(none_is_left, waiting_for="the requests to go")
    finally:
        gc.enable()
