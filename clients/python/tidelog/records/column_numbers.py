"""The numbers inside many records at once: where keys and values lie, offsets, timestamps.

`column_decoder` calls it with where the records begin. Invariant: numbers are read for all records
together, byte by byte with a mask for what goes on, and never beyond the buffer (`IndexError`).
Long runs of records of one layout, which is what most topics hold, are read by slices with a step
instead; whatever does not fit that goes the general way, which also has the words for errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.errors import CorruptMessage
from tidelog.records.runs import column, equal_lengths
from tidelog.records.varint import read_varint

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_LAST_SHIFT: Final = 56
_ZIGZAG: Final[Numbers] = np.array([(n >> 1) ^ -(n & 1) for n in range(128)], np.int64)


@dataclass(slots=True)
class RecordNumbers:
    """What the numbers of each record say; `offset` and `timestamp` are deltas at first."""

    stop: Numbers
    timestamp: Numbers
    offset: Numbers
    key_start: Numbers
    key_bytes: Numbers
    value_start: Numbers
    value_bytes: Numbers

    def chosen(self, rows: npt.NDArray[np.bool_]) -> RecordNumbers:
        """The numbers of some of the records."""
        return RecordNumbers(*(getattr(self, name)[rows] for name in self.__slots__))

    @property
    def header_start(self) -> Numbers:
        """Where the count of each record's headers lies."""
        return self.value_start + np.maximum(self.value_bytes, 0)


def joined(pieces: list[RecordNumbers]) -> RecordNumbers:
    """The numbers of all pieces, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    names = RecordNumbers.__slots__
    return RecordNumbers(
        *(np.concatenate([getattr(piece, name) for piece in pieces]) for name in names)
    )


def read_scattered(octets: Bytes, starts: Numbers) -> RecordNumbers:
    """The numbers of records that begin anywhere."""
    length, position = varints(octets, starts)
    stop = position + length
    timestamp, position = varints(octets, position + 1)  # byte 0 holds attributes
    offset, position = varints(octets, position)
    key_bytes, key_start = varints(octets, position)
    position = key_start + np.maximum(key_bytes, 0)
    value_bytes, value_start = varints(octets, position)
    numbers = RecordNumbers(stop, timestamp, offset, key_start, key_bytes, value_start, value_bytes)
    position = numbers.header_start
    tail = stop - position
    if not np.all((tail == 1) == (octets[position] == 0)) or tail.min() < 1:
        raise CorruptMessage("the fields of a record and its length disagree")
    return numbers


def read_run(data: bytes, run: range) -> RecordNumbers | None:
    """The numbers of records that begin at the places of `run`, where these have one layout.

    None where a varint or a payload is longer in one record than in another, or has headers.
    """
    _, position = read_varint(data, run.start)
    timestamps = equally_wide(data, run, position - run.start + 1)
    if timestamps is None:
        return None
    timestamp, place = timestamps
    offsets = equally_wide(data, run, place)
    if offsets is None:
        return None
    offset, place = offsets
    layout = equal_lengths(data, run, place)
    if layout is None:
        return None
    key_start, key_bytes, value_start, value_bytes = layout
    begins = as_numbers(run)
    return RecordNumbers(
        stop=begins + run.step,
        timestamp=timestamp,
        offset=offset,
        key_start=begins + key_start,
        key_bytes=np.full(len(run), key_bytes, np.int64),
        value_start=begins + value_start,
        value_bytes=np.full(len(run), value_bytes, np.int64),
    )


def as_numbers(run: range) -> Numbers:
    """The places of a range as an array."""
    return np.arange(len(run), dtype=np.int64) * run.step + run.start


def varints(octets: Bytes, position: Numbers) -> tuple[Numbers, Numbers]:
    """The varints at all of the positions, without their zigzag, and the positions after them."""
    byte = octets[position]
    position = position + 1
    longer = np.flatnonzero(byte > 127)
    if not longer.size:
        return _ZIGZAG[byte], position
    number = (byte & 127).astype(np.int64)
    shift = 7
    while longer.size:
        if shift > _LAST_SHIFT:
            raise CorruptMessage(f"a varint is longer than {_LAST_SHIFT // 7 + 1} bytes")
        chosen = slice(None) if longer.size == len(position) else longer
        byte = octets[position[chosen]]
        number[chosen] += (byte & 127).astype(np.int64) << shift
        position[chosen] += 1
        longer = longer[byte > 127]
        shift += 7
    return (number >> 1) ^ -(number & 1), position


def equally_wide(data: bytes, run: range, place: int) -> tuple[Numbers, int] | None:
    """The varints at one place of each record, where all take one byte or all take two."""
    first = column(data, run, place)
    octets = np.frombuffer(first, np.uint8)
    if first.isascii():
        return _ZIGZAG[octets], place + 1
    second = column(data, run, place + 1)
    # At a record's last byte there is no second one of the last record: it is malformed.
    if len(second) != len(first) or not second.isascii() or octets.min() < 128:
        return None
    number = (octets & 127) + (np.frombuffer(second, np.uint8).astype(np.int64) << 7)
    return (number >> 1) ^ -(number & 1), place + 2
