"""Reading a log again to find what the disk has damaged since it was written.

`Log.scrub` calls this for a few megabytes at a time, in the background. What fails its checksum
becomes a damaged range: the bytes stay, readers are refused, the rest is served.
"""

from __future__ import annotations

from tidelog_broker.storage import damage
from tidelog_broker.storage.damage import DamagedRange
from tidelog_broker.storage.log_body import LogBody
from tidelog_broker.storage.recovery import BatchReader
from tidelog_broker.storage.segment import Segment


def scrub(
    body: LogBody, offset: int, max_bytes: int, log_end: int
) -> tuple[int, list[DamagedRange]]:
    """Check the batches from `offset` on; where to go on, and what was found to be damaged."""
    at = body.find(offset)
    segment = body.segments[at]
    segment_end = body.end_offset_of(at, log_end)
    relative, position = segment.read_index().place_of_offset(offset - segment.base_offset)
    expected = segment.base_offset + relative
    reader = BatchReader(segment)
    found: list[DamagedRange] = []
    stop = min(position + max_bytes, segment.size)
    while position < stop:
        known = segment.end_of_damage(position)
        if known is not None:
            expected = _offset_behind(body, segment, known, segment_end)
            position = known
            continue
        header = reader.batch_at(position)
        if header is not None and header.base_offset == expected:
            position += 12 + header.batch_length
            expected = header.base_offset + header.last_offset_delta + 1
            continue
        begin = position if header is not None and header.base_offset > expected else position + 1
        resumed = reader.next_batch(begin, expected, segment_end - 1)
        end_position = segment.size if resumed is None else resumed[0]
        end_offset = segment_end if resumed is None else resumed[1].base_offset
        damaged = DamagedRange(expected, end_offset, segment.base_offset, position, end_position)
        damage.mark(segment, damaged)
        found.append(damaged)
        position, expected = end_position, end_offset
    return (segment_end if position >= segment.size else expected), found


def _offset_behind(body: LogBody, segment: Segment, end_position: int, segment_end: int) -> int:
    for damaged in body.damaged_ranges:
        if damaged.segment_base == segment.base_offset and damaged.end_position == end_position:
            return damaged.end_offset
    return segment_end
