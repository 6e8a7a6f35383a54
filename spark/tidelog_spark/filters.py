"""Filters that Spark pushes down: what they say of topic, partition, offset and time.

A batch reader with pushFilters=true collects `Bounds` here and cuts its ranges by them. Invariant:
cutting only leaves out records that the filters refuse; every filter is given back to Spark, which
applies it again, so that exactness stays Spark's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from tidelog_spark.planning import OffsetRange
from tidelog_spark.topics import Logs

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the filters leave; None where they leave everything."""

    topics: frozenset[Any] | None = None
    partitions: frozenset[Any] | None = None
    offset_from: int | None = None
    offset_before: int | None = None
    timestamp_from_ms: int | None = None

    def narrowed(self, one: Filter) -> Bounds:
        """The bounds once a filter holds too."""
        path: tuple[str, ...] = getattr(one, "attribute", ())
        column = path[0].lower() if len(path) == 1 else ""
        if isinstance(one, EqualTo | EqualNullSafe | In):
            values = one.value if isinstance(one, In) else (one.value,)
            return self._to_values(column, values)
        if isinstance(one, GreaterThan | GreaterThanOrEqual):
            return self._from(column, one.value, 1 if isinstance(one, GreaterThan) else 0)
        if isinstance(one, LessThan | LessThanOrEqual) and column == "offset":
            before = one.value + (1 if isinstance(one, LessThanOrEqual) else 0)
            return replace(self, offset_before=_smaller(self.offset_before, before))
        return self

    def _to_values(self, column: str, values: Iterable[Any]) -> Bounds:
        known = frozenset(value for value in values if value is not None)
        if column == "topic":
            return replace(self, topics=known if self.topics is None else self.topics & known)
        if column == "partition":
            left = known if self.partitions is None else self.partitions & known
            return replace(self, partitions=left)
        if not known:
            return self
        if column == "offset":
            return self._from(column, min(known), 0)._before(max(known) + 1)
        return self._from(column, min(known), 0) if column == "timestamp" else self

    def _before(self, offset: int) -> Bounds:
        return replace(self, offset_before=_smaller(self.offset_before, offset))

    def _from(self, column: str, value: Any, beyond: int) -> Bounds:
        if column == "offset":
            return replace(self, offset_from=_larger(self.offset_from, value + beyond))
        if column == "timestamp" and isinstance(value, datetime):
            stamp = _milliseconds(value)
            return replace(self, timestamp_from_ms=_larger(self.timestamp_from_ms, stamp))
        return self

    def cut(self, ranges: list[OffsetRange], logs: Logs) -> list[OffsetRange]:
        """The ranges without what the filters refuse."""
        kept = [
            self._cut_by_offset(one)
            for one in ranges
            if (self.topics is None or one.partition.topic in self.topics)
            and (self.partitions is None or one.partition.partition in self.partitions)
        ]
        stamp = self.timestamp_from_ms
        if stamp is None or stamp < 0:
            return kept
        first = logs.at_times({one.partition: stamp for one in kept if one.size > 0})
        return [self._cut_by_time(one, first) for one in kept]

    def _cut_by_offset(self, one: OffsetRange) -> OffsetRange:
        start = _larger(self.offset_from, one.start)
        end = _smaller(self.offset_before, one.end)
        return replace(one, start=min(start, one.end), end=max(end, min(start, one.end)))

    @staticmethod
    def _cut_by_time(one: OffsetRange, first: dict[Any, int | None]) -> OffsetRange:
        if one.partition not in first:
            return one
        offset = first[one.partition]
        start = one.end if offset is None else min(max(one.start, offset), one.end)
        return replace(one, start=start)


def _larger(known: int | None, other: int) -> int:
    return other if known is None else max(known, other)


def _smaller(known: int | None, other: int) -> int:
    return other if known is None else min(known, other)


def _milliseconds(time: datetime) -> int:
    """Rounded down: a record in the same millisecond is not left out."""
    aware = time if time.tzinfo is not None else time.astimezone()
    return (aware - _EPOCH) // timedelta(milliseconds=1)
