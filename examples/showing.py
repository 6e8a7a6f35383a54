"""Results for a terminal: a table, bars, and columns over time. Nothing but text.

The examples end with these. Invariant: the longest bar and the highest column fill the space, and
what is not nothing is never drawn as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

BAR_CELLS: Final = 40
COLUMN_ROWS: Final = 6
#: One to eight eighths of a cell, from the left and from below.
FROM_LEFT: Final = " ▏▎▍▌▋▊▉█"
FROM_BELOW: Final = " ▁▂▃▄▅▆▇█"


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under a heading; numbers stand at the right."""
    lines = [[shown(value) for value in row] for row in rows]
    kinds = [all(_is_number(cell) for cell in column) for column in zip(*lines, strict=True)]
    widths = [max(map(len, column)) for column in zip(heading, *lines, strict=True)]
    numeric = kinds or [False] * len(heading)

    def line(cells: Sequence[str]) -> str:
        placed = [
            cell.rjust(width) if is_numeric else cell.ljust(width)
            for cell, width, is_numeric in zip(cells, widths, numeric, strict=True)
        ]
        return "  ".join(placed).rstrip()

    rule = ["-" * width for width in widths]
    return "\n".join(line(cells) for cells in [list(heading), rule, *lines])


def bars(values: Sequence[tuple[str, float]]) -> str:
    """One bar for each name, the largest as long as there is space."""
    longest = max((value for _, value in values), default=0) or 1
    width = max((len(name) for name, _ in values), default=0)
    lines = []
    for name, value in values:
        eighths = max(round(value / longest * BAR_CELLS * 8), int(value > 0))
        full, rest = divmod(eighths, 8)
        bar = "█" * full + (FROM_LEFT[rest] if rest else "")
        lines.append(f"{name:<{width}} {bar} {shown(value)}")
    return "\n".join(lines)


def columns(values: Sequence[tuple[str, float]]) -> str:
    """Columns from left to right, with the first and the last name below them."""
    highest = max((value for _, value in values), default=0) or 1
    heights = [max(round(value / highest * COLUMN_ROWS * 8), int(value > 0)) for _, value in values]
    label = shown(highest)
    lines = []
    for row in reversed(range(COLUMN_ROWS)):
        cells = "".join(FROM_BELOW[min(8, max(0, height - row * 8))] * 2 for height in heights)
        margin = label if row == COLUMN_ROWS - 1 else "0" if row == 0 else ""
        lines.append(f"{margin:>{len(label)}} ┤{cells}".rstrip())
    lines.append(f"{'':>{len(label)}} └{'─' * 2 * len(values)}")
    if values:
        first, last = values[0][0], values[-1][0]
        gap = max(1, 2 * len(values) - len(first) - len(last))
        lines.append(f"{'':>{len(label)}}  {first}{' ' * gap}{last}")
    return "\n".join(lines)


def shown(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, float):
        return f"{value:,.2f}" if value != int(value) else f"{int(value):,}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else str(value)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()
