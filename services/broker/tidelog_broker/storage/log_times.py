"""Looking a log up by time.

Timestamps are the producers' and may jump in both directions; the time index holds the highest
timestamp before each of its places, which only grows, so that the first batch at or after a time
is found whatever the clocks did. Answers are per batch: the broker does not look inside.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.records.batch import LOG_APPEND_TIME_BIT, BatchHeader
from tidelog_broker.storage.log_body import LogBody
from tidelog_broker.storage.segment import Segment


class TimestampOffset(NamedTuple):
    """An offset found by time, with the leader epoch of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


def first_at_or_after(body: LogBody, timestamp: int, log_start: int) -> TimestampOffset | None:
    """The first batch that holds a record at or after `timestamp`."""
    for segment in body.segments:
        header = segment.locate_timestamp(timestamp, log_start)
        if header is not None:
            return _found(header, timestamp, log_start)
    return None


def latest(body: LogBody, log_start: int, end: int) -> TimestampOffset | None:
    """The first of the batches with the highest timestamp, of those that end at or below `end`."""
    highest: BatchHeader | None = None
    for segment in body.segments:
        if segment.base_offset >= end:
            break
        segment.index()
        if highest is not None and segment.max_timestamp <= highest.max_timestamp:
            continue
        header = _latest_of(segment, log_start, end)
        if header is not None and (highest is None or header.max_timestamp > highest.max_timestamp):
            highest = header
    if highest is None:
        return None
    return _found(highest, highest.max_timestamp, log_start)


def _latest_of(segment: Segment, log_start: int, end: int) -> BatchHeader | None:
    highest = segment.max_timestamp_below(end)
    if highest < 0:
        return None
    header = segment.locate_timestamp(highest, log_start)
    if header is not None and header.next_offset <= end:
        return header
    # Its highest batch lies below the log start.
    headers = [
        header
        for _, header in segment.walk()
        if header.next_offset > log_start and header.next_offset <= end
    ]
    return max(headers, key=lambda header: header.max_timestamp, default=None)


def _found(header: BatchHeader, timestamp: int, log_start: int) -> TimestampOffset:
    # A batch's base timestamp is its first record's, where the broker has not stamped them all.
    is_stamped = header.attributes & LOG_APPEND_TIME_BIT
    is_first = header.base_timestamp >= timestamp and not is_stamped
    return TimestampOffset(
        max(header.base_offset, log_start),
        header.base_timestamp if is_first else header.max_timestamp,
        header.leader_epoch,
    )
