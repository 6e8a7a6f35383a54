"""Shares the prefetch buffer among the leaders that push into it.

The fetcher tells what was granted, pushed and handed out. Pure. Invariants: what leaders may still
push and what waits for the reader stay within the buffer, but for one batch a leader and for the
share of a leader that has just joined; and a reader that reads never finds a leader without credit.
"""

from __future__ import annotations

from typing import Final

#: Credit goes back in portions of this part of a leader's share: few messages, never a stop.
PORTIONS: Final = 8


class Credit:
    """What each leader may still push, and what it pushed that nobody has read yet."""

    def __init__(self, buffer_bytes: int) -> None:
        self.buffer_bytes = buffer_bytes
        self._unused: dict[str, int] = {}
        self._unread: dict[str, int] = {}

    def join(self, address: str, leaders: int) -> int:
        """A leader has joined, of so many that are expected; what to grant it at once."""
        share = self.buffer_bytes // max(1, leaders, len(self._unused) + 1)
        granted = max(1, share - self._unread.get(address, 0))
        self._unused[address] = granted
        return granted

    def leave(self, address: str) -> None:
        """The stream of a leader is gone, and its credit; what it pushed still waits."""
        self._unused.pop(address, None)

    def pushed(self, address: str, size_bytes: int) -> None:
        """A leader has used credit."""
        self._unused[address] -= size_bytes
        self._unread[address] = self._unread.get(address, 0) + size_bytes

    def handed_out(self, address: str, size_bytes: int) -> int:
        """Bytes of a leader were handed out, or dropped; what to grant it, often nothing."""
        unread = self._unread[address] = self._unread.get(address, 0) - size_bytes
        unused = self._unused.get(address)
        if unused is None:
            return 0
        share = max(1, self.buffer_bytes // len(self._unused))
        room = share - unused - unread
        if room * PORTIONS < share:
            return 0
        self._unused[address] = unused + room
        return room
