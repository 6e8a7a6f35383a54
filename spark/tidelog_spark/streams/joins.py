"""Two streams joined within a time of each other.

Between two streams and a sink. Invariant: both sides have a watermark and the condition bounds
time in both directions, so that Spark can forget what finds no partner any more. A stream and a
table need no helper: `orders.join(customers, "customer")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.errors import InvalidConfig

How = Literal["inner", "left", "right", "full"]
OUTER: Final[dict[str, str]] = {"left": "left_outer", "right": "right_outer", "full": "full_outer"}


def join_within(
    left: DataFrame,
    right: DataFrame,
    *,
    on: Sequence[str],
    times: tuple[str, str],
    within: str,
    late: str,
    how: How = "inner",
) -> DataFrame:
    """Rows of two streams with equal columns `on` whose times are at most `within` apart.

    `times` names the column of time on the left and on the right; `late` is how long late records
    are waited for. Columns that both sides have beside `on` must be renamed before.
    """
    if how != "inner" and how not in OUTER:
        raise InvalidConfig(f"how={how!r} is none of inner, left, right, full")
    _refuse_same_names(left, right, on)
    left_time, right_time = times
    one = left.withWatermark(left_time, late).alias("one")
    other = right.withWatermark(right_time, late).alias("other")
    apart = sql.expr(f"INTERVAL {within}")
    at, partner = sql.col(f"one.{left_time}"), sql.col(f"other.{right_time}")
    conditions = [sql.col(f"one.{name}") == sql.col(f"other.{name}") for name in on]
    conditions += [partner >= at - apart, partner <= at + apart]
    joined = one.join(other, reduce(and_, conditions), OUTER.get(how, "inner"))
    same = [sql.coalesce(f"one.{name}", f"other.{name}").alias(name) for name in on]
    rest_left = [sql.col(f"one.{name}") for name in left.columns if name not in on]
    rest_right = [sql.col(f"other.{name}") for name in right.columns if name not in on]
    return joined.select(*same, *rest_left, *rest_right)


def _refuse_same_names(left: DataFrame, right: DataFrame, on: Sequence[str]) -> None:
    if not on:
        raise InvalidConfig("a join of two streams needs columns that are equal: on=[...]")
    for side, rows in (("left", left), ("right", right)):
        missing = [name for name in on if name not in rows.columns]
        if missing:
            has = ", ".join(rows.columns)
            raise InvalidConfig(f"the {side} side has no column '{missing[0]}'; it has {has}")
    same = sorted((set(left.columns) & set(right.columns)) - set(on))
    if same:
        raise InvalidConfig(
            f"both sides have a column '{same[0]}': select what you need, or rename it on one side"
        )
