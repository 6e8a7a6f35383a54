"""The door through which Spark comes in: one class that makes readers and writers.

Spark pickles it into each of its processes and asks it there, so nothing is opened and nothing
heavy imported before a reader or writer is wanted. Invariant: options are checked when one is
made, and so before anything is read or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: What a DataFrame of records looks like: the columns of Spark's Kafka connector.
SCHEMA_DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)
HEADERS_DDL = "headers array<struct<key: string, value: binary>>"


def register(spark: SparkSession) -> None:
    """Makes `format("tidelog")` known to a session, where Spark has not found it by itself."""
    spark.dataSource.register(TidelogDataSource)


class TidelogDataSource(DataSource):
    """Topics of a Tidelog cluster as a source and a sink of Spark: `format("tidelog")`."""

    @classmethod
    def name(cls) -> str:
        """What `format` is told."""
        return "tidelog"

    def schema(self) -> str:
        """The columns of a record, unless the user names some of them by `.schema(...)`."""
        wants_headers = self.options.get("includeHeaders", "false").strip().lower() == "true"
        return f"{SCHEMA_DDL}, {HEADERS_DDL}" if wants_headers else SCHEMA_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads topics once, from where to where the options say."""
        from tidelog_spark.reader import batch_reader  # noqa: PLC0415 - heavy, as all below

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads topics as a stream."""
        from tidelog_spark.stream import TidelogStreamReader  # noqa: PLC0415

        return TidelogStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes a DataFrame to topics; a log is only appended to, so `overwrite` is refused."""
        from tidelog_spark.writer import batch_writer  # noqa: PLC0415

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Writes a stream to topics; with `overwrite`, complete mode, each batch's whole result."""
        from tidelog_spark.writer import TidelogStreamWriter  # noqa: PLC0415

        return TidelogStreamWriter(self.options, schema)
