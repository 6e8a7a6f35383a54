"""Reading from a log: whole batches, as they lie on disk, in one read where that is possible.

Fetches come here through `Log.read`. The broker hands the bytes to the wire as they are; checking
each batch is the reader's part. Invariant: what is returned begins with the batch that holds the
offset, holds whole batches only, none at or above `end`, none of a damaged range.
"""

from __future__ import annotations

import contextlib
import logging
from typing import NamedTuple

from tidelog.errors import LogCorrupt
from tidelog.records.batch import HEADER_BYTES, BatchHeader, batches_in_order
from tidelog_broker.storage import damage
from tidelog_broker.storage.log_body import LogBody
from tidelog_broker.storage.segment import Segment

logger = logging.getLogger(__name__)


class Span(NamedTuple):
    """Whole batches of one segment: the place and the offset where they begin and end."""

    segment: Segment
    position: int
    base_offset: int
    end: int
    end_position: int


class LogReader:
    """Reads of one log; holds nothing but the body."""

    __slots__ = ("_body", "_label", "_log_end")

    def __init__(self, body: LogBody, label: str, log_end: int) -> None:
        self._body = body
        self._label = label
        self._log_end = log_end

    def read(
        self, offset: int, max_bytes: int, *, end: int, until: int | None, at_least_one: bool
    ) -> bytes:
        """Whole batches of one segment from the one that holds `offset`; `offset < end`."""
        at = self._body.find(offset)
        try:
            span = self._span(at, offset, end=end, until=until)
            length = span.end_position - span.position
            if length > max_bytes:
                length = self._length_of_part(span, max_bytes, at_least_one=at_least_one)
            return self._batches(span, length) if length > 0 else b""
        except LogCorrupt as error:
            raise self._told(error, at, offset) from None

    def measure(self, offset: int, *, end: int, until: int | None) -> tuple[int, bool]:
        """How many bytes `read` would find, and whether it finds more once `end` has moved."""
        at = self._body.find(offset)
        try:
            span = self._span(at, offset, end=end, until=until)
        except LogCorrupt as error:
            raise self._told(error, at, offset) from None
        size = span.end_position - span.position
        if size <= 0:
            return 0, True
        # Who waits for more measures again, and reads in the end.
        self._body.remember(span.base_offset, span.segment, span.position)
        return size, span.end == end and (until is None or until > end)

    def _told(self, error: LogCorrupt, at: int, offset: int) -> LogCorrupt:
        """The damage that was met, with the offset behind it; the log has it once."""
        if error.next_offset is not None:
            return error
        segment = self._body.segments[at]
        segment_end = self._body.end_offset_of(at, self._log_end)
        if not segment.told_damage:
            # Once: whoever reads there may try again and again.
            segment.told_damage = True
            logger.error(
                "a read of %s at offset %d found damage: %s Readers are told to go on at offset %d."
                " Look after the disk",
                self._label,
                offset,
                error,
                segment_end,
            )
        return damage.met(self._label, error, segment_end)

    def _span(self, at: int, offset: int, *, end: int, until: int | None) -> Span:
        """What there is to read of the segment at this place, however much it is."""
        body = self._body
        segment = body.segments[at]
        segment_end = body.end_offset_of(at, self._log_end)
        end = min(end, segment_end)
        end_position = segment.size if end == segment_end else -1
        for damaged in body.damaged_ranges:
            if damaged.start_offset <= offset < damaged.end_offset:
                raise damage.refuse(self._label, damaged)
            if offset < damaged.start_offset < end or (
                damaged.start_offset == end and damaged.segment_base == segment.base_offset
            ):
                end = damaged.start_offset
                at_bytes = damaged.segment_base == segment.base_offset
                end_position = damaged.position if at_bytes else segment.size
        position, base_offset = self._begin(segment, offset)
        if position >= segment.size:
            raise LogCorrupt(
                f"{segment.path} is damaged: it is to hold offsets up to {segment_end - 1}, and no"
                f" batch in it holds offset {offset}"
            )
        if until is not None and until < end:
            behind = self._behind(segment, until - 1)
            # A spoilt batch before this one may claim to hold what lies behind it.
            if behind is not None and (behind[1] > position or until <= offset):
                end, end_position = behind
        if end_position < 0:
            end_position = segment.size
            # Damage that lies behind what is read is for who reads there.
            with contextlib.suppress(LogCorrupt):
                end_position, _ = self._begin(segment, end)
        return Span(segment, position, base_offset, end, end_position)

    def _begin(self, segment: Segment, offset: int) -> tuple[int, int]:
        """Where the batch that holds `offset` begins, and at which offset; behind the last one the
        end of the segment.
        """
        hint = self._body.hints.get(offset)
        if hint is not None and hint[0] is segment:
            return hint[1], offset
        found = segment.locate(offset)
        return (segment.size, offset) if found is None else (found[0], found[1].base_offset)

    @staticmethod
    def _behind(segment: Segment, offset: int) -> tuple[int, int] | None:
        """The offset and the place behind the batch that holds `offset`.

        Where that is gone, behind the next one: it tells a reader that nothing comes before it.
        """
        try:
            found = segment.locate(offset)
        except LogCorrupt:
            return None  # it is for who reads there: what lies before it is served
        if found is None:
            return None
        position, header = found
        return header.base_offset + header.last_offset_delta + 1, position + header.size

    @staticmethod
    def _length_of_part(span: Span, max_bytes: int, *, at_least_one: bool) -> int:
        """How many bytes to read: the first batch alone when no other fits behind it."""
        segment, position = span.segment, span.position
        first = segment.header_in(segment.read(position, HEADER_BYTES), 0, position)
        size = first.size
        if size + HEADER_BYTES <= max_bytes:
            return max_bytes
        # Nothing to cut off from a megabyte then.
        is_too_large = size > max_bytes and not at_least_one
        return 0 if is_too_large else min(size, span.end_position - position)

    def _batches(self, span: Span, length: int) -> bytes:
        """The whole batches of these bytes, up to the first that is out of order."""
        segment, position, offset = span.segment, span.position, span.base_offset
        body = self._body
        content = segment.read(position, length)
        size, next_offset = batches_in_order(
            content, offset, end=span.end, epoch_max=body.epochs.latest
        )
        if not size:
            header = segment.header_in(content, 0, position)
            raise LogCorrupt(
                f"{segment.path} is damaged at byte {position}: offset {offset} is to begin"
                f" there, and the batch claims offsets {header.base_offset} to {header.last_offset}"
                f" and leader epoch {header.leader_epoch}"
            )
        if size == length:
            body.remember(next_offset, segment, position + size)
            return content
        # What follows may be damaged. That is for who reads there, and looks for its place.
        rest = content[size : size + HEADER_BYTES]
        if len(rest) < HEADER_BYTES or BatchHeader(rest, 0).base_offset == next_offset:
            body.remember(next_offset, segment, position + size)
        return content[:size]
