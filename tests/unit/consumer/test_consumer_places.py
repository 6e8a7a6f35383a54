"""Places in a log: what may be written, what it means, and what is refused with which words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidelog.engine.places import (
    Offset,
    Place,
    Question,
    Timestamp,
    place_of,
    question_for,
    reset_policy,
    timestamp_of,
)
from tidelog.errors import InvalidConfig, InvalidRequest
from tidelog.model import TopicPartition

NOW_MS = 10_000_000


@pytest.mark.parametrize(
    ("place", "question"),
    [
        ("earliest", Timestamp(-2)),
        ("beginning", Timestamp(-2)),
        ("latest", Timestamp(-1)),
        ("end", Timestamp(-1)),
        (0, Offset(0)),
        (17, Offset(17)),
        (datetime.fromtimestamp(1_000.5, UTC), Timestamp(1_000_500)),
        (timedelta(seconds=2), Timestamp(NOW_MS - 2_000)),
        (timedelta(days=10_000), Timestamp(0)),
    ],
)
def test_places(place: Place, question: Question) -> None:
    assert question_for(place, NOW_MS) == question


def test_a_time_is_exact_to_the_millisecond() -> None:
    """As a float, 1.001 seconds times 1000 is a little less than 1001."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for time_ms in (1_001, 1_795_027_519_409, *range(1_700_000_000_000, 1_700_000_002_000)):
        time = epoch + timedelta(milliseconds=time_ms)
        assert timestamp_of(time, NOW_MS) == time_ms
        assert timestamp_of(time + timedelta(microseconds=999), NOW_MS) == time_ms
    assert timestamp_of(timedelta(seconds=4.001), NOW_MS) == NOW_MS - 4_001


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("earlist", "Did you mean 'earliest'"),
        ("somewhere", "Give 'earliest' or 'latest'"),
        (-1, "negative"),
        (True, "no place"),
        (1.5, "no place"),
        (None, "no place"),
        (datetime(2026, 1, 1), "no time zone"),
        (timedelta(seconds=-1), "future"),
        (datetime(1960, 1, 1, tzinfo=UTC), "before 1970"),
    ],
)
def test_what_is_no_place_is_refused(place: Place, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        question_for(place, NOW_MS)


def test_milliseconds_are_times_too() -> None:
    assert timestamp_of(5, NOW_MS) == 5


def test_a_start_for_each_partition() -> None:
    start: dict[int, Place] = {0: "latest", 2: 7}
    places = [place_of(start, TopicPartition("orders", number)) for number in range(3)]
    assert places == ["latest", None, 7]
    assert place_of("latest", TopicPartition("orders", 9)) == "latest"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("none", None),
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("by_duration:PT1H", timedelta(hours=1)),
        ("by_duration:P2DT3H4M5.5S", timedelta(days=2, hours=3, minutes=4, seconds=5.5)),
    ],
)
def test_reset_policies(text: str, place: Place | None) -> None:
    policy = reset_policy(text)
    assert policy.place == place
    assert policy.is_none == (place is None)


@pytest.mark.parametrize("text", ["", "earlest", "by_duration:", "by_duration:P", "by_duration:1h"])
def test_wrong_reset_policies_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="auto_offset_reset"):
        reset_policy(text)
