"""Tidelog for Spark: topics as DataFrames, read, streamed and written by `format("tidelog")`.

Spark finds the source by itself where the package `pyspark_tidelog` is installed; `register`
says it explicitly. Nothing heavy is imported here: Spark starts up to six processes that do.
"""

from tidelog_spark.source import TidelogDataSource, register

__all__ = ["TidelogDataSource", "register"]
