"""Answers that clients don't take: what the broker holds of them is bounded, however many ask."""

from __future__ import annotations

from unittest.mock import patch

from storage_kit.batches import batch

from harness.nodes import LiveNode, on_node
from support.eventually import eventually_async
from tidelog.wire.v1 import fetch_pb2
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
