"""Rows into topics: as they are appended, or as a changelog of the last row of every key.

The end of a job on Spark; both return Spark's own writer, to add a trigger and to start. Delivery
is at least once: what is written twice after a failure is what a batch was writing when it failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidelog.errors import InvalidConfig
from tidelog_spark.sink_options import sink_options
from tidelog_spark.streams.codecs import encode
from tidelog_spark.streams.topics import FORMAT


def to_topic(
    rows: DataFrame,
    topic: str,
    *,
    bootstrap: str,
    checkpoint: str,
    key: str | Sequence[str] = (),
    value: str = "",
    options: Mapping[str, str] | None = None,
) -> DataStreamWriter:
    """A writer that appends every row to the topic; `key` and `value` as `encode` takes them."""
    told = {"bootstrap.servers": bootstrap, "topic": topic, **(options or {})}
    sink_options(told)  # a wrong one is told now, not in the first batch
    writer = encode(rows, key=key, value=value).writeStream.format(FORMAT)
    return writer.options(**told).option("checkpointLocation", checkpoint).outputMode("append")


def changelog(
    rows: DataFrame,
    topic: str,
    *,
    bootstrap: str,
    checkpoint: str,
    key: str | Sequence[str],
    value: str = "",
    delete_when: str = "",
    options: Mapping[str, str] | None = None,
) -> DataStreamWriter:
    """A writer of every row that changed, so that the last record of a key is its row now.

    `streams.table` reads it back. Rows for which the SQL condition `delete_when` holds take their
    key out, by a null value. Spark refuses update mode for sinks in Python: each batch is written
    by `foreachBatch` instead, and one repeated after a failure repeats its records, which changes
    no table made of them.
    """
    if not key:
        raise InvalidConfig("a changelog needs a key: later rows of a key replace earlier ones")
    told = {"bootstrap.servers": bootstrap, "topic": topic, **(options or {})}
    sink_options(told)

    def records_of(changed: DataFrame) -> DataFrame:
        return encode(changed, key=key, value=value, delete_when=delete_when)

    def write(changed: DataFrame, _batch_id: int) -> None:
        records_of(changed).write.format(FORMAT).options(**told).mode("append").save()

    records_of(rows)  # a wrong column is told now, not in the first batch
    return (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
    )
