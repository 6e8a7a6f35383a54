"""The nearest name to a misspelt one, for every message that can end in "Did you mean ...?".

Used by the SDK, the command line and the services alike: topics, config keys, keyword arguments.
The work is bounded whatever a client sends, since a broker does it between two requests: long words
and the far end of huge lists are not looked at, and what can't be near is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

WORD_LENGTH_MAX: Final = 256
CANDIDATES_MAX: Final = 1_000
#: Letters compared in all, some ten microseconds each.
LETTERS_MAX: Final = 1_000


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` is most likely a slip of, or None when none is near.

    Near means few slips for the word's length (insert, leave out, mistake or swap letters); of
    equally near ones the first in alphabetical order wins.
    """
    if not word or len(word) > WORD_LENGTH_MAX:
        return None
    best: tuple[int, str] | None = None
    limit = min(3, max(1, len(word) // 3), len(word) - 1)  # of one letter all others are near
    left = LETTERS_MAX
    lowered = word.lower()
    letters = set(lowered)
    for candidate in islice(candidates, CANDIDATES_MAX):
        if candidate == word or abs(len(candidate) - len(word)) > limit:
            continue
        other = candidate.lower()
        # A slip brings in one letter at most and takes one out at most.
        if len(letters.symmetric_difference(other)) > 2 * limit:
            continue
        left -= len(word)
        slips = _slips(lowered, other, limit)
        if slips <= limit and (best is None or (slips, candidate) < best):
            best = slips, candidate
            limit = slips
        if left <= 0:
            break
    return best[1] if best else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """The hint "Did you mean 'orders'?", or an empty string when nothing is near."""
    found = nearest(word, candidates)
    return f"Did you mean '{found}'?" if found is not None else ""


def _slips(word: str, other: str, limit: int) -> int:
    """Edit distance with swaps of neighbours; some number above `limit` once it exceeds that."""
    far = limit + 1
    before_last: list[int] = []
    last = [min(column, far) for column in range(len(other) + 1)]
    for row, letter in enumerate(word, start=1):
        current = [far] * (len(other) + 1)
        current[0] = min(row, far)
        # Further from the diagonal than `limit` there are more slips than that.
        for column in range(max(1, row - limit), min(len(other), row + limit) + 1):
            other_letter = other[column - 1]
            cost = min(
                last[column] + 1,
                current[column - 1] + 1,
                last[column - 1] + (letter != other_letter),
            )
            swapped = (
                row > 1
                and column > 1
                and letter == other[column - 2]
                and word[row - 2] == other_letter
            )
            if swapped:
                cost = min(cost, before_last[column - 2] + 1)
            current[column] = cost
        if min(current) > limit:
            return far
        before_last, last = last, current
    return last[-1]
