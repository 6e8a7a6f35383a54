"""Where to begin: what callers may write for a place in a log, turned into what brokers are asked.

`assign`, `seek_to_time`, `until` and the reset policy all come through here. A place that means
nothing is refused before anything is sent. Pure: the wall clock is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tidelog.errors import InvalidConfig, InvalidRequest
from tidelog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from tidelog.nearest import did_you_mean

#: A place in a partition: "earliest", "latest" (also "end"), an offset, a time, or that long ago.
Place = str | int | datetime | timedelta

#: A time: also milliseconds since 1970, or that long ago.
Time = datetime | timedelta | int

#: A place for all partitions, or one for each.
Start = Place | Mapping[int, Place]

NAMED_PLACES: Final = {
    "earliest": EARLIEST_TIMESTAMP,
    "beginning": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "end": LATEST_TIMESTAMP,
}

#: What 64 bits hold: no offset and no time is larger.
LARGEST: Final = 2**63 - 1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset that needs no asking."""

    offset: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time in milliseconds, or one of the special timestamps, to ask the leader about."""

    timestamp_ms: int


Question = Offset | Timestamp


def question_for(place: Place, now_ms: int) -> Question:
    """What to ask for a place; InvalidRequest says what is wrong with it."""
    if isinstance(place, bool) or not isinstance(place, str | int | datetime | timedelta):
        raise InvalidRequest(
            f"{place!r} is no place in a log",
            hint="Give 'earliest', 'latest', an offset, a datetime, or a timedelta back from now",
        )
    if isinstance(place, str):
        if place not in NAMED_PLACES:
            near = did_you_mean(place, NAMED_PLACES)
            raise InvalidRequest(
                f"{place!r} is no place in a log", hint=near or "Give 'earliest' or 'latest'"
            )
        return Timestamp(NAMED_PLACES[place])
    if isinstance(place, int):
        if place < 0:
            raise InvalidRequest(
                f"The offset {place} is negative", hint="Give 'earliest' or 'latest' by name"
            )
        if place > LARGEST:
            raise InvalidRequest(
                f"The offset {place} is not possible", hint=f"At most {LARGEST} is"
            )
        return Offset(place)
    return Timestamp(timestamp_of(place, now_ms))


def timestamp_of(time: Time, now_ms: int) -> int:
    """Milliseconds since 1970 of a time, or of that long ago."""
    if isinstance(time, timedelta):
        if time < timedelta(0):
            raise InvalidRequest(f"{time} back from now lies in the future")
        return max(0, now_ms - time // _MILLISECOND)
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise without_zone(time)
        time = milliseconds(time)
    if isinstance(time, bool) or not isinstance(time, int) or time > LARGEST:
        raise InvalidRequest(
            f"{time!r:.80} is no time",
            hint="Give a datetime with a time zone, a timedelta back from now, or milliseconds",
        )
    if time < 0:
        raise InvalidRequest(f"The timestamp {time} lies before 1970")
    return time


def milliseconds(time: datetime) -> int:
    """The whole milliseconds since 1970 of a time with a zone, exact: floats lose one now and then.

    What is below a millisecond is dropped, as everywhere in a log.
    """
    return (time - _EPOCH) // _MILLISECOND


def without_zone(time: datetime) -> InvalidRequest:
    """What a time is refused with that may mean another moment on another machine."""
    return InvalidRequest(
        f"The time {time} has no time zone",
        hint="Say which: time.astimezone() for this machine's, or tzinfo=UTC",
    )


def place_of(start: Start, partition: TopicPartition) -> Place | None:
    """The place of one partition; None where `start` does not name it."""
    if isinstance(start, Mapping):
        return start.get(partition.partition)
    return start


def is_end(place: Place | None) -> bool:
    """Whether a place is the end of the log, whatever that is when it is asked for."""
    return isinstance(place, str) and NAMED_PLACES.get(place) == LATEST_TIMESTAMP


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """auto_offset_reset: what a position outside of the log becomes; None: an error."""

    place: Place | None

    @property
    def is_none(self) -> bool:
        """Whether nothing is reset."""
        return self.place is None

    def __str__(self) -> str:
        return "none" if self.place is None else str(self.place)


def reset_policy(text: str) -> ResetPolicy:
    """earliest, latest, none or by_duration:PT1H (Kafka's values)."""
    if text == "none":
        return ResetPolicy(None)
    if text in ("earliest", "latest"):
        return ResetPolicy(text)
    name, _, duration = text.partition(":")
    match = _DURATION.fullmatch(duration) if name == "by_duration" else None
    if match is None or not any(match.groups()):
        near = did_you_mean(text, ("earliest", "latest", "none"))
        raise InvalidConfig(
            f"auto_offset_reset={text!r} is not possible",
            hint=near or "Give earliest, latest, none, or by_duration:PT1H (an ISO 8601 duration)",
        )
    parts = {unit: float(amount) for unit, amount in match.groupdict().items() if amount}
    try:
        return ResetPolicy(timedelta(**parts))
    except OverflowError as failure:
        raise InvalidConfig(f"auto_offset_reset={text!r} is too long", cause=str(failure)) from None
