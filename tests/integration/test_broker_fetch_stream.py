"""FetchStream: credit, sessions, fairness, waiting, and every way in which a stream may end."""

from __future__ import annotations

import asyncio

import grpc
from grpc.aio import EOF
from storage_kit.batches import batch, headers

from harness.client import FetchStreamClient
from harness.nodes import LiveNode, on_node
from tidelog.wire.v1 import common_pb2, fetch_pb2

PLENTY = 64 * 1024 * 1024


def start(
    session: int,
    offset: int = 0,
    *,
    topic: str = "orders",
    partition: int = 0,
    max_bytes: int = 0,
    end: int | None = None,
) -> fetch_pb2.FetchPartition:
    return fetch_pb2.FetchPartition(
        topic=topic,
        partition=partition,
        session=session,
        fetch_offset=offset,
        max_bytes=max_bytes,
        end_offset=end,
    )


async def write(node: LiveNode, count: int, *, partition: int = 0, value: bytes = b"x") -> int:
    """Writes batches of one record each; the bytes of one."""
    content = batch(value)
    for _ in range(count):
        ack = await node.client.produce("orders", content, partition=partition)
        assert not ack.HasField("error"), ack.error
    return len(content)


async def sync(stream: FetchStreamClient) -> list[fetch_pb2.PartitionRecords]:
    """What the broker had sent before it took notice of a start that it must refuse."""
    await stream.say(start(-77, topic="no-such-topic"))
    seen: list[fetch_pb2.PartitionRecords] = []
    while True:
        for answer in (await stream.answer()).partitions:
            if answer.session == -77:
                return seen
            seen.append(answer)


@on_node()
async def test_records_are_pushed_as_they_commit(node: LiveNode) -> None:
    await node.client.create("orders")
    stream = node.client.fetch_stream()
    await stream.say(start(4), credit_bytes=PLENTY)
    for number in range(5):
        await write(node, 1)
        answer = await stream.one()
        assert answer.session == 4
        assert [header.base_offset for header in headers(answer.records)] == [number]
        assert answer.high_watermark == number + 1
        assert (answer.topic, answer.topic_id) == ("", b"")
    assert await stream.finish() == []
    assert await stream.call.code() == grpc.StatusCode.OK


@on_node()
async def test_nothing_is_pushed_without_credit(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 10)
    stream = node.client.fetch_stream()
    await stream.say(start(1, max_bytes=size))
    assert await sync(stream) == []
    await stream.say(credit_bytes=size * 3)
    got = await stream.take(3)
    assert [header.base_offset for answer in got for header in headers(answer.records)] == [0, 1, 2]
    assert await sync(stream) == []
    await stream.say(credit_bytes=size)
    assert [header.base_offset for header in headers((await stream.one()).records)] == [3]
    assert await sync(stream) == []
    await stream.finish()


@on_node()
async def test_one_batch_goes_out_whatever_the_credit_and_is_paid_for(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 3, value=b"x" * 1_000)
    stream = node.client.fetch_stream()
    await stream.say(start(1), credit_bytes=1)
    assert len((await stream.one()).records) == size
    # The debt of size - 1 bytes is paid before the next batch comes.
    await stream.say(credit_bytes=size - 1)
    assert await sync(stream) == []
    await stream.say(credit_bytes=1)
    assert len((await stream.one()).records) == size
    assert await sync(stream) == []
    await stream.finish()


@on_node()
async def test_a_session_ends_by_itself_at_its_end_offset(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 4)
    stream = node.client.fetch_stream()
    await stream.say(start(1, max_bytes=size, end=3), start(2, 3, end=6), credit_bytes=PLENTY)
    seen = await sync(stream)
    assert [
        (answer.session, header.base_offset)
        for answer in seen
        for header in headers(answer.records)
    ] == [(1, 0), (2, 3), (1, 1), (1, 2)]
    await write(node, 4)
    seen = [await stream.one(), *await sync(stream)]
    assert [header.base_offset for answer in seen for header in headers(answer.records)] == [4, 5]
    assert {answer.session for answer in seen} == {2}
    await stream.finish()


