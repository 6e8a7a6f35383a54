"""What happened in a simulation: a digest over everything, and the last lines in words.

Loop, network and disk report here. Two runs of a seed are the same run exactly when their digests
are equal, which is how a hidden source of chance (a set's order, a real clock) is found.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

LINES_KEPT = 400


class Trace:
    """An endless log that remembers its end, and a digest that remembers all of it."""

    def __init__(self, lines_kept: int = LINES_KEPT) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._lines: deque[str] = deque(maxlen=lines_kept)
        self.now: Callable[[], float] = float

    def record(self, text: str) -> None:
        """Add one line: part of the digest, and shown when the run fails."""
        line = f"{self.now():14.6f} {text}"
        self._digest.update(line.encode())
        self._lines.append(line)

    def fold(self, *numbers: int) -> None:
        """Add to the digest without a line of its own: for what happens too often to read."""
        self._digest.update(repr(numbers).encode())

    def fold_bytes(self, data: bytes) -> None:
        """Add a message to the digest, so that two runs differ when one byte of it does."""
        self._digest.update(data)

    def last_lines(self, count: int = 50) -> list[str]:
        """The end of the story."""
        return list(self._lines)[-count:]

    def digest(self) -> str:
        """The fingerprint of everything recorded so far."""
        return self._digest.hexdigest()
