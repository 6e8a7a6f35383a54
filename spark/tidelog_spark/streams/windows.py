"""Aggregates over windows of time and over sessions, as flat rows.

Between a stream and its sink. Over Spark's own `window` and `session_window` these add what is
forgotten most: the watermark, without which the state of a stream grows for ever, and plain
columns `start` and `end` that every sink can write.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from tidelog.errors import InvalidConfig


def windowed(
    events: DataFrame,
    time: str,
    size: str,
    *,
    late: str,
    aggregates: Sequence[Column],
    keys: Sequence[str] = (),
    slide: str | None = None,
) -> DataFrame:
    """Aggregates of every window of `size`, such as "10 minutes", by the column `time`.

    `late` is how long a window waits for late records; `slide` makes windows overlap. The rows
    have `start`, `end`, the keys and the aggregates.
    """
    window = sql.window(time, size, slide) if slide else sql.window(time, size)
    return _aggregated(events, time, late, window, (keys, aggregates))


def sessions(
    events: DataFrame,
    time: str,
    gap: str,
    *,
    late: str,
    aggregates: Sequence[Column],
    keys: Sequence[str],
) -> DataFrame:
    """Aggregates of every session: records of the keys that are less than `gap` apart."""
    if not keys:
        raise InvalidConfig("sessions need keys: whose sessions shall they be?")
    return _aggregated(events, time, late, sql.session_window(time, gap), (keys, aggregates))


def _aggregated(
    events: DataFrame,
    time: str,
    late: str,
    window: Column,
    wanted: tuple[Sequence[str], Sequence[Column]],
) -> DataFrame:
    keys, aggregates = wanted
    if not aggregates:
        raise InvalidConfig("there is nothing to aggregate: name one such as count('*')")
    grouped = events.withWatermark(time, late).groupBy(window.alias("_window"), *keys)
    rows = grouped.agg(*aggregates)
    results = [name for name in rows.columns if name != "_window"]
    return rows.select(
        sql.col("_window.start").alias("start"), sql.col("_window.end").alias("end"), *results
    )
