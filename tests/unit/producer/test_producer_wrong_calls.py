"""Wrong calls of a producer are refused in words that say what to type instead."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tidelog import AsyncProducer, Producer
from tidelog.engine.time_limits import LONGEST_S, seconds
from tidelog.errors import (
    InvalidPartitions,
    InvalidRequest,
    InvalidTimestamp,
    SerializationFailed,
    TidelogError,
)
from tidelog.producer.accumulator import Accumulator
from tidelog.producer.base import several
from tidelog.producer.handing_over import HandingOver, to_headers, to_milliseconds
from tidelog.producer.partitioner import Partitioner
from tidelog.producer.sends import LoopSends, ThreadSends


def nothing(*_: object) -> None:
    """A call back that is not listened to."""


def parts() -> tuple[Accumulator, Partitioner, None, None]:
    """What a producer's compiled base is made of."""
    accumulator = Accumulator(
        batch_bytes=1000,
        limit_bytes=1000,
        clock=float,
        wake=nothing,
        hurry=nothing,
        is_shared=False,
    )
    return accumulator, Partitioner("default"), None, None


def send(path: HandingOver[Any, Any], topic: Any, **options: Any) -> object:
    """One record, by the call of either producer."""
    call = path.send if isinstance(path, ThreadSends) else path.send_nowait  # type: ignore[attr-defined]
    sent: object = call(topic, b"value", **options)
    return sent


@pytest.mark.parametrize("kind", [ThreadSends, LoopSends])
@pytest.mark.parametrize(
    ("topic", "options", "words"),
    [
        (b"orders", {}, "topic=b'orders' is no name of a topic, but of type bytes"),
        (None, {}, "topic=None is no name of a topic"),
        ("orders", {"partition": "0"}, "partition='0' is no partition, but of type str"),
        ("orders", {"partition": 1.0}, "partition=1.0 is no partition, but of type float"),
        ("orders", {"timestamp": "now"}, "timestamp='now' is no time, but of type str"),
        ("orders", {"timestamp": 1.5}, "timestamp=1.5 is no time"),
        ("orders", {"timestamp": 2**63}, "The timestamp 9223372036854775808 is not possible"),
        ("orders", {"on_delivery": 5}, "on_delivery=5 can't be called"),
        ("orders", {"delivery_timeout": "5"}, "'5' is no time limit, but of type str"),
        ("orders", {"delivery_timeout": -(10**400)}, "A time limit of -10000"),
    ],
)
def test_an_argument_of_another_type_is_named(
    kind: Any, topic: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(TidelogError, match=words):
        send(kind(*parts()), topic, **options)


def test_times_and_limits_as_numbers_stay_what_they_are() -> None:
    assert [to_milliseconds(time) for time in (0, 2**63 - 1)] == [0, 2**63 - 1]
    with pytest.raises(InvalidTimestamp, match="-1 is not possible"):
        to_milliseconds(-1)
    assert [seconds(limit) for limit in (None, 2, 0.5)] == [None, 2, 0.5]


def fails(*_: object) -> int:
    """A partitioner with a fault."""
    raise ZeroDivisionError("no partitions")


def says_text(*_: object) -> Any:
    """A partitioner that takes names for numbers."""
    return "eu"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fails, "failed for the key b'k' of topic 'orders'. Cause: ZeroDivisionError: no part"),
        (says_text, "gave 'eu' for topic 'orders'.* an int from 0 to 2"),
    ],
)
def test_a_partitioner_of_ones_own_that_fails_refuses_the_record(function: Any, words: str) -> None:
    with pytest.raises(InvalidPartitions, match=words):
        Partitioner(function).choose("orders", b"k", 3)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"a": 5}, "The header 'a' must be bytes, str or None, not int"),
        ("a", "'a' is no header. Headers are a dict"),
        ([("a", b"1", b"2")], "is no header"),
        ([("a", b"1"), 7], "7 is no header"),
        (5, "headers=5 are no headers. Headers are a dict"),
    ],
)
def test_headers_that_are_none(headers: Any, words: str) -> None:
    with pytest.raises(SerializationFailed, match=words):
        to_headers(headers)


def test_headers_take_every_kind_of_bytes() -> None:
    assert to_headers([("a", bytearray(b"1")), ("b", memoryview(b"2"))]) == [  # type: ignore[list-item]
        ("a", b"1"),
        ("b", b"2"),
    ]


@pytest.mark.parametrize("values", ["abc", b"abc", bytearray(b"abc"), None, 5])
def test_one_text_is_not_many_records(values: Any) -> None:
    with pytest.raises(InvalidRequest, match="send_many takes a list of values"):
        several("values", values)
    several("values", [values])


#: What Python makes of a file's name that is no UTF-8.
HALF = "\udcff"


@pytest.mark.parametrize(
    "options", [{"value": HALF}, {"key": HALF}, {"headers": {"a": HALF}}, {"headers": {HALF: b"1"}}]
)
def test_half_a_character_is_no_text(options: dict[str, Any]) -> None:
    with pytest.raises(SerializationFailed, match="could not be turned into bytes"):
        ThreadSends(*parts()).send("orders", **options)


@pytest.mark.parametrize("partition", [-1, -7, 2**31, 2**70])
def test_a_partition_that_no_topic_has_is_refused_before_its_topic_is_known(partition: int) -> None:
    class Unknowing(LoopSends[bytes, bytes]):
        """Knows no topic yet, and keeps nothing."""

        def _find_route(self, topic: str) -> None:
            return None

    with pytest.raises(InvalidPartitions, match=f"can have no partition {partition}: they go from"):
        send(Unknowing(*parts()), "orders", partition=partition)


@pytest.mark.parametrize("limit", [-1, -0.1, float("nan"), timedelta(-1)])
def test_a_limit_that_can_not_be_meant(limit: Any) -> None:
    with pytest.raises(InvalidRequest, match="is not possible"):
        seconds(limit)


def test_limits_that_can() -> None:
    assert seconds(None) is None
    assert seconds(0) == 0
    assert seconds(timedelta(seconds=2)) == 2
    assert seconds(float("inf")) == LONGEST_S


@pytest.mark.parametrize("chosen", [-1, -2, 3, 2**70])
def test_a_partitioner_chooses_among_those_there_are(chosen: int) -> None:
    with pytest.raises(
        InvalidPartitions, match=f"The partitioner gave {chosen} for topic 'orders'"
    ):
        Partitioner(lambda topic, key, count: chosen).choose("orders", b"key", 3)


def test_producers_show_where_they_send_and_whether_they_are_closed() -> None:
    producer = Producer(["127.0.0.1:1", "127.0.0.1:2"])
    assert repr(producer) == "Producer('127.0.0.1:1, 127.0.0.1:2')"
    producer.close()
    assert repr(producer) == "Producer('127.0.0.1:1, 127.0.0.1:2', closed)"

    async def use() -> None:
        async with AsyncProducer("127.0.0.1:1") as sender:
            assert repr(sender) == "AsyncProducer('127.0.0.1:1')"
        assert repr(sender) == "AsyncProducer('127.0.0.1:1', closed)"

    asyncio.run(use())
