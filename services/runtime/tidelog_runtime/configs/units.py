"""Sizes and durations as people write them: "64 MiB", "7 d", or a plain integer.

Called by `tidelog_runtime.config` for every key that is a size (bytes) or a duration
(milliseconds). Only whole numbers, and only units that mean one thing.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_QUANTITY: Final = re.compile(r"([0-9]{1,19})\s*([A-Za-z]+)")

SIZE_UNITS: Final = {
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
}
DURATION_UNITS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def integer_of(text: str) -> int | None:
    """The integer that `text` is, or None."""
    text = text.strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def size_of(text: str) -> int | None:
    """Bytes: an integer, or one with KiB, MiB, GiB, KB, MB or GB; None when it is neither."""
    return _quantity_of(text, SIZE_UNITS)


def duration_of(text: str) -> int | None:
    """Milliseconds: an integer, or one with ms, s, m, h or d; None when it is neither."""
    return _quantity_of(text, DURATION_UNITS)


def _quantity_of(text: str, units: dict[str, int]) -> int | None:
    plain = integer_of(text)
    if plain is not None:
        return plain
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        return None
    return int(match[1]) * units[match[2]]
