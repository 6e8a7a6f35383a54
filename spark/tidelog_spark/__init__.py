"""Tidelog for Spark: topics as DataFrames, read, streamed and written by `format("tidelog")`.

Spark finds the source by itself where the package `pyspark_tidelog` is installed; `register`
says it explicitly. Names are loaded when they are first used: Spark starts up to six processes
that import this, and the `tidelog` command looks for its verbs here without Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog_spark.source import TidelogDataSource, register

__all__ = ["TidelogDataSource", "register"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("tidelog_spark.source"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
