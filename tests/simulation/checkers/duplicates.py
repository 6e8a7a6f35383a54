"""P5: no record stands in a log twice, whatever was sent again."""

from __future__ import annotations

from simulation.history import History, LogKey


def check_duplicates(history: History) -> list[str]:
    """Values (which are all different) that were seen at two offsets."""
    broken = []
    seen: dict[tuple[LogKey, bytes], int] = {}
    for log, offset, value in history.placed():
        first = seen.setdefault((log, value), offset)
        if first != offset:
            broken.append(f"{value[:24]!r} stands at {first} and at {offset} of {log}")
    return broken
