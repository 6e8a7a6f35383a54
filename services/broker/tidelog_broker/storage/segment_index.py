"""The sparse index of one segment: from an offset or a timestamp to a place in the file.

One entry stands for every few kilobytes of log. It holds where a batch begins, and the highest
timestamp of all batches before it; so one position serves both searches. Entries live in flat
arrays (16 bytes each), are appended to `.index` and `.timeindex` in frames, and are only a cache:
a frame notes how far it reaches, and what is missing is read again from the log.

    .index frame      8 bytes  end of the covered log in bytes
                      8 bytes  offset behind the covered log
                      8 bytes  each entry: relative offset (high half), position (low half)
    .timeindex frame  8 bytes  end of the covered log in bytes
                      8 bytes  highest timestamp
                      8 bytes  time of the first append    8 bytes  of the last one
                      8 bytes  each entry: highest timestamp before it
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

from tidelog.errors import UnsupportedVersion
from tidelog_broker.storage.frames import (
    HEADER_SIZE,
    DamagedFile,
    check_header,
    frame,
    frames,
    header,
)

_OFFSET_MAGIC: Final = b"TLix"
_TIME_MAGIC: Final = b"TLti"
_VERSION: Final = 1
_OFFSET_COVER: Final = struct.Struct(">Qq")
_TIME_COVER: Final = struct.Struct(">Qqqq")
_POSITION_BITS: Final = 32
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1


@dataclass(slots=True)
class Coverage:
    """How far an index reaches, and what it knows of the log up to there."""

    position: int = 0
    next_offset: int = 0
    max_timestamp: int = -1
    first_append_ms: int = -1
    last_append_ms: int = -1


class SegmentIndex:
    """The entries of one segment, by position."""

    __slots__ = ("_places", "_timestamps", "_written")

    def __init__(self) -> None:
        self._places = array("Q")
        self._timestamps = array("q")
        #: Entries that are in the files.
        self._written = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, relative_offset: int, position: int, max_timestamp_before: int) -> None:
        """A batch begins here."""
        self._places.append(relative_offset << _POSITION_BITS | position)
        self._timestamps.append(max_timestamp_before)

    @property
    def last_position(self) -> int:
        """Where the last entry points; the beginning of the segment when there is none."""
        return self._places[-1] & _POSITION_MASK if self._places else 0

    @property
    def last_timestamp(self) -> int:
        """The highest timestamp before the last entry."""
        return self._timestamps[-1] if self._timestamps else -1

    def place_of_offset(self, relative_offset: int) -> tuple[int, int]:
        """(relative offset, position) of the nearest known batch at or before this offset."""
        key = relative_offset << _POSITION_BITS | _POSITION_MASK
        return self._place_before(bisect_right(self._places, key))

    def place_of_timestamp(self, timestamp: int) -> tuple[int, int]:
        """(relative offset, position) before which every batch is older than `timestamp`."""
        return self._place_before(bisect_left(self._timestamps, timestamp))

    def timestamp_before(self, relative_offset: int) -> tuple[int, int, int]:
        """The nearest known place at or before this offset, and the highest timestamp before it."""
        at = bisect_right(self._places, relative_offset << _POSITION_BITS | _POSITION_MASK)
        return *self._place_before(at), self._timestamps[at - 1] if at else -1

    def _place_before(self, at: int) -> tuple[int, int]:
        place = self._places[at - 1] if at else 0
        return place >> _POSITION_BITS, place & _POSITION_MASK

    def cut(self, position: int) -> None:
        """Forget everything at or behind this position; the files must be written anew."""
        keep = bisect_left(self._places, position, key=_position)
        del self._places[keep:]
        del self._timestamps[keep:]
        self._written = 0

    def pending_frames(self, covered: Coverage) -> tuple[bytes, bytes]:
        """What to append to `.index` and `.timeindex` so that they reach `covered`."""
        begin = self._written
        offsets = _OFFSET_COVER.pack(covered.position, covered.next_offset)
        offsets += _to_big_endian(self._places[begin:])
        times = _TIME_COVER.pack(
            covered.position,
            covered.max_timestamp,
            covered.first_append_ms,
            covered.last_append_ms,
        ) + _to_big_endian(self._timestamps[begin:])
        return frame(offsets), frame(times)

    @property
    def continues_files(self) -> bool:
        """Whether frames may be appended to the files, or these must be written from the start."""
        return self._written > 0

    def mark_written(self) -> None:
        """What `pending_frames` gave is in the files."""
        self._written = len(self._places)

    @classmethod
    def decode(cls, offsets: bytes, times: bytes, path: str) -> tuple[SegmentIndex, Coverage]:
        """What the two files agree on; possibly nothing, never something wrong.

        After damage nothing counts as written: the files are begun anew, not continued.
        """
        index, covered = cls(), Coverage()
        offsets_end = times_end = HEADER_SIZE
        try:
            check_header(offsets, _OFFSET_MAGIC, _VERSION, path)
            check_header(times, _TIME_MAGIC, _VERSION, path)
        except (DamagedFile, UnsupportedVersion):
            return index, covered
        pairs = zip(frames(offsets, HEADER_SIZE), frames(times, HEADER_SIZE), strict=False)
        for (offset_frame_end, offset_frame), (time_frame_end, time_frame) in pairs:
            reached = index._take(offset_frame, time_frame, covered)
            if reached is None:
                break
            covered, offsets_end, times_end = reached, offset_frame_end, time_frame_end
        if offsets_end == len(offsets) and times_end == len(times):
            index.mark_written()
        return index, covered

    def _take(self, offsets: memoryview, times: memoryview, before: Coverage) -> Coverage | None:
        """Add the entries of one pair of frames; None when they do not belong together."""
        if len(offsets) < _OFFSET_COVER.size or len(times) < _TIME_COVER.size:
            return None
        position, next_offset = _OFFSET_COVER.unpack_from(offsets)
        time_position, *known = _TIME_COVER.unpack_from(times)
        places = offsets[_OFFSET_COVER.size :]
        timestamps = times[_TIME_COVER.size :]
        if time_position != position or len(places) != len(timestamps) or len(places) % 8:
            return None
        if position < before.position:
            return None
        self._places.extend(_from_big_endian("Q", places))
        self._timestamps.extend(_from_big_endian("q", timestamps))
        return Coverage(position, next_offset, *known)


def file_headers() -> tuple[bytes, bytes]:
    """How `.index` and `.timeindex` begin."""
    return header(_OFFSET_MAGIC, _VERSION), header(_TIME_MAGIC, _VERSION)


def _position(place: int) -> int:
    return place & _POSITION_MASK


def _to_big_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _from_big_endian(code: str, content: memoryview) -> array[int]:
    numbers: array[int] = array(code, bytes(content))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
