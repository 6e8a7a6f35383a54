"""Which leader epoch began at which offset: how replicas find where their logs part.

A log appends a line whenever a batch with a higher epoch arrives, and cuts it with itself. Both
columns grow strictly. The file is a cache with a note of how far it reaches: every batch carries
its epoch, so what is missing or damaged is read again from the log.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from tidelog_broker.storage.frames import DamagedFile, seal, unseal

_MAGIC: Final = b"TLle"
_VERSION: Final = 1
_COVERED: Final = struct.Struct(">q")
_LINE: Final = struct.Struct(">iq")

#: What `end_offset` answers where there is no such epoch: in a log that never had a batch.
UNKNOWN: Final = (-1, -1)


class LeaderEpochs:
    """The lines of one log."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs = array("i")
        self._starts = array("q")

    def __len__(self) -> int:
        return len(self._epochs)

    def lines(self) -> list[tuple[int, int]]:
        """(epoch, first offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        """The highest epoch; -1 in an empty log."""
        return self._epochs[-1] if self._epochs else -1

    def begin(self, epoch: int, offset: int) -> None:
        """A batch of a higher epoch was appended at this offset."""
        assert epoch > self.latest, (epoch, self.latest)
        # An epoch in which nothing was appended leaves no line behind.
        self.cut_end(offset)
        self._epochs.append(epoch)
        self._starts.append(offset)

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch up to the asked one and where it ends; UNKNOWN where there is none.

        For an epoch older than all we know the answer is itself and where our first one begins.
        """
        latest = self.latest
        if epoch < 0 or latest < 0:
            return UNKNOWN
        if epoch >= latest:
            return latest, log_end
        after = bisect_right(self._epochs, epoch)
        found = self._epochs[after - 1] if after else epoch
        return found, self._starts[after]

    def cut_end(self, offset: int) -> None:
        """The log now ends at this offset."""
        keep = bisect_left(self._starts, offset)
        del self._epochs[keep:]
        del self._starts[keep:]

    def cut_start(self, offset: int) -> None:
        """The log now starts at this offset."""
        passed = bisect_right(self._starts, offset) - 1
        if passed > 0:
            del self._epochs[:passed]
            del self._starts[:passed]
        if self._starts and self._starts[0] < offset:
            self._starts[0] = offset

    def encode(self, covered_offset: int) -> bytes:
        """The file's content; everything below `covered_offset` is in it."""
        lines = [_LINE.pack(epoch, start) for epoch, start in self.lines()]
        return seal(_MAGIC, _VERSION, _COVERED.pack(covered_offset) + b"".join(lines))

    @classmethod
    def decode(cls, content: bytes, path: str) -> tuple[LeaderEpochs, int]:
        """The lines and the offset they reach to; DamagedFile when they cannot be trusted."""
        payload = unseal(content, _MAGIC, _VERSION, path)
        if len(payload) < _COVERED.size or (len(payload) - _COVERED.size) % _LINE.size:
            raise DamagedFile(f"{path} has a length no file of leader epochs has")
        (covered_offset,) = _COVERED.unpack_from(payload)
        found = cls()
        for epoch, start in _LINE.iter_unpack(payload[_COVERED.size :]):
            if epoch <= found.latest or (found._starts and start <= found._starts[-1]):
                raise DamagedFile(f"{path} is not in order at epoch {epoch}")
            found._epochs.append(epoch)
            found._starts.append(start)
        return found, covered_offset
