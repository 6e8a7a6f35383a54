"""Wrong calls of a consumer are refused in words, before anything is sent."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import pytest

from tidelog.consumer.async_consumer import AsyncConsumer
from tidelog.consumer.base import at_least_one
from tidelog.consumer.consumer import Consumer
from tidelog.consumer.settings import ConsumerSettings
from tidelog.errors import TidelogError
from tidelog.model import TopicPartition
from tidelog.settings import read


def refusal(method: str, *arguments: Any, **named: Any) -> str:
    """What a consumer that never connects says to a call."""

    async def call() -> str:
        async with AsyncConsumer("127.0.0.1:1") as consumer:
            with pytest.raises(TidelogError) as refused:
                await getattr(consumer, method)(*arguments, **named)
        return str(refused.value)

    return asyncio.run(call())


def refusals(method: str, *arguments: Any, **named: Any) -> set[str]:
    """What both faces of such a consumer say."""
    with Consumer("127.0.0.1:1") as consumer, pytest.raises(TidelogError) as refused:
        getattr(consumer, method)(*arguments, **named)
    return {str(refused.value), refusal(method, *arguments, **named)}


def test_a_topic_is_no_partition() -> None:
    assert refusal("seek", "orders", 3) == (
        "'orders' names no partition. Give TopicPartition('orders', 0)."
    )


LIST: Final[Any] = ["api"]


@pytest.mark.parametrize("method", ["beginning_offsets", "end_offsets"])
def test_a_list_names_nothing_to_ask_for(method: str) -> None:
    assert refusals(method, [TopicPartition("api", 0)]) == {
        "[TopicPartition(topic='api', partition=0)] is no name of a topic, but of type list."
        " Give 'orders' or TopicPartition('orders', 0)."
    }
    said = refusals(method, TopicPartition(LIST, 0))
    assert said == {PARTITION_OF_A_LIST}


def test_a_list_names_nothing_to_assign() -> None:
    assert refusals("assign", [["api"]], start="earliest") == {
        "['api'] is no name of a topic, but of type list."
        " Give 'orders' or TopicPartition('orders', 0)."
    }
    said = refusals("assign", [TopicPartition(LIST, 0)], start="earliest")
    assert said == {PARTITION_OF_A_LIST}


PARTITION_OF_A_LIST: Final = (
    "TopicPartition(['api'], 0) names no partition."
    " The topic is a str, the partition an int from 0 on."
)


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("seek", (0,)),
        ("seek_to_beginning", ()),
        ("seek_to_end", ()),
        ("pause", ()),
        ("resume", ()),
        ("position", ()),
        ("lag", ()),
    ],
)
def test_what_names_no_partition_is_refused_by_whatever_takes_one(
    method: str, more: tuple[Any, ...]
) -> None:
    assert refusals(method, TopicPartition(LIST, 0), *more) == {PARTITION_OF_A_LIST}
    said = refusals(method, TopicPartition("\udcff", 0), *more)
    assert [one.split(".")[0] for one in said] == [
        "TopicPartition('\\udcff', 0) names no partition"
    ]


def test_a_number_is_no_list_of_partitions() -> None:
    said = refusal("assign", "orders", start="earliest", partitions=2)
    assert said == "partitions=2 is no list. Give partitions=[2]."


@pytest.mark.parametrize("topics", [b"orders", None, 5])
def test_what_names_no_topic(topics: Any) -> None:
    said = refusal("assign", topics, start="earliest")
    assert said == f"{topics!r} names no topic. Give a name, several, or a mapping."


def test_a_place_is_no_offset() -> None:
    assert refusal("seek", TopicPartition("orders", 0), "end").startswith("'end' is no offset. ")


@pytest.mark.parametrize("columns", ["value", None, 5, [5], b"value"])
def test_what_are_no_columns(columns: Any) -> None:
    said = refusal("read_arrow", columns=columns)
    assert "is no list of columns" in said or "is not possible" in said
    assert "value" in said


def test_so_many_records_that_no_list_holds_them_are_all_there_are() -> None:
    assert at_least_one("max_records", 10**30) == sys.maxsize


def test_a_partition_is_checked_where_it_stands_in_a_mapping() -> None:
    text: Any = "0"
    said = refusal("assign", {TopicPartition("orders", text): 0})
    assert said.startswith("TopicPartition('orders', '0') names no partition.")
    assert refusal("pause", None) == ("None names no partition. Give TopicPartition('orders', 0).")


@pytest.mark.parametrize("number", [0, -1, 1.5, "5", True])
def test_none_are_not_waited_for(number: Any) -> None:
    assert refusal("poll", max_records=number) == (
        f"max_records={number!r} is no number of 1 or more."
    )
    assert (
        refusal("read_arrow", max_rows=number) == f"max_rows={number!r} is no number of 1 or more."
    )


def test_nothing_that_was_said_is_passed_over() -> None:
    said = refusal("assign", {"orders": "earliest"}, start="latest")
    assert said.startswith("start='latest' is given beside a mapping that has the places.")
    said = refusal("assign", {TopicPartition("orders", 0): 0}, partitions=[1])
    assert said.startswith("partitions= is given beside a mapping that names partitions.")


def test_the_name_of_a_partition_is_no_number() -> None:
    said = refusal("assign", "orders", start=0, partitions=["0"])
    assert said.startswith("'0' is no number of a partition. Give numbers")


@pytest.mark.parametrize("time", ["now", 1.5, True, 2**63])
def test_what_is_no_time(time: Any) -> None:
    said = refusal("offsets_for_times", {TopicPartition("orders", 0): time})
    assert said.startswith(f"{time!r} is no time. Give a datetime with a time zone")


def test_a_place_of_a_partition_that_is_not_read_is_not_passed_over() -> None:
    said = refusal("assign", "orders", start={0: 1, 1: 2}, partitions=[0])
    assert said.startswith("start has a place for partition 1, which is not among those to read.")


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"orders": 1}, "'orders' names no partition. Give TopicPartition('orders', 0)."),
        ([1], "[1] has no times. Give {TopicPartition('orders', 0): time}."),
        ({TopicPartition("orders", "0"): 1}, "TopicPartition('orders', '0') names no partition."),  # type: ignore[arg-type]
    ],
)
def test_times_are_of_partitions(times: Any, words: str) -> None:
    assert refusal("offsets_for_times", times).startswith(words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fetch_max_bytes": 2**31}, "fetch_max_bytes=2147483648 is too large"),
        ({"fetch_min_bytes": 2**31}, "is too large: at most 2147483647 bytes"),
        ({"max_partition_fetch_bytes": "2 GiB"}, "'2 GiB' is too large"),
        ({"prefetch_bytes": 2**63}, "is too large"),
        ({"max_decompressed_bytes": 2**70}, "is too large"),
        ({"client_id": "caf\u00e9"}, "printable ASCII"),
        ({"client_rack": "\udcff"}, "is no Unicode text"),
    ],
)
def test_a_setting_that_the_wire_can_not_carry(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TidelogError) as refused:
        AsyncConsumer("127.0.0.1:1", **settings)
    assert words in str(refused.value)


def test_a_wait_for_ever_is_one_that_the_wire_can_carry() -> None:
    settings = read(ConsumerSettings, {"fetch_max_wait_ms": 1e300}, "A consumer")
    assert settings.fetch_max_wait_ms == 2**31 - 1
