"""What each micro-batch of a stream holds: decisions on the driver, from what the cluster says.

`TidelogStreamReader` asks, with the offsets that Spark keeps. Invariants: an end never lies before
its start unless data was lost and the query may go on; a partition that is new begins at its first
record; under AvailableNow nothing is read that came after the query began.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tidelog.errors import InvalidPartitions, UnknownTopic, UnknownTopicId
from tidelog_spark.data_loss import DataLossPolicy, kept_to_logs
from tidelog_spark.offsets import OffsetMap, Offsets
from tidelog_spark.options import SourceOptions
from tidelog_spark.planning import OffsetRange, share_out
from tidelog_spark.positions import AtOffsets, Earliest, moves_with_time, resolve
from tidelog_spark.selection import Found
from tidelog_spark.splitting import split_for_tasks, weights
from tidelog_spark.tasks import RangePartition
from tidelog_spark.topics import Logs

#: How long an idle stream waits before it asks again, at first and at most.
_POLL_S: Final = 0.005
_POLL_MAX_S: Final = 0.04


class StreamPlanning:
    """See the module. `clock` gives seconds, `wait` lets some pass."""

    def __init__(
        self,
        options: SourceOptions,
        logs: Logs,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._logs = logs
        self._clock = clock
        self._wait = wait
        self._policy = DataLossPolicy(fails=options.fail_on_data_loss)
        self._found: Found | None = None
        self._found_at = 0.0
        self._initial: OffsetMap | None = None
        self._first_is_empty = False
        self._read_topics: set[str] = set()
        self._frozen: OffsetMap | None = None
        self._last_batch_at = clock()
        #: Where the logs ended when last asked.
        self.latest_seen: OffsetMap | None = None

    # ------------------------------------------------------------------ what there is

    def _find(self) -> Found:
        """The partitions to read; remembered for a while, since it costs a question."""
        now = self._clock()
        if self._found is None or (now - self._found_at) * 1000 >= self._options.metadata_ttl_ms:
            self._found, self._found_at = self._options.selection.find(self._logs), now
        return self._found

    def _latest(self) -> OffsetMap:
        try:
            ends = self._logs.ends(self._find().partitions)
        except (UnknownTopic, UnknownTopicId, InvalidPartitions):
            self._found = None  # what was remembered is not so any more
            ends = self._logs.ends(self._find().partitions)
        self.latest_seen = OffsetMap(ends, self._find().topic_ids)
        return self.latest_seen

    def _latest_after(self, start: OffsetMap) -> OffsetMap:
        """Where the logs end; looked up with care where that seems to lie before the start."""
        latest = self._latest()
        if any(latest.offsets.get(one, -1) < offset for one, offset in start.offsets.items()):
            self._found = None
            latest = self._latest()
        return latest

    def freeze(self) -> None:
        """Takes the logs to end where they end now."""
        self._found = None
        self._frozen = self._latest()

    def _refuse_missing(self, start: OffsetMap) -> None:
        """Raises for a topic that was named and does not exist, unless the query has read it."""
        self._read_topics.update(start.topic_ids)
        for topic, error in self._find().missing.items():
            if topic not in self._read_topics:
                raise error

    # ------------------------------------------------------------------ begin

    def initial(self) -> OffsetMap:
        """Where a new query begins; the same however often it is asked."""
        if self._initial is None:
            found = self._find()
            self._refuse_missing(OffsetMap({}))
            start = self._options.start
            offsets = resolve(start, found.partitions, self._logs)
            if isinstance(start, AtOffsets):
                offsets = kept_to_logs(offsets, self._logs, self._policy)
            if self._frozen is not None and not isinstance(start, Earliest):
                ends = self._frozen.offsets
                offsets = {one: min(offsets[one], ends.get(one, offsets[one])) for one in offsets}
            self._initial = OffsetMap(offsets, found.topic_ids)
            # Were batch 0 to hold anything, its replay would look the beginning up anew, and what
            # lies between both answers would be lost. An empty one loses nothing.
            self._first_is_empty = moves_with_time(start) and self._frozen is None
        return self._initial

    # ------------------------------------------------------------------ end of a micro-batch

    def next_end(self, start: OffsetMap, is_limited: bool) -> OffsetMap:
        """Where the next micro-batch ends; waits a little where there is nothing."""
        if self._first_is_empty and start == self._initial:
            self._first_is_empty = False
            return start
        self._first_is_empty = False
        deadline = self._clock() + self._options.poll_ms / 1000
        poll_s = _POLL_S
        while True:
            end = self._end_now(start, is_limited)
            left_s = deadline - self._clock()
            if end != start or self._frozen is not None or left_s <= 0:
                break
            self._wait(min(poll_s, left_s))
            poll_s = min(2 * poll_s, _POLL_MAX_S)
        if end != start:
            self._last_batch_at = self._clock()
        return end

    def _end_now(self, start: OffsetMap, is_limited: bool) -> OffsetMap:
        latest = self._frozen or self._latest_after(start)
        self._refuse_missing(start)
        self._check(start, latest)
        begin = self._beginnings(start, latest)
        ends = dict(latest.offsets)
        if self._frozen is not None:
            ends = {one: max(end, begin[one]) for one, end in ends.items()}
        if is_limited:
            limited = self._limited(begin, ends, latest)
            if limited is None:
                return start
            ends = limited
        return OffsetMap(ends, latest.topic_ids)

    def _check(self, start: OffsetMap, latest: OffsetMap) -> None:
        """Reports what the query has read and is not there any more."""
        for topic, topic_id in start.topic_ids.items():
            now_id = latest.topic_ids.get(topic)
            if now_id is None:
                self._report_missing(topic)
            elif now_id != topic_id:
                self._policy.recreated(topic, topic_id, now_id)
        for one, offset in start.offsets.items():
            if not _is_same_topic(one.topic, start, latest):
                continue
            end = latest.offsets.get(one)
            if end is None:
                self._policy.partition_gone(one)
            elif end < offset:
                self._policy.cut_away(one, offset, end)

    def _report_missing(self, topic: str) -> None:
        if self._options.selection.names(topic):
            self._policy.topic_deleted(topic)
        else:
            self._policy.topic_left_out(topic)

    def _beginnings(self, start: OffsetMap, end: OffsetMap) -> Offsets:
        """Where each partition of `end` goes on: after `start`, or at its first record if new."""
        known = {
            one: start.offsets[one]
            for one in end.offsets
            if one in start.offsets and _is_same_topic(one.topic, start, end)
        }
        return known | self._logs.starts([one for one in end.offsets if one not in known])

    def _limited(self, begin: Offsets, ends: Offsets, latest: OffsetMap) -> Offsets | None:
        """The ends within the limits; None to wait for more records."""
        limits = self._options.limits
        waiting = sum(max(0, ends[one] - begin[one]) for one in ends)
        if limits.offsets_min is not None and self._frozen is None:
            waited_ms = (self._clock() - self._last_batch_at) * 1000
            if waiting < limits.offsets_min and (waiting == 0 or waited_ms < limits.delay_ms):
                return None
        if limits.offsets_max is not None:
            ends = share_out(limits.offsets_max, begin, ends)
        if limits.bytes_max is not None:
            ends = self._within_bytes(limits.bytes_max, begin, ends, latest)
        return ends

    def _within_bytes(
        self, bytes_max: int, begin: Offsets, ends: Offsets, latest: OffsetMap
    ) -> Offsets:
        ranges = _ranges(begin, ends, latest)
        by_weight = weights(ranges, self._logs)
        sizes = {one.partition: one.size * by_weight.get(one.partition, 0.0) for one in ranges}
        total = sum(sizes.values())
        if total <= bytes_max:
            return ends
        records = sum(one.size for one in ranges)
        return share_out(max(1, int(records * bytes_max / total)), begin, ends)

    # ------------------------------------------------------------------ tasks

    def tasks(self, start: OffsetMap, end: OffsetMap) -> list[RangePartition]:
        """The tasks of the micro-batch between two offsets, which may be a replayed one."""
        end = self._without_lost_topics(end)
        begin = self._beginnings(start, end)
        log_starts = self._logs.starts(
            [one for one in end.offsets if end.offsets[one] > begin[one]]
        )
        for one, log_start in log_starts.items():
            is_new = one not in start.offsets or not _is_same_topic(one.topic, start, end)
            if is_new and log_start > 0:
                self._policy.added_late(one, log_start)
            elif log_start > begin[one]:
                self._policy.deleted_by_retention(one, begin[one], log_start)
            begin[one] = max(begin[one], log_start)
        for one, offset in begin.items():
            # A replayed batch 0 may begin later than it ended: its beginning was looked up anew.
            if end.offsets[one] < offset and one not in log_starts and start != self._initial:
                self._policy.cut_away(one, offset, end.offsets[one])
        ranges = _ranges(begin, dict(end.offsets), end)
        split = split_for_tasks(self._options.split, ranges, self._logs)
        return [RangePartition.of(one) for one in split]

    def _without_lost_topics(self, end: OffsetMap) -> OffsetMap:
        """What a batch that is replayed can still read: not what was deleted since."""
        now = self._find().topic_ids
        lost = set()
        for topic in sorted({one.topic for one in end.offsets}):
            planned_id = end.topic_ids.get(topic)
            if topic not in now:
                self._report_missing(topic)
                lost.add(topic)
            elif planned_id is not None and planned_id != now[topic]:
                self._policy.recreated(topic, planned_id, now[topic])
                lost.add(topic)
        offsets = {one: offset for one, offset in end.offsets.items() if one.topic not in lost}
        return OffsetMap(offsets, now | {**end.topic_ids})


def _is_same_topic(topic: str, one: OffsetMap, other: OffsetMap) -> bool:
    """Whether a name means the same topic in both; offsets of Kafka know no identity."""
    ids = one.topic_ids.get(topic), other.topic_ids.get(topic)
    return ids[0] == ids[1] or None in ids


def _ranges(begin: Offsets, ends: Offsets, latest: OffsetMap) -> list[OffsetRange]:
    return [
        OffsetRange(
            one, latest.topic_ids.get(one.topic, ""), begin[one], max(begin[one], ends[one])
        )
        for one in ends
    ]
