"""What every bench shares: rows of figures, their medians and spread, and how they are shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypedDict


class Row(TypedDict, total=False):
    """One figure of one bench; `ratio` says how it stands to the row named in `ratio_to`."""

    bench: str
    name: str
    unit: str
    value: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    ratio_to: str


def row(name: str, unit: str, values: Sequence[float]) -> Row:
    """The median of several rounds, with the least and the greatest."""
    return Row(
        name=name, unit=unit, value=statistics.median(values), low=min(values), high=max(values)
    )


def with_ratio(measured: Row, to: str, values: Sequence[float], base: Sequence[float]) -> Row:
    """Adds the median of the round-by-round ratios: both sides of a round ran side by side."""
    ratios = [value / other for value, other in zip(values, base, strict=True)]
    return Row(
        **measured,
        ratio=statistics.median(ratios),
        ratio_low=min(ratios),
        ratio_high=max(ratios),
        ratio_to=to,
    )


def show(rows: Sequence[Row]) -> str:
    """A table for people."""
    lines = [f"{'':58} {'median':>12} {'least':>12} {'most':>12}  unit"]
    for entry in rows:
        numbers = " ".join(_number(entry[key]) for key in ("value", "low", "high"))
        line = f"{entry['name']:58} {numbers}  {entry['unit']}"
        if "ratio" in entry:
            spread = ""
            if "ratio_low" in entry:
                spread = f" ({entry['ratio_low']:.2f} to {entry['ratio_high']:.2f})"
            line += f"   {entry['ratio']:.2f}x of {entry['ratio_to']}{spread}"
        lines.append(line)
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:12,.0f}" if abs(value) >= 100 else f"{value:12,.3g}"