@on_node()
async def test_the_end_of_a_session_is_worth_an_answer(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 4)
    stream = node.client.fetch_stream()
    patient = fetch_pb2.FetchOptions(min_bytes=PLENTY, max_wait_ms=3_600_000)
    await stream.say(start(1, end=2), credit_bytes=PLENTY, options=patient)
    answer = await stream.one()
    assert [header.base_offset for header in headers(answer.records)] == [0, 1]
    await stream.finish()


@on_node()
async def test_an_end_that_is_no_end_is_refused(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 4)
    stream = node.client.fetch_stream()
    await stream.say(start(1, 2, end=2), credit_bytes=PLENTY)
    answer = await stream.one()
    assert answer.error.code == common_pb2.INVALID_REQUEST
    assert "between offset 2 and the end 2" in answer.error.message
    await stream.finish()


@on_node()
async def test_credit_is_shared_by_all_partitions(node: LiveNode) -> None:
    await node.client.create("orders", 4)
    for partition in range(4):
        size = await write(node, 5, partition=partition)
    stream = node.client.fetch_stream()
    starts = [start(at, partition=at, max_bytes=size) for at in range(4)]
    await stream.say(*starts, credit_bytes=size * 8)
    seen = await sync(stream)
    assert sum(len(answer.records) for answer in seen) == size * 8
    counts = [sum(answer.session == at for answer in seen) for at in range(4)]
    assert counts == [2, 2, 2, 2], "the partitions take turns"
    await stream.finish()


@on_node()
async def test_a_large_partition_does_not_starve_the_small_ones(node: LiveNode) -> None:
    await node.client.create("orders", 20)
    size = await write(node, 30, value=b"x" * 10_000)
    for partition in range(1, 20):
        await write(node, 1, partition=partition)
    stream = node.client.fetch_stream()
    options = fetch_pb2.FetchOptions(max_bytes=size * 2)
    starts = [start(at, partition=at, max_bytes=size * 2) for at in range(20)]
    await stream.say(*starts, credit_bytes=PLENTY, options=options)
    order: list[int] = []
    while sum(order.count(at) > 0 for at in range(20)) < 20:
        order += [answer.session for answer in (await stream.answer()).partitions]
    assert order.count(0) <= 3
    await stream.finish()


@on_node()
async def test_what_was_pushed_before_a_seek_is_told_apart(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 10)
    stream = node.client.fetch_stream()
    await stream.say(start(1, max_bytes=size), credit_bytes=size * 2)
    assert [answer.session for answer in await sync(stream)] == [1, 1]
    await stream.say(start(2, 7, max_bytes=size), stop=(1,), credit_bytes=PLENTY)
    got = await stream.take(3)
    assert [answer.session for answer in got] == [2, 2, 2]
    assert [headers(answer.records)[0].base_offset for answer in got] == [7, 8, 9]
    await stream.finish()


@on_node()
async def test_a_session_number_used_again_moves_the_session(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 4)
    stream = node.client.fetch_stream()
    await stream.say(start(1, max_bytes=size))
    await stream.say(start(1, 3, max_bytes=size), credit_bytes=PLENTY)
    assert headers((await stream.one()).records)[0].base_offset == 3
    assert await sync(stream) == []
    await stream.finish()


