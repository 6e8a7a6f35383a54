"""Wrong calls of a consumer are refused in words, before anything is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidelog.consumer.async_consumer import AsyncConsumer
from tidelog.errors import InvalidRequest
from tidelog.model import TopicPartition


def refusal(method: str, *arguments: Any, **named: Any) -> str:
    """What a consumer that never connects says to a call."""

    async def call() -> str:
        async with AsyncConsumer("127.0.0.1:1") as consumer:
            with pytest.raises(InvalidRequest) as refused:
                await getattr(consumer, method)(*arguments, **named)
        return str(refused.value)

    return asyncio.run(call())


def test_a_topic_is_no_partition() -> None:
    assert refusal("seek", "orders", 3) == (
        "'orders' names no partition. Give TopicPartition('orders', 0)."
    )


def test_a_number_is_no_list_of_partitions() -> None:
    said = refusal("assign", "orders", start="earliest", partitions=2)
    assert said == "partitions=2 is no list. Give partitions=[2]."


@pytest.mark.parametrize("topics", [b"orders", None, 5])
def test_what_names_no_topic(topics: Any) -> None:
    said = refusal("assign", topics, start="earliest")
    assert said == f"{topics!r} names no topic. Give a name, several, or a mapping."


def test_a_place_is_no_offset() -> None:
    assert refusal("seek", TopicPartition("orders", 0), "end").startswith("'end' is no offset. ")
