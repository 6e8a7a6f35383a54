"""Wrong calls of an admin client are refused in words, before anything is sent."""

from __future__ import annotations

import asyncio
from datetime import timedelta
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


LARGE: Final = 2**40


@pytest.mark.parametrize(
    ("method", "arguments", "named", "words"),
    [
        ("create_partitions", ("t", "3"), {}, "total='3' of topic 't' is not possible. Give a w"),
        ("create_partitions", ("t", LARGE), {}, f"total={LARGE} of topic 't' is not possible"),
        ("create_partitions", (5, 3), {}, "5 is no name of a topic"),
        ("create_topic", ("t",), {"partitions": LARGE}, f"partitions={LARGE} of topic 't' is"),
        ("create_topic", ("t",), {"partitions": True}, "partitions=True of topic 't' is not"),
        ("create_topic", ("t",), {"config": ["a"]}, "config=['a'] is no mapping of configs"),
        ("create_topic", ("t",), {"config": []}, "config=[] is no mapping of configs"),
        ("create_topic", ("t",), {"config": {5: 5}}, "config has the key 5, of type int"),
        ("alter_config", ("t", "a=b"), {}, "config='a=b' is no mapping of configs"),
        ("alter_config", ("t",), {"append": "a"}, "append='a' is no mapping of configs"),
        ("alter_config", ("t",), {"delete": "retention.ms"}, "Give delete=['retention.ms']"),
        ("alter_config", ("t",), {"delete": [5]}, "delete has the key 5"),
        ("create_topic", ("\udcff",), {}, "The topic name '\\udcff' has characters that are not"),
        ("describe_topics", (["\ud800"],), {}, "has characters that are not allowed"),
        ("describe_config", (), {"topic": "\udcff"}, "has characters that are not allowed"),
        ("describe_config", (), {"topic": 5}, "5 is no name of a topic, but of type int"),
        ("alter_config", (b"t", {"a": 1}), {}, "b't' is no name of a topic, but of type bytes"),
        ("alter_config", ("t", {"a": "\udcff"}), {}, "a='\\udcff' is no Unicode text"),
        ("alter_config", ("t", {"\udcff": 1}), {}, "has the key '\\udcff', which is no Unicode"),
        ("list_offsets", (TopicPartition("\udcff", 0),), {}, "names no partition"),
        ("create_topics", (5,), {}, "5 is no list of topics. Give [tidelog.NewTopic(name)]"),
        ("delete_topics", (5,), {}, "5 is no list of topics. Give [5]"),
        ("describe_topics", (True,), {}, "True is no list of topics"),
        ("create_topic", ("t",), {"assignment": 5}, "assignment=5 is not possible"),
        ("create_topic", ("t",), {"assignment": {0: 1}}, "assignment={0: 1} is not possible"),
        ("create_topic", ("t",), {"assignment": {0: [2**40]}}, "Give the broker ids of each"),
        ("create_partitions", ("t", 3), {"assignment": {"0": [1]}}, "is not possible"),
        ("delete_records", ({"t": "latest"},), {}, "'t' names no partition"),
        ("delete_records", ([FIRST],), {}, "does not say up to where records are to be deleted"),
        ("delete_records", ({FIRST: 2**70},), {}, "can't be deleted before 118059"),
        ("delete_records", ({FIRST: timedelta(1)},), {}, "can't be deleted before datetime.time"),
        ("delete_records", ({FIRST: True},), {}, "Records of orders-0 can't be deleted before Tr"),
        ("delete_records", ({TEXT: 1},), {}, "TopicPartition('orders', '0') names no partition"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    method: str, arguments: tuple[Any, ...], named: dict[str, Any], words: str
) -> None:
    assert words in refusal(method, *arguments, **named)
