"""The options that say where reading begins and ends, in all of their forms.

`options` calls `starting` and `ending`. Invariant, as in Spark's Kafka connector: a time for all
partitions goes before times by partition, and these before offsets.
"""

from __future__ import annotations

from typing import Final

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog_spark.option_values import OptionValues, numbers_by_partition
from tidelog_spark.positions import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtOffsets,
    AtTime,
    ByPartition,
    Earliest,
    Latest,
    LatestEachRead,
    Position,
)

START_NAMES: Final = (
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
)
END_NAMES: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_OFFSETS_EXAMPLE: Final = '{"orders": {"0": 23, "1": -2}}'
_TIMES_EXAMPLE: Final = '{"orders": {"0": 1700000000000}}'


def starting(values: OptionValues, *, is_stream: bool) -> Position:
    """Where to begin: `latest` for a stream unless told, `earliest` for a batch."""
    or_latest = values.choice(
        "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, default=False
    )
    at_time = _at_time(values, "startingTimestamp", "startingOffsetsByTimestamp", or_latest)
    if at_time is not None:
        return at_time
    value = values.text("startingOffsets")
    if value is None:
        return Latest() if is_stream else Earliest()
    if value.lower() == "group":
        raise InvalidConfig(
            "startingOffsets=group is not possible: consumer groups come later",
            hint="Give earliest, latest or offsets in JSON",
        )
    position = _offsets("startingOffsets", value)
    if is_stream:
        return position
    if isinstance(position, Latest) or _names(position, LATEST_OFFSET):
        raise InvalidConfig(
            f"startingOffsets={value!r} is not possible in a batch: nothing comes after the latest",
            hint="Give earliest, offsets in JSON or a time",
        )
    return position


def ending(values: OptionValues) -> Position:
    """Where to end: at the latest record there is when the read is planned, unless told."""
    at_time = _at_time(values, "endingTimestamp", "endingOffsetsByTimestamp", or_latest=True)
    if at_time is not None:
        return at_time
    value = values.text("endingOffsets")
    if value is None:
        return Latest()
    if value.lower() == "latest-each-read":
        return LatestEachRead()
    position = _offsets("endingOffsets", value)
    if isinstance(position, Earliest) or _names(position, EARLIEST_OFFSET):
        raise InvalidConfig(
            f"endingOffsets={value!r} is not possible: nothing lies before the earliest",
            hint="Give latest, offsets in JSON or a time",
        )
    return position


def _offsets(name: str, value: str) -> Position:
    word = value.lower()
    if word in ("earliest", "latest"):
        return Earliest() if word == "earliest" else Latest()
    if not value.startswith("{"):
        near = did_you_mean(word, ("earliest", "latest"))
        raise InvalidConfig(
            f"{name}={value!r} is no place to read at",
            hint=near or f"Give earliest, latest, or JSON such as {_OFFSETS_EXAMPLE}",
        )
    offsets = numbers_by_partition(name, value, _OFFSETS_EXAMPLE)
    _refuse_below(name, offsets, EARLIEST_OFFSET, "-2 is earliest, -1 latest")
    return AtOffsets(name, offsets)


def _at_time(values: OptionValues, for_all: str, by: str, or_latest: bool) -> AtTime | None:
    timestamp_ms = values.number(for_all, least=0)
    if timestamp_ms is not None:
        return AtTime(for_all, timestamp_ms, or_latest)
    value = values.text(by)
    if value is None:
        return None
    times = numbers_by_partition(by, value, _TIMES_EXAMPLE)
    _refuse_below(by, times, 0, "Times are milliseconds since 1970")
    return AtTime(by, times, or_latest)


def _refuse_below(name: str, numbers: ByPartition, least: int, hint: str) -> None:
    for topic, by_partition in numbers.items():
        for partition, number in by_partition.items():
            if number < least:
                raise InvalidConfig(f"{name}: {topic}-{partition} has {number}", hint=hint)


def _names(position: Position, number: int) -> bool:
    if not isinstance(position, AtOffsets):
        return False
    return any(number in by_partition.values() for by_partition in position.offsets.values())
