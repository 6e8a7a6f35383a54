"""Plans a batch read: which records of which partitions, cut into tasks.

`TidelogReader.partitions` calls `plan_batch` on the driver. Invariant: everything that can be known
to be wrong before reading is said here, once, and not by each task.
"""

from __future__ import annotations

import logging

from tidelog.errors import InvalidConfig
from tidelog_spark.data_loss import DataLossPolicy, kept_to_logs
from tidelog_spark.filters import Bounds
from tidelog_spark.offsets import Offsets
from tidelog_spark.options import SourceOptions
from tidelog_spark.planning import OffsetRange
from tidelog_spark.positions import AtOffsets, LatestEachRead, resolve
from tidelog_spark.selection import Found
from tidelog_spark.splitting import split_for_tasks
from tidelog_spark.tasks import RangePartition
from tidelog_spark.topics import Logs

logger = logging.getLogger(__name__)


def plan_batch(options: SourceOptions, logs: Logs, bounds: Bounds) -> list[RangePartition]:
    """The tasks of a batch read, as the logs are now; `bounds` is what filters leave of it."""
    found = options.selection.find(logs)
    for error in found.missing.values():
        raise error
    if not found.partitions:
        logger.warning("subscribePattern=%r matches no topic", options.selection.pattern)
    start = resolve(options.start, found.partitions, logs)
    end = resolve(options.end, found.partitions, logs)
    policy = DataLossPolicy(fails=options.fail_on_data_loss)
    if isinstance(options.start, AtOffsets):
        start = kept_to_logs(start, logs, policy)
    if isinstance(options.end, AtOffsets):
        _keep_to_ends(start, end, logs, policy)
    if isinstance(options.end, LatestEachRead):
        return [
            RangePartition(one, found.topic_ids[one.topic], start[one], None)
            for one in found.partitions
        ]
    ranges = bounds.cut(_ranges(found, start, end), logs)
    return [RangePartition.of(one) for one in split_for_tasks(options.split, ranges, logs)]


def _keep_to_ends(start: Offsets, end: Offsets, logs: Logs, policy: DataLossPolicy) -> None:
    for one, log_end in logs.ends(list(end)).items():
        if end[one] > log_end:
            policy.cut_away(one, end[one], log_end, option="endingOffsets")
            end[one] = log_end
        elif start[one] > end[one]:
            raise InvalidConfig(f"{one} is to be read from {start[one]} to {end[one]}, backwards")


def _ranges(found: Found, start: Offsets, end: Offsets) -> list[OffsetRange]:
    return [
        OffsetRange(one, found.topic_ids[one.topic], start[one], max(start[one], end[one]))
        for one in found.partitions
    ]
