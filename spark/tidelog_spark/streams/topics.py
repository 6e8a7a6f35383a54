"""Topics as DataFrames: a stream of their records, a batch, or the table of their keys.

The beginning of a job on Spark. Invariant: nothing is asked of the cluster here; Spark does that
when the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tidelog.errors import InvalidConfig
from tidelog_spark.options import batch_options, stream_options
from tidelog_spark.streams.codecs import Malformed, Schema, decode

FORMAT: Final = "tidelog"
#: Where a topic ends is asked anew each time it is read: for the static side of joins.
LATE_BOUND: Final = "latest-each-read"
#: Options that choose topics otherwise than the arguments here do.
CHOOSE_TOPICS: Final = frozenset({"subscribe", "subscribepattern", "assign", "path"})
#: What a table needs of a record; Spark takes no fewer columns by itself.
TABLE_COLUMNS: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
)


def stream(
    spark: SparkSession,
    topic: str | None,
    *,
    bootstrap: str,
    value: Schema = "binary",
    key: Schema = "binary",
    malformed: Malformed = "keep",
    watermark: tuple[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of a topic (several by commas) as they come, from the earliest on.

    With None the topics are chosen by an option, such as {"subscribePattern": "orders-.*"}.
    `value`, `key` and `malformed` as `decode` takes them; `watermark` is a column and how late a
    record may come by it; `options` are those of `format("tidelog")` and go before all others.
    """
    told = _options(topic, bootstrap, options)
    stream_options(told)  # a wrong one is told now, not when the query runs
    reader = spark.readStream.format(FORMAT).options(**told)
    records = decode(reader.load(), value=value, key=key, malformed=malformed)
    return records.withWatermark(*watermark) if watermark else records


def batch(
    spark: SparkSession,
    topic: str | None,
    *,
    bootstrap: str,
    value: Schema = "binary",
    key: Schema = "binary",
    malformed: Malformed = "keep",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """What a topic (several by commas) holds when the query runs, decoded like a stream."""
    told = _options(topic, bootstrap, options)
    batch_options(told)
    reader = spark.read.format(FORMAT).options(**told)
    return decode(reader.load(), value=value, key=key, malformed=malformed)


def table(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap: str,
    value: Schema = "binary",
    key: Schema = "string",
    malformed: Malformed = "keep",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A keyed topic as a table: the last record of every key; a null value takes its key out.

    It is read anew whenever Spark reads it, so a stream joined with it sees the table of each
    micro-batch. The whole topic is read each time: good to some millions of records. Partitions
    added later are seen after a restart of the query.
    """
    told = _options(topic, bootstrap, {"endingOffsets": LATE_BOUND, **(options or {})})
    batch_options(told)
    records = spark.read.format(FORMAT).schema(TABLE_COLUMNS).options(**told).load()
    return decode(_last_of_each_key(records), value=value, key=key, malformed=malformed)


def _last_of_each_key(records: DataFrame) -> DataFrame:
    """By offset within a partition, by time between partitions: a key moves when they are added."""
    row = sql.struct("value", "topic", "partition", "offset", "timestamp")
    keyed = records.where("key IS NOT NULL")
    of_partition = keyed.groupBy("key", "topic", "partition").agg(
        sql.max_by(row, sql.col("offset")).alias("last")
    )
    order = sql.struct("last.timestamp", "last.offset")
    last = of_partition.groupBy("key").agg(sql.max_by("last", order).alias("last"))
    return last.select("key", "last.*").where("value IS NOT NULL")


def _options(
    topic: str | None, bootstrap: str, options: Mapping[str, str] | None
) -> dict[str, str]:
    given = dict(options or {})
    chosen = {name.lower() for name in given}
    if bool(topic) == bool(chosen & CHOOSE_TOPICS):
        raise InvalidConfig(
            "topics are chosen by one thing: their name, or one of the options subscribe,"
            " subscribePattern, assign"
        )
    usual = {"bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
    if topic:
        usual["subscribe"] = topic
    return {name: text for name, text in usual.items() if name.lower() not in chosen} | given
