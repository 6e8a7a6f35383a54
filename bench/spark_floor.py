"""The least that reading and writing from Python costs Spark: no broker, nothing fetched or sent.

    python -m bench.spark_floor --rows 4000000

A source hands over the same Arrow batch again and again, and a sink counts rows: whatever a
connector written in Python does comes on top. docs/performance.md holds the connector's rates
against these.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidelog_spark.worker_socket import Carried

FORMAT: Final = "floor"
TASKS: Final = 2
#: As the connector: batches of a megabyte.
BATCH_BYTES: Final = 1 << 20


class FloorSource(DataSource):
    """So many rows of one size, from nowhere."""

    @classmethod
    def name(cls) -> str:
        """What `format` is told."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a record."""
        return (
            "key binary, value binary, topic string, partition int, offset bigint,"
            " timestamp timestamp, timestampType int"
        )

    def reader(self, schema: Any) -> DataSourceReader:
        """All rows at once."""
        return _Reader(int(self.options["size"]), int(self.options["rows"]))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """The rows in micro-batches."""
        limit = self.options.get("limit")
        rows = int(self.options["rows"])
        return _StreamReader(int(self.options["size"]), rows, int(limit) if limit else None)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Counts rows."""
        return _Writer(self.options)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Counts rows."""
        return _StreamWriter(self.options)


def _batches(size: int, rows: int) -> Iterator[Any]:
    import datetime  # noqa: PLC0415 - in the worker

    import pyarrow as pa  # noqa: PLC0415

    at_once = BATCH_BYTES // size
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    batch = pa.record_batch(
        {
            "key": pa.nulls(at_once, pa.binary()),
            "value": pa.array([bytes(size)] * at_once, pa.binary()),
            "topic": pa.array(["a-topic"] * at_once),
            "partition": pa.array([1] * at_once, pa.int32()),
            "offset": pa.array(range(at_once), pa.int64()),
            "timestamp": pa.array([now] * at_once, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * at_once, pa.int32()),
        }
    )
    while rows:
        count = min(rows, at_once)
        yield batch.slice(0, count)
        rows -= count


class _Task(InputPartition):
    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Reader(Carried, DataSourceReader):
    def __init__(self, size: int, rows: int) -> None:
        self._size = size
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [_Task(self._rows // TASKS) for _ in range(TASKS)]

    def read(self, partition: Any) -> Iterator[Any]:
        return _batches(self._size, partition.rows)


class _StreamReader(Carried, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, size: int, rows: int, limit: int | None) -> None:
        self._size = size
        self._rows = rows
        self._limit = limit

    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._limit) if self._limit else ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._rows
        return {"rows": min(start["rows"] + most, self._rows)}

    def prepareForTriggerAvailableNow(self) -> None:
        """The rows are what they are."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Task((end["rows"] - start["rows"]) // TASKS) for _ in range(TASKS)]

    def read(self, partition: Any) -> Iterator[Any]:
        return _batches(self._size, partition.rows)


class _Counting(Carried):
    def __init__(self, options: object) -> None:
        self._options = options  # without any state nothing would be set when it is carried

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        sum(batch.num_rows for batch in iterator)
        return WriterCommitMessage()


class _Writer(_Counting, DataSourceArrowWriter):
    pass


class _StreamWriter(_Counting, DataSourceStreamArrowWriter):
    pass


def _session() -> SparkSession:
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.dataSource.register(FloorSource)
    return spark


def _stream(frame: DataFrame, sink: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = frame.writeStream.format(sink).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


def _workloads(
    spark: SparkSession, size: int, rows: int
) -> Iterator[tuple[str, int, Callable[[], None]]]:
    def source(reader: Any, **options: object) -> DataFrame:
        found: DataFrame = reader.format(FORMAT).options(size=size, rows=rows, **options).load()
        return found

    def made() -> DataFrame:
        value = f"lpad(cast(id as string), {size}, 'x') value"
        return spark.range(rows // 4).selectExpr("cast(id as string) key", value)

    def save(frame: DataFrame, sink: str, mode: str) -> None:
        frame.write.format(sink).mode(mode).save()

    stream = spark.readStream
    yield "batch read", rows, lambda: save(source(spark.read), "noop", "overwrite")
    yield "stream, one batch", rows, lambda: _stream(source(stream), "noop")
    yield "stream, ten batches", rows, lambda: _stream(source(stream, limit=rows // 10), "noop")
    yield (
        "stream, source to sink",
        rows,
        lambda: _stream(source(stream).select("key", "value"), FORMAT),
    )
    yield "rows made, and dropped by Spark", rows // 4, lambda: save(made(), "noop", "overwrite")
    yield "batch write", rows // 4, lambda: save(made(), FORMAT, "append")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_floor", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000, help="of 100 B; a quarter of 1 KB")
    parser.add_argument("--repeat", type=int, default=4, help="the first of them is not counted")
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = _session()
    for size, rows in ((100, arguments.rows), (1024, arguments.rows // 4)):
        for name, count, act in _workloads(spark, size, rows):
            rates = []
            for _ in range(arguments.repeat):
                begin = time.perf_counter()
                act()
                rates.append(count / (time.perf_counter() - begin))
            warm = sorted(rates[1:]) or rates
            print(
                f"{f'{name}, {size} B':42} {statistics.median(warm):12,.0f} rows/s"
                f"  ({warm[0]:,.0f} to {warm[-1]:,.0f})",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main()