@on_node()
async def test_a_stopped_session_says_nothing_more(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    stream = node.client.fetch_stream()
    starts = (start(1, partition=0), start(2, partition=1))
    await stream.say(*starts, credit_bytes=PLENTY)
    await stream.say(stop=(1, 99))
    assert await sync(stream) == []
    await write(node, 1, partition=0)
    await write(node, 1, partition=1)
    assert (await stream.one()).session == 2
    assert await sync(stream) == []
    await stream.finish()


@on_node()
async def test_an_error_ends_a_session_and_not_the_stream(node: LiveNode) -> None:
    await node.client.create("orders", 2)
    await write(node, 1)
    stream = node.client.fetch_stream()
    starts = (start(1, 9), start(2, partition=5), start(3), start(4, partition=1))
    await stream.say(*starts, credit_bytes=PLENTY)
    seen: dict[int, fetch_pb2.PartitionRecords] = {}
    while len(seen) < 3:
        seen |= {answer.session: answer for answer in (await stream.answer()).partitions}
    assert seen[1].error.code == common_pb2.OFFSET_OUT_OF_RANGE
    assert seen[2].error.code == common_pb2.UNKNOWN_TOPIC_OR_PARTITION
    assert len(headers(seen[3].records)) == 1
    await write(node, 1, partition=1)
    assert (await stream.one()).session == 4
    await stream.finish()


@on_node()
async def test_a_deleted_topic_ends_its_sessions(node: LiveNode) -> None:
    await node.client.create("orders")
    await node.client.create("payments")
    stream = node.client.fetch_stream()
    await stream.say(start(1), start(2, topic="payments"), credit_bytes=PLENTY)
    assert await sync(stream) == []
    await node.client.delete("orders")
    ended = await stream.one()
    assert (ended.session, ended.error.code) == (1, common_pb2.UNKNOWN_TOPIC_ID)
    await node.client.produce("payments", batch())
    assert (await stream.one()).session == 2
    await stream.finish()


@on_node()
async def test_divergence_ends_a_session(node: LiveNode) -> None:
    await node.client.create("orders")
    await write(node, 2)
    item = start(1, 2)
    item.last_fetched_epoch = 8
    stream = node.client.fetch_stream()
    await stream.say(item, credit_bytes=PLENTY)
    answer = await stream.one()
    assert (answer.diverging_epoch.leader_epoch, answer.diverging_epoch.end_offset) == (0, 2)
    assert not answer.HasField("error")
    await stream.finish()


@on_node()
async def test_min_bytes_gathers_and_max_wait_ends_the_gathering(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 1)
    gathering = fetch_pb2.FetchOptions(min_bytes=size * 3, max_wait_ms=60_000)
    stream = node.client.fetch_stream()
    await stream.say(start(1), credit_bytes=PLENTY, options=gathering)
    await write(node, 1)
    pending = asyncio.ensure_future(stream.answer())
    await node.client.fetch("orders")
    assert not pending.done()
    await write(node, 1)
    assert sum(len(answer.records) for answer in (await pending).partitions) == size * 3
    await stream.finish()

    hasty = fetch_pb2.FetchOptions(min_bytes=size * 300, max_wait_ms=100)
    stream = node.client.fetch_stream()
    await stream.say(start(1), credit_bytes=PLENTY, options=hasty)
    assert sum(len(answer.records) for answer in (await stream.answer()).partitions) == size * 3
    await stream.finish()


@on_node()
async def test_a_large_min_bytes_does_not_outlast_the_credit(node: LiveNode) -> None:
    """A client whose credit is below its min_bytes would else wait until max_wait for nothing."""
    await node.client.create("orders")
    size = await write(node, 5)
    options = fetch_pb2.FetchOptions(min_bytes=size * 4, max_wait_ms=2**31 - 1)
    stream = node.client.fetch_stream()
    await stream.say(start(1, max_bytes=size), credit_bytes=size * 2, options=options)
    assert sum(len(answer.records) for answer in (await stream.answer()).partitions) == size * 2
    await stream.finish()


@on_node()
async def test_a_min_bytes_above_max_bytes_is_no_reason_to_wait(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 5)
    options = fetch_pb2.FetchOptions(min_bytes=size * 4, max_bytes=size * 2, max_wait_ms=2**31 - 1)
    stream = node.client.fetch_stream()
    await stream.say(start(1), credit_bytes=PLENTY, options=options)
    assert sum(len(answer.records) for answer in (await stream.answer()).partitions) == size * 2
    await stream.finish()
    unary = fetch_pb2.FetchRequest(options=options, partitions=[start(1)])
    (answer,) = (await node.client.broker.Fetch(unary)).partitions
    assert len(answer.records) == size * 2


@on_node()
async def test_negative_limits_mean_the_defaults(node: LiveNode) -> None:
    await node.client.create("orders")
    size = await write(node, 5)
    options = fetch_pb2.FetchOptions(max_bytes=-1)
    item = start(1, max_bytes=-1)
    stream = node.client.fetch_stream()
    await stream.say(item, credit_bytes=PLENTY, options=options)
    assert len((await stream.one()).records) == size * 5
    await stream.finish()
    unary = fetch_pb2.FetchRequest(options=options, partitions=[item])
    (answer,) = (await node.client.broker.Fetch(unary)).partitions
    assert len(answer.records) == size * 5


@on_node()
async def test_an_answer_stays_below_max_bytes(node: LiveNode) -> None:
    await node.client.create("orders", 3)
    for partition in range(3):
        size = await write(node, 4, partition=partition)
    for bytes_max in (size * 5, size * 5 - 1, size + 1):
        options = fetch_pb2.FetchOptions(max_bytes=bytes_max)
        stream = node.client.fetch_stream()
        starts = [start(at, partition=at) for at in range(3)]
        await stream.say(*starts, credit_bytes=PLENTY, options=options)
        sizes: list[int] = []
        while sum(sizes) < size * 12:
            answer = await stream.answer()
            sizes.append(sum(len(item.records) for item in answer.partitions))
        assert max(sizes) <= bytes_max
        await stream.finish()


@on_node()
async def test_a_batch_above_the_limit_begins_an_answer_of_its_own(node: LiveNode) -> None:
    await node.client.create("orders", 3)
    small = await write(node, 1, partition=0)
    large = await write(node, 1, partition=1, value=b"x" * 1_000)
    await write(node, 1, partition=2)
    stream = node.client.fetch_stream()
    options = fetch_pb2.FetchOptions(max_bytes=small * 2)
    starts = [start(at, partition=at) for at in range(3)]
    await stream.say(*starts, credit_bytes=PLENTY, options=options)
    sizes = [
        [len(item.records) for item in answer.partitions]
        for answer in [await stream.answer() for _ in range(3)]
    ]
    assert sizes == [[small], [large], [small]]
    await stream.finish()


@on_node()
async def test_negative_credit_ends_the_stream_in_words(node: LiveNode) -> None:
    stream = node.client.fetch_stream()
    await stream.say(credit_bytes=-5)
    answer = await stream.answer()
    assert answer.error.code == common_pb2.INVALID_REQUEST
    assert "-5" in answer.error.message
    assert await stream.call.read() is EOF


@on_node()
async def test_too_many_partitions_end_the_stream_in_words(node: LiveNode) -> None:
    stream = node.client.fetch_stream()
    await stream.say(*[start(at) for at in range(10_001)])
    answer = await stream.answer()
    assert answer.error.code == common_pb2.INVALID_REQUEST
    assert await stream.call.read() is EOF


@on_node()
async def test_a_stopping_broker_ends_streams_with_an_error(node: LiveNode) -> None:
    await node.client.create("orders")
    stream = node.client.fetch_stream()
    await stream.say(start(1), credit_bytes=PLENTY)
    assert await sync(stream) == []
    ending = asyncio.ensure_future(stream.answer())
    await node.node.broker.stop()
    assert (await ending).error.code == common_pb2.SHUTTING_DOWN
    assert await stream.call.read() is EOF


@on_node()
async def test_a_client_that_goes_away_leaves_no_reader_behind(node: LiveNode) -> None:
    await node.client.create("orders")
    stream = node.client.fetch_stream()
    await stream.say(start(1), credit_bytes=PLENTY)
    assert await sync(stream) == []
    partition = next(iter(node.node.broker.replicas))
    assert len(partition._readers or ()) == 1
    stream.call.cancel()
    while partition._readers:
        await node.client.fetch("orders")


@on_node()
async def test_many_streams_read_the_same(node: LiveNode) -> None:
    await node.client.create("orders")
    streams = [node.client.fetch_stream() for _ in range(20)]
    for stream in streams:
        await stream.say(start(1), credit_bytes=PLENTY)
    size = await write(node, 5)
    for stream in streams:
        got = 0
        while got < size * 5:
            got += len((await stream.one()).records)
        assert got == size * 5
        await stream.finish()
