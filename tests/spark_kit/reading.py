"""Reads topics through the connector, with Spark and without, and says what should come out.

Without Spark the classes are driven as Spark drives them: planned, pickled, read task by task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from tidelog.records.record import Record
from tidelog_spark.columns import TYPES
from tidelog_spark.reader import batch_reader

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

CANONICAL: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
)
SIMPLE: Final[dict[str, DataType]] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
}

Row = dict[str, Any]


def schema_of(*columns: str, headers: bool = True) -> StructType:
    """The schema of these columns ("value string"), or all under their first types."""
    if not columns:
        names = [name for name in CANONICAL if headers or name != "headers"]
        return StructType([StructField(name, TYPES[name.lower()][0]) for name in names])
    fields = []
    for column in columns:
        name, _, kind = column.partition(" ")
        fields.append(StructField(name, TYPES[name.lower()][0] if not kind else SIMPLE[kind]))
    return StructType(fields)


def read_without_spark(
    options: Mapping[str, str], schema: StructType | None = None
) -> list[pa.RecordBatch]:
    """What a batch reader reads, as Arrow batches; it and its tasks are pickled on the way."""
    reader = batch_reader(options, schema or schema_of())
    tasks = pickle.loads(pickle.dumps(list(reader.partitions())))
    reader = pickle.loads(pickle.dumps(reader))
    return [batch for task in tasks for batch in reader.read(task)]


def rows(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of Arrow batches, in the order of topic, partition and offset where they have it."""
    return sorted((row for batch in batches for row in batch.to_pylist()), key=_place)


def rows_of(frame: DataFrame) -> list[Row]:
    """The rows of a DataFrame, in the order of topic, partition and offset where they have it."""
    return sorted(frame.toArrow().to_pylist(), key=_place)


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name, "") for name in ("topic", "partition", "offset"))


def expected(records: Iterable[Record], *, headers: bool = True) -> list[Row]:
    """The rows that records are, in their order."""
    made = []
    for record in records:
        row: Row = {
            "key": record.key,
            "value": record.value,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": EPOCH + timedelta(milliseconds=int(record.timestamp)),
            "timestampType": record.timestamp_type,
        }
        if headers:
            row["headers"] = [{"key": key, "value": value} for key, value in record.headers]
        made.append(row)
    return made


def source(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """A batch read of one topic."""
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).options(**options).load()


class AvailableNow:
    """A stream into a memory table that is run again and again on one checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, topic: str) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        self._topic = topic
        self.batches: list[list[Row]] = []
        self.progress: list[Any] = []

    def run(self, **options: str) -> list[list[Row]]:
        """Reads what is there; the rows of each micro-batch of this run."""
        self.batches, self.progress = [], []
        given = {"startingOffsets": "earliest", "partition.metadata.cache.ttl.ms": "0"} | options
        if not {"subscribe", "subscribePattern", "assign"} & given.keys():
            given["subscribe"] = self._topic
        reader = self._spark.readStream.format("tidelog").options(**given)
        frame = reader.option("kafka.bootstrap.servers", self._bootstrap).load()
        query = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            self.progress = list(query.recentProgress)
            query.stop()
        return self.batches

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        taken = rows_of(frame)
        if taken:
            self.batches.append(taken)
