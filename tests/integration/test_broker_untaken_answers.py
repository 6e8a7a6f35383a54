"""Answers that clients wait for or don't take: what the broker holds of them is bounded."""

from __future__ import annotations

from unittest.mock import patch

from storage_kit.batches import batch

from harness.nodes import LiveNode, on_node
from support.eventually import eventually_async
from tidelog.wire.v1 import fetch_pb2
from tidelog_broker.api.fetch import GATHERED_BYTES_MAX
from tidelog_broker.in_flight import InFlightBytes

BATCHES = 5
BATCH = batch(b"x" * 10_000)


async def filled(node: LiveNode) -> InFlightBytes:
    for _ in range(BATCHES):
        assert not (await node.client.produce("orders", BATCH)).HasField("error")
    return node.node.broker.answers


async def fetched_at_once(node: LiveNode) -> int:
    """The bytes of one answer of a unary fetch."""
    return len((await node.client.fetch("orders")).records)


async def pushed_at_once(node: LiveNode) -> int:
    """The bytes of one answer on a stream."""
    call = node.client.broker.FetchStream()
    request = fetch_pb2.FetchStreamRequest(credit_bytes=1 << 20)
    request.start.add(topic="orders", session=1)
    await call.write(request)
    answer = await call.read()
    call.cancel()
    assert isinstance(answer, fetch_pb2.FetchStreamResponse)
    return len(answer.partitions[0].records)


@on_node()
async def test_answers_are_short_while_many_are_not_taken(node: LiveNode) -> None:
    answers = await filled(node)
    for at_once in (fetched_at_once, pushed_at_once):
        assert await at_once(node) == BATCHES * len(BATCH)
        answers.add(answers.bytes_max - 2 * len(BATCH) - 1)
        assert await at_once(node) == 2 * len(BATCH)
        answers.add(2 * len(BATCH) + 1)
        assert await at_once(node) == len(BATCH)
        answers.remove(answers.bytes_max)


@on_node()
async def test_an_answer_counts_until_it_is_taken(node: LiveNode) -> None:
    answers = await filled(node)

    async def nothing_is_held() -> bool:
        return answers.bytes == 0

    count_in = InFlightBytes.add
    for at_once in (fetched_at_once, pushed_at_once):
        held: list[int] = []

        def add(counted: InFlightBytes, size_bytes: int, held: list[int] = held) -> None:
            held.append(size_bytes)
            count_in(counted, size_bytes)

        with patch.object(InFlightBytes, "add", add):
            await at_once(node)
        assert max(held) >= BATCHES * len(BATCH)
        await eventually_async(nothing_is_held, waiting_for="the answers to be taken")


@on_node()
async def test_what_a_stream_gathers_counts_until_it_ends(node: LiveNode) -> None:
    answers = await filled(node)
    stream = node.client.fetch_stream()
    patient = fetch_pb2.FetchOptions(min_bytes=BATCHES * len(BATCH) + 1, max_wait_ms=3_600_000)
    await stream.say(
        fetch_pb2.FetchPartition(topic="orders"), credit_bytes=1 << 20, options=patient
    )

    async def all_is_counted() -> bool:
        return answers.bytes == BATCHES * len(BATCH)

    await eventually_async(all_is_counted, waiting_for="what is gathered to be counted")
    stream.call.cancel()

    async def nothing_is_held() -> bool:
        return answers.bytes == 0

    await eventually_async(nothing_is_held, waiting_for="the end of the stream to be noticed")


@on_node()
async def test_nobody_may_have_more_than_a_mebibyte_gathered(node: LiveNode) -> None:
    for _ in range(2):
        ack = await node.client.produce("orders", batch(b"x" * (GATHERED_BYTES_MAX // 2)))
        assert not ack.HasField("error"), ack.error
    options = fetch_pb2.FetchOptions(
        min_bytes=60_000_000, max_bytes=60_000_000, max_wait_ms=3_600_000
    )
    start = fetch_pb2.FetchPartition(topic="orders", max_bytes=60_000_000)
    unary = fetch_pb2.FetchRequest(options=options, partitions=[start])
    (answer,) = (await node.client.broker.Fetch(unary)).partitions
    assert len(answer.records) > GATHERED_BYTES_MAX
    stream = node.client.fetch_stream()
    await stream.say(start, credit_bytes=60_000_000, options=options)
    assert len((await stream.one()).records) > GATHERED_BYTES_MAX
    await stream.finish()
