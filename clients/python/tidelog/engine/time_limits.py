"""Limits of time that callers give in seconds: of waiting, of a delivery, of closing.

Producers, deliveries and consumers read them through here. Invariant: what can't be meant is
refused, so that nobody waits for ever because of a number that is none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tidelog.errors import InvalidRequest

#: Thirty years; clocks of the system take no number that is much larger, infinity least of all.
LONGEST_S: Final = 1e9


def seconds(limit: Any) -> float | None:
    """A time limit in seconds: of a number, a timedelta or None."""
    if limit is None:
        return None
    value = limit.total_seconds() if isinstance(limit, timedelta) else limit
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(
            f"{limit!r:.80} is no time limit, but of type {type(limit).__name__}",
            hint="Give seconds as a number, or a timedelta",
        )
    if not value >= 0:  # also of what is no number
        raise InvalidRequest(
            f"A time limit of {value!r:.80} s is not possible",
            hint="Give 0 or more, or None for none",
        )
    return min(value, LONGEST_S)
