"""Where reading begins and ends, as the options say it, and which offsets that means.

`options` makes positions; readers ask for their offsets once the partitions are known. Invariant: a
position that names partitions names exactly those that are read, as with Spark's Kafka connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.errors import InvalidConfig, OffsetOutOfRange
from tidelog.model import TopicPartition
from tidelog_spark.offsets import Offsets
from tidelog_spark.topics import Logs

#: What the JSON of Spark's Kafka connector writes for these places.
EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1

ByPartition = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Earliest:
    """Where each log begins."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Where each log ends."""


@dataclass(frozen=True, slots=True)
class LatestEachRead:
    """Where each log ends whenever a task reads it: `partitions` do not freeze it."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition."""

    option: str
    offsets: ByPartition


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record as late as a time, or a time for each partition.

    Where there is no such record `or_latest` means the end of the log; otherwise it is an error.
    """

    option: str
    timestamps_ms: int | ByPartition
    or_latest: bool


Position = Earliest | Latest | LatestEachRead | AtOffsets | AtTime


def moves_with_time(position: Position) -> bool:
    """Whether the same position means other offsets once more records have come."""
    if isinstance(position, AtOffsets):
        numbers = [offset for by in position.offsets.values() for offset in by.values()]
        return LATEST_OFFSET in numbers
    return isinstance(position, Latest) or (isinstance(position, AtTime) and position.or_latest)


def resolve(position: Position, partitions: list[TopicPartition], logs: Logs) -> Offsets:
    """The offset of each partition at a position."""
    if isinstance(position, Earliest):
        return logs.starts(partitions)
    if isinstance(position, Latest | LatestEachRead):
        return logs.ends(partitions)
    if isinstance(position, AtOffsets):
        return _at_offsets(position, partitions, logs)
    return _at_time(position, partitions, logs)


def _at_offsets(position: AtOffsets, partitions: list[TopicPartition], logs: Logs) -> Offsets:
    named = _exactly(position.option, position.offsets, partitions)
    starts = logs.starts([one for one in partitions if named[one] == EARLIEST_OFFSET])
    ends = logs.ends([one for one in partitions if named[one] == LATEST_OFFSET])
    return {one: starts.get(one, ends.get(one, named[one])) for one in partitions}


def _at_time(position: AtTime, partitions: list[TopicPartition], logs: Logs) -> Offsets:
    stamps = position.timestamps_ms
    if isinstance(stamps, int):
        named = dict.fromkeys(partitions, stamps)
    else:
        named = _exactly(position.option, stamps, partitions)
    found = logs.at_times(named)
    late = [one for one, offset in found.items() if offset is None]
    if late and not position.or_latest:
        raise OffsetOutOfRange(
            f"{position.option}: {late[0]} has no record as late as {named[late[0]]} ms",
            hint="Give an earlier time, or startingOffsetsByTimestampStrategy=latest",
        )
    known = {one: offset for one, offset in found.items() if offset is not None}
    return known | logs.ends(late)


def _exactly(
    option: str, named: ByPartition, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """The numbers by partition; refused unless each partition that is read has one."""
    numbers = {
        TopicPartition(topic, partition): number
        for topic, by_partition in named.items()
        for partition, number in by_partition.items()
    }
    missing = [str(one) for one in partitions if one not in numbers]
    if missing:
        raise InvalidConfig(
            f"{option} says nothing of {', '.join(missing)}",
            hint="Name every partition that is read; as offsets, -2 is earliest and -1 latest",
        )
    foreign = [str(one) for one in numbers if one not in partitions]
    if foreign:
        raise InvalidConfig(
            f"{option} names {', '.join(foreign)}, which is not among the partitions to read",
            hint=f"These are {', '.join(map(str, partitions))}",
        )
    return numbers
