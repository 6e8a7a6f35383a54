"""Turns what the options say of tasks into a number of records for each, and cuts the ranges.

Both readers come here with the ranges of a read or micro-batch. Invariant: bytes are only known by
what records weigh at the beginning of a range, so limits in bytes are soft; those in records hold.
"""

from __future__ import annotations

from tidelog.model import TopicPartition
from tidelog_spark.options import SplitLimits
from tidelog_spark.planning import OffsetRange, split_ranges
from tidelog_spark.topics import Logs


def split_for_tasks(
    limits: SplitLimits, ranges: list[OffsetRange], logs: Logs
) -> list[OffsetRange]:
    """The ranges of the tasks."""
    records_max: dict[TopicPartition, int] = {}
    if limits.records_max is not None:
        records_max = {one.partition: limits.records_max for one in ranges}
    if limits.bytes_max is not None:
        for one, weight in weights(ranges, logs).items():
            fitting = max(1, int(limits.bytes_max / weight))
            records_max[one] = min(records_max.get(one, fitting), fitting)
    return split_ranges(ranges, limits.partitions_min, records_max)


def weights(ranges: list[OffsetRange], logs: Logs) -> dict[TopicPartition, float]:
    """What a record weighs at the beginning of each range, in bytes as it is stored."""
    filled = [one for one in ranges if one.size > 0]
    return logs.record_bytes({one.partition: (one.start, one.end) for one in filled})
