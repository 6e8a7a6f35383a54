"""The nearest topic name for those who misspelt one, a few times a turn of the event loop.

Finding it costs milliseconds, and a request may hold thousands of unknown names: past the first
few the answer is the same without the hint, so that nobody else waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from tidelog.nearest import did_you_mean

HINTS_A_TURN_MAX: Final = 10


class NameHints:
    """Counts what this turn of the loop has already looked for."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given = 0

    def hint(self, word: str, names: Iterable[str]) -> str:
        """ "Did you mean ...?", or nothing."""
        if self._given >= HINTS_A_TURN_MAX:
            return ""
        if self._given == 0:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._given += 1
        return did_you_mean(word, names)

    def _begin_turn(self) -> None:
        self._given = 0
