"""What Spark looks for by name: packages called `pyspark_*` announce a source without a line."""

from tidelog_spark.source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
