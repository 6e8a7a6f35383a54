"""Every record through the Spark connector and back to what was sent, ten million of them.

    python -m bench.spark_round_trip --records 10000000

What a record holds follows from its partition and offset (nulls, empty values, headers and times
among it; chunks under all five compressions), so that Spark itself can hold each row against what
it has to be. Read once as a batch and once as a stream of several micro-batches.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.servers import broker
from tidelog.admin.admin import Admin
from tidelog.producer.producer import Producer
from tidelog.records.compression import Compression

TOPIC: Final = "round-trip"
PARTITIONS: Final = 4
CHUNK: Final = 20_000
FIRST_TIMESTAMP_MS: Final = 1_700_000_000_000
MICRO_BATCHES: Final = 7

#: What each column has to be, as Spark computes it from the offset.
EXPECTED: Final = {
    "key": (
        "CASE WHEN offset % 3 = 0 THEN NULL WHEN offset % 5 = 0 THEN CAST('' AS BINARY)"
        " ELSE CAST(concat('key-', offset % 1000) AS BINARY) END"
    ),
    "value": (
        "CASE WHEN offset % 11 = 0 THEN NULL WHEN offset % 13 = 0 THEN CAST('' AS BINARY)"
        " ELSE CAST(concat('value-', offset, '-of-', partition) AS BINARY) END"
    ),
    "topic": f"'{TOPIC}'",
    "timestamp": f"timestamp_millis({FIRST_TIMESTAMP_MS} + offset)",
    "timestampType": "0",
    "headers": (
        "CASE WHEN offset % 17 = 0 THEN array("
        "named_struct('key', 'offset', 'value', CAST(CAST(offset AS STRING) AS BINARY)),"
        " named_struct('key', 'nothing', 'value', CAST(NULL AS BINARY)))"
        " ELSE array() END"
    ),
}


def key_of(offset: int) -> bytes | None:
    """The key of a record."""
    if offset % 3 == 0:
        return None
    return b"" if offset % 5 == 0 else b"key-%d" % (offset % 1000)


def value_of(offset: int, partition: int) -> bytes | None:
    """The value of a record."""
    if offset % 11 == 0:
        return None
    return b"" if offset % 13 == 0 else b"value-%d-of-%d" % (offset, partition)


def headers_of(offset: int) -> list[tuple[str, bytes | None]]:
    """The headers of a record."""
    return [("offset", b"%d" % offset), ("nothing", None)] if offset % 17 == 0 else []


def send(address: str, records: int) -> None:
    """Fills the topic, chunk after chunk, each under the next compression."""
    with Admin(address) as admin:
        # The records are stamped long ago: retention would take them.
        admin.create_topic(TOPIC, partitions=PARTITIONS, config={"retention.ms": -1})
    with ExitStack() as stack:
        producers = [
            stack.enter_context(Producer(address, compression=codec.name.lower()))  # type: ignore[arg-type] # a codec's name
            for codec in Compression
        ]
        for number, (partition, offsets) in enumerate(chunks(records)):
            producer = producers[number % len(producers)]
            producer.send_columns(
                TOPIC,
                key=pa.array([key_of(offset) for offset in offsets], pa.binary()),
                value=pa.array([value_of(offset, partition) for offset in offsets], pa.binary()),
                timestamp=[FIRST_TIMESTAMP_MS + offset for offset in offsets],
                headers=[headers_of(offset) for offset in offsets],
                partition=partition,
            )
            producer.flush()


def chunks(records: int) -> Iterator[tuple[int, range]]:
    """Partitions in turn, each with the offsets of its next chunk."""
    ends = [0] * PARTITIONS
    sent = 0
    while sent < records:
        partition = sent // CHUNK % PARTITIONS
        count = min(CHUNK, records - sent)
        yield partition, range(ends[partition], ends[partition] + count)
        ends[partition] += count
        sent += count


class Findings:
    """What was read, by partition: how many rows, from which offset to which, how many wrong."""

    def __init__(self) -> None:
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self.rows = 0
        self.wrong = 0

    def add(self, frame: DataFrame) -> None:
        """Holds each row against what it has to be, and offsets against those before."""
        right = " AND ".join(f"{name} <=> ({what})" for name, what in EXPECTED.items())
        found = frame.selectExpr("partition", "offset", f"NOT ({right}) AS is_wrong")
        # One row twice in the place of another would pass by first, last and count alone.
        grouped = found.groupBy("partition").agg(
            sql.min("offset").alias("first"),
            sql.max("offset").alias("last"),
            sql.count("*").alias("rows"),
            sql.count_distinct("offset").alias("offsets"),
            sql.count_if("is_wrong").alias("wrong"),
        )
        for row in grouped.collect():
            first, last, count = row["first"], row["last"], row["rows"]
            if first != self._next[row["partition"]] or not (
                last - first + 1 == count == row["offsets"]
            ):
                sys.exit(f"partition {row['partition']}: {count} rows from {first} to {last}")
            self._next[row["partition"]] = last + 1
            self.rows += count
            self.wrong += row["wrong"]


def reader(source: Any, address: str) -> Any:
    """A reader with the options of both ways."""
    options = {"subscribe": TOPIC, "includeHeaders": "true", "startingOffsets": "earliest"}
    return source.format("tidelog").option("kafka.bootstrap.servers", address).options(**options)


def read_as_stream(spark: SparkSession, address: str, records: int, folder: str) -> Findings:
    """Reads the topic in several micro-batches."""
    findings = Findings()
    source = reader(spark.readStream, address)
    frame = source.option("maxOffsetsPerTrigger", records // MICRO_BATCHES).load()
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: findings.add(batch))
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return findings


def main() -> None:
    """Sends, reads both ways, and says what came."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    records = parser.parse_args().records
    # Spark finds the connector in the Python of its workers, which is any `python3` otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder, broker(f"{folder}/data") as server:
        send(server.address, records)
        for way in ("batch", "stream"):
            started = time.perf_counter()
            if way == "batch":
                findings = Findings()
                findings.add(reader(spark.read, server.address).load())
            else:
                findings = read_as_stream(spark, server.address, records, folder)
            seconds = time.perf_counter() - started
            print(f"{way}: {findings.rows:,} rows, {findings.wrong} wrong, {seconds:.0f} s")
            if findings.rows != records or findings.wrong:
                sys.exit(f"{records:,} rows were expected, all as they were sent")
    spark.stop()


if __name__ == "__main__":
    main()
