"""Wrong calls of an admin client are refused in words, before anything is sent."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tidelog.admin.async_admin import AsyncAdmin
from tidelog.errors import TidelogError
from tidelog.model import TopicPartition

FIRST: Final = TopicPartition("orders", 0)
TEXT: Final = TopicPartition("orders", "0")  # type: ignore[arg-type]


def refusal(method: str, *arguments: Any, **named: Any) -> str:
    """What an admin client that never connects says to a call."""

    async def call() -> str:
        async with AsyncAdmin("127.0.0.1:1") as admin:
            with pytest.raises(TidelogError) as refused:
                await getattr(admin, method)(*arguments, **named)
        return str(refused.value)

    return asyncio.run(call())


@pytest.mark.parametrize(
    ("partitions", "words"),
    [
        (
            {FIRST: "earliest"},
            "list_offsets takes one for all. Give the names, and the place as at=",
        ),
        ({TEXT}, "TopicPartition('orders', '0') names no partition."),
        (5, "5 names no partitions. Give a topic, TopicPartition('orders', 0), or several."),
        ([5], "5 names no partition. Give TopicPartition('orders', 0)."),
    ],
)
def test_offsets_are_listed_of_what_is_named(partitions: Any, words: str) -> None:
    assert words in refusal("list_offsets", partitions)
