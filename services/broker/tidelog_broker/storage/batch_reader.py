"""Whole batches of one segment, each of them checked: how recovery reads a log.

Recovery asks what begins at a place, and where the next good batch lies behind damage. Invariant:
what it is given is whole and true to its checksum, and once it has said so, lies on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from tidelog.errors import TidelogError
from tidelog.records.batch import (
    HEADER,
    HEADER_BYTES,
    KNOWN_ATTRIBUTES,
    BatchHeader,
    check_batch,
    read_header,
)
from tidelog_broker.storage.segment import Segment
from tidelog_runtime.configs.topic import BATCH_BYTES_MAX

_WINDOW_BYTES: Final = 1 << 20
#: Looking for the next batch behind damage, so many false beginnings end the search.
_FALSE_BEGINNINGS_MAX: Final = 1000


class BatchReader:
    """Reads and checks whole batches of one segment, through a window of about a megabyte."""

    def __init__(self, segment: Segment, following: Segment | None = None) -> None:
        self._segment = segment
        self._following = following
        self._window = b""
        self._position = 0
        #: Whether what is read lies on the disk for certain.
        self.reads_medium = False

    def turn_to_medium(self, position: int) -> None:
        """Bring to the disk what is not there yet, and read from there from `position` on.

        After a sync that failed in an earlier process, the page cache shows batches that no
        further sync would write, and that the next power cut would take.
        """
        file = self._segment.file()
        file.sync()
        file.forget_cache(position)
        self._window = b""
        self.reads_medium = True

    def batch_at(self, position: int) -> BatchHeader | None:
        """The batch that begins here; None when none does, or not all of it is there."""
        if self._segment.size - position < HEADER_BYTES:
            return None
        self._cover(position, HEADER_BYTES)
        try:
            header = read_header(self._window, position - self._position)
            size = 12 + header.batch_length
            if size > BATCH_BYTES_MAX or position + size > self._segment.size:
                return None
            self._cover(position, size)
            return check_batch(self._window, position - self._position)
        except TidelogError:
            return None

    def next_batch(
        self, position: int, offset_min: int, offset_max: int
    ) -> tuple[int, BatchHeader] | None:
        """The next good batch at or behind a position, with a base offset in this range."""
        false_beginnings = 0
        size = self._segment.size
        while position + HEADER_BYTES <= size and false_beginnings < _FALSE_BEGINNINGS_MAX:
            self._cover(position, HEADER_BYTES)
            # Byte 16 of a batch is its magic number, 2.
            at = self._window.find(b"\x02", position - self._position + 16)
            if at < 0:
                position = self._position + len(self._window) - 16
                if position + HEADER_BYTES > size:
                    return None
                continue
            position = self._position + at - 16
            if position + HEADER_BYTES > size:
                return None
            self._cover(position, HEADER_BYTES)
            if self._is_plausible(position, offset_min, offset_max):
                header = self.batch_at(position)
                if header is not None and self._is_followed(position, header):
                    return position, header
                false_beginnings += 1
            position += 1
        return None

    def is_belied(self, position: int, header: BatchHeader, latest_epoch: int) -> bool:
        """Whether a batch of a new leader epoch is followed by batches of an older epoch.

        No CRC covers epochs: this one is spoilt then, and not what comes behind it. Of two that
        differ the first is, unless the third sides with it.
        """
        if header.leader_epoch <= latest_epoch:
            return False
        epochs = [one.leader_epoch for one in islice(self._behind(position, header), 2)]
        are_older = [latest_epoch <= epoch < header.leader_epoch for epoch in epochs]
        return bool(are_older) and all(are_older)

    def _is_followed(self, position: int, header: BatchHeader) -> bool:
        """False where the next batch tells that this one's offset is spoilt."""
        position += header.size
        if self._segment.end_of_damage(position) is not None:
            return True  # what is known to be spoilt tells nothing of others
        behind = self.batch_at(position)
        return behind is None or behind.base_offset == header.next_offset

    def _behind(self, position: int, header: BatchHeader) -> Iterator[BatchHeader]:
        """The batches that follow this one without a gap, here and in the next segment."""
        reader, position = self, position + header.size
        while True:
            if position == reader._segment.size and reader._following is not None:
                reader, position = BatchReader(reader._following), 0
            if reader._segment.end_of_damage(position) is not None:
                return
            behind = reader.batch_at(position)
            if behind is None or behind.base_offset != header.next_offset:
                return
            yield behind
            header, position = behind, position + behind.size

    def _is_plausible(self, position: int, offset_min: int, offset_max: int) -> bool:
        fields = HEADER.unpack_from(self._window, position - self._position)
        base_offset, length, epoch, _, _, attributes, last_delta = fields[:7]
        return (
            offset_min <= base_offset <= offset_max
            and length >= HEADER_BYTES - 12
            and position + 12 + length <= self._segment.size
            and epoch >= -1
            and not attributes & ~KNOWN_ATTRIBUTES
            and last_delta >= 0
            and fields[12] >= 1
        )

    def _cover(self, position: int, length: int) -> None:
        begin = position - self._position
        if begin < 0 or begin + length > len(self._window):
            self._window = self._segment.read(position, max(length, _WINDOW_BYTES))
            self._position = position
