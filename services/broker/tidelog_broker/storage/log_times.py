"""Looking a log up by time.

Timestamps are the producers' and may jump in both directions; the time index holds the highest
timestamp before each of its places, which only grows, so that the first batch at or after a time
is found whatever the clocks did. Answers are per batch: the broker does not look inside.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.records.batch import BatchHeader
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


def latest(body: LogBody, log_start: int) -> TimestampOffset | None:
    """The first of the batches with the highest timestamp."""
    highest: BatchHeader | None = None
    for segment in body.segments:
        segment.index()
        if segment.max_timestamp < 0:
            continue
        if highest is not None and segment.max_timestamp <= highest.max_timestamp:
            continue
        header = segment.locate_timestamp(segment.max_timestamp, log_start)
        if header is None:
            # Its highest batch lies below the log start.
            header = _latest_above(segment, log_start)
        if header is not None and (highest is None or header.max_timestamp > highest.max_timestamp):
            highest = header
    if highest is None:
        return None
    return _found(highest, highest.max_timestamp, log_start)


def _latest_above(segment: Segment, log_start: int) -> BatchHeader | None:
    headers = [
        header
        for _, header in segment.walk()
        if header.base_offset + header.last_offset_delta >= log_start
    ]
    return max(headers, key=lambda header: header.max_timestamp, default=None)


def _found(header: BatchHeader, timestamp: int, log_start: int) -> TimestampOffset:
    # A batch's base timestamp is its first record's.
    first = header.base_timestamp >= timestamp
    return TimestampOffset(
        max(header.base_offset, log_start),
        header.base_timestamp if first else header.max_timestamp,
        header.leader_epoch,
    )
