"""What waits for the reader: pushed records, a partition that moved, one that failed.

The fetcher's core appends these to one queue, in the order in which they came; the reader takes
them off. Each carries the generation its partition had, so that what a seek made void is dropped.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.records.batch import HEADER_BYTES

if TYPE_CHECKING:
    from tidelog.consumer.fetching import PartitionState
    from tidelog.errors import TidelogError
    from tidelog.wire.envelopes import Incoming

#: Base offset, length and leader epoch, which begin each batch.
_BEGINNING: Final = struct.Struct(">qii")
_OFFSET: Final = struct.Struct(">q")
_BEFORE_LENGTH_COUNTS: Final = 12
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23


class Walked(NamedTuple):
    """What the headers of pushed batches say; `end` is where the wanted ones end."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    end: int
    is_broken: bool


def held_records(response: Incoming[Any], index: int) -> tuple[bytes, tuple[int, int]]:
    """The bytes to hold on to for one item of an answer, and from where to where its records lie.

    That is the message itself, uncopied. But a small part, held by a reader that takes its time,
    would keep all of the message in memory: it gets bytes of its own.
    """
    records = response.payloads[index]
    size = len(records)
    if isinstance(records, bytes) or 2 * size < len(response.content):
        return bytes(records), (0, size)
    begin = response.begins[index]
    return response.content, (begin, begin + size)


def walk(records: bytes, span: tuple[int, int], end_offset: int | None) -> Walked:
    """Walks over the batches of a span up to `end_offset`; broken is what is no whole batch."""
    position, size = span
    base_offset = next_offset = leader_epoch = -1
    while position < size:
        if size - position < HEADER_BYTES:
            return Walked(base_offset, next_offset, leader_epoch, position, True)
        offset, length, epoch = _BEGINNING.unpack_from(records, position)
        after = position + _BEFORE_LENGTH_COUNTS + length
        if after - position < HEADER_BYTES or after > size:
            return Walked(base_offset, next_offset, leader_epoch, position, True)
        if end_offset is not None and offset >= end_offset:
            next_offset = end_offset
            break
        if base_offset < 0:
            base_offset = offset
        delta = _LAST_OFFSET_DELTA.unpack_from(records, position + _LAST_OFFSET_DELTA_POSITION)[0]
        next_offset, leader_epoch = offset + delta + 1, epoch
        position = after
    if end_offset is not None:
        next_offset = min(next_offset, end_offset)
    return Walked(base_offset, next_offset, leader_epoch, position, False)


class Pushed:
    """Batches of one partition that wait for the reader.

    They lie in `data` from `begin` to `end`: as a rule that is the message that brought them, of
    which they are at least half. Records below `base_offset` and from `next_offset` on are for
    nobody.
    """

    __slots__ = (
        "address",
        "base_offset",
        "begin",
        "data",
        "end",
        "generation",
        "leader_epoch",
        "next_offset",
        "state",
    )

    def __init__(
        self,
        state: PartitionState,
        data: bytes,
        span: tuple[int, int],
        offsets: tuple[int, int],
        leader_epoch: int,
    ) -> None:
        self.state = state
        self.generation = state.generation
        self.address = state.address
        self.data = data
        self.begin, self.end = span
        self.base_offset, self.next_offset = offsets
        self.leader_epoch = leader_epoch

    @property
    def size_bytes(self) -> int:
        """What the batches take, as they are stored."""
        return self.end - self.begin

    def starting_at(self, offset: int) -> Pushed:
        """The same from a later offset on."""
        return self._part((self.begin, self.end), (offset, self.next_offset))

    def _part(self, span: tuple[int, int], offsets: tuple[int, int]) -> Pushed:
        return Pushed(self.state, self.data, span, offsets, self.leader_epoch)

    def split(self, position: int) -> tuple[Pushed, Pushed]:
        """What lies before the batch at a position, and that batch with what follows.

        The second part has no leader: credit for its bytes was given with the whole.
        """
        (offset,) = _OFFSET.unpack_from(self.data, position)
        middle = min(max(offset, self.base_offset), self.next_offset)
        first = self._part((self.begin, position), (self.base_offset, middle))
        rest = self._part((position, self.end), (middle, self.next_offset))
        rest.address = ""
        return first, rest


@dataclass(frozen=True, slots=True)
class Moved:
    """The partition goes on at another offset, as the reset policy says."""

    state: PartitionState
    generation: int
    offset: int


@dataclass(frozen=True, slots=True)
class Fault:
    """The partition can't be read on."""

    state: PartitionState
    generation: int
    error: TidelogError


Delivery = Pushed | Moved | Fault
