"""Reading as users do it, in Spark: batch, stream, restarts, limits, losses and errors.

What should come out is read past Spark, from the broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_kit.reading import AvailableNow, expected, rows_of, source
from spark_kit.topics import Topics
from support.eventually import eventually
from tidelog.admin.admin import Admin
from tidelog.model import TopicPartition
from tidelog.producer.producer import Producer
from tidelog.records.compression import Compression
from tidelog_spark import register
from tidelog_spark.listener import TidelogProgressListener

TIMES = 1_700_000_000_000


def fill(topics: Topics, topic: str, first: int, count: int, partition: int = 0) -> None:
    """Sends numbers as values, each with its number as time after the first."""
    with Producer(topics.bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(
                topic, value=b"%d" % number, partition=partition, timestamp=TIMES + number
            )


@pytest.fixture
def numbers(topics: Topics) -> str:
    """A topic with 0 to 59 in one partition and 60 to 79 in the other."""
    topic = topics.create(retention_ms="-1")
    fill(topics, topic, 0, 60)
    fill(topics, topic, 60, 20, partition=1)
    return topic


def values(rows: list[dict[str, Any]]) -> list[int]:
    """The numbers that were sent, in order."""
    return sorted(int(row["value"]) for row in rows)


@pytest.fixture
def mixed(topics: Topics) -> str:
    """A topic with nulls, empty values, headers, large values, and every compression."""
    topic = topics.create()
    for number, codec in enumerate(Compression):
        with Producer(topics.bootstrap, compression=codec.name.lower()) as producer:  # type: ignore[arg-type] # a codec's name
            for key, value in ((None, b"v"), (b"", b""), (b"k", None), (b"key", bytes(20_000))):
                headers = [("a", b"1"), ("b", None), ("a", b"")] if key else []
                producer.send(topic, key=key, value=value, headers=headers, partition=number % 2)
    return topic


def test_a_batch_is_what_stands_in_the_log(spark: SparkSession, topics: Topics, mixed: str) -> None:
    with_headers = source(spark, topics.bootstrap, mixed, includeHeaders="true")
    assert rows_of(with_headers) == expected(topics.records(mixed))
    without = source(spark, topics.bootstrap, mixed)
    assert rows_of(without) == expected(topics.records(mixed), headers=False)


def test_a_stream_is_what_stands_in_the_log(
    spark: SparkSession, topics: Topics, mixed: str, tmp_path: Path
) -> None:
    (batch,) = AvailableNow(spark, topics.bootstrap, tmp_path, mixed).run(includeHeaders="true")
    assert batch == expected(topics.records(mixed))


def test_a_user_schema_path_and_sql(spark: SparkSession, topics: Topics, numbers: str) -> None:
    reader = spark.read.format("tidelog").option("bootstrap.servers", topics.bootstrap)
    frame = reader.schema("value string, offset bigint").load(numbers)
    assert [frame.count(), frame.columns] == [80, ["value", "offset"]]
    assert frame.where("value = '61'").select("offset").collect()[0][0] == 1
    source(spark, topics.bootstrap, numbers).createOrReplaceTempView("numbers")
    counted = spark.sql("SELECT partition, count(*) AS n FROM numbers GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in counted.collect()] == [(0, 60), (1, 20)]


def test_from_here_to_there(spark: SparkSession, topics: Topics, numbers: str) -> None:
    offsets = {
        "startingOffsets": f'{{"{numbers}": {{"0": 50, "1": -2}}}}',
        "endingOffsets": f'{{"{numbers}": {{"0": -1, "1": 5}}}}',
    }
    frame = source(spark, topics.bootstrap, numbers, **offsets)
    assert values(rows_of(frame)) == [*range(50, 65)]
    times = {"startingTimestamp": str(TIMES + 55), "endingTimestamp": str(TIMES + 63)}
    frame = source(spark, topics.bootstrap, numbers, **times, minPartitions="6")
    assert values(rows_of(frame)) == [*range(55, 63)]
    assert frame.rdd.getNumPartitions() == 6


def test_filters_are_pushed_and_exact(spark: SparkSession, topics: Topics, numbers: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = source(spark, topics.bootstrap, numbers, pushFilters="true")
        late = F.timestamp_millis(F.lit(TIMES + 57))
        found = frame.where((F.col("timestamp") >= late) & (F.col("partition") == 0))
        assert values(rows_of(found)) == [57, 58, 59]
        assert found.rdd.getNumPartitions() == 1
        frame = source(spark, topics.bootstrap, numbers, pushFilters="true")
        assert values(rows_of(frame.where("offset < 2 OR value IS NULL"))) == [0, 1, 60, 61]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_frame_is_planned_once_and_another_load_sees_what_came_since(
    spark: SparkSession, topics: Topics, numbers: str
) -> None:
    """That is Spark's way with sources in Python; docs/spark-reading.md says it."""
    frame = source(spark, topics.bootstrap, numbers)
    assert frame.count() == 80
    fill(topics, numbers, 80, 5)
    assert frame.count() == 80
    assert source(spark, topics.bootstrap, numbers).count() == 85
    late = source(spark, topics.bootstrap, numbers, endingOffsets="latest-each-read")
    assert late.count() == 85
    fill(topics, numbers, 85, 5)
    assert late.count() == 90


def test_a_registration_beside_the_automatic_one(
    spark: SparkSession, topics: Topics, numbers: str
) -> None:
    register(spark)
    assert source(spark, topics.bootstrap, numbers).count() == 80


def test_a_stream_goes_on_where_it_stopped(
    spark: SparkSession, topics: Topics, numbers: str, tmp_path: Path
) -> None:
    stream = AvailableNow(spark, topics.bootstrap, tmp_path, numbers)
    assert [values(batch) for batch in stream.run()] == [[*range(80)]]
    assert stream.run() == []
    fill(topics, numbers, 80, 5)
    with Admin(topics.bootstrap) as admin:
        admin.create_partitions(numbers, 3)
    fill(topics, numbers, 90, 5, partition=2)
    assert [values(batch) for batch in stream.run()] == [[*range(80, 85), *range(90, 95)]]


def test_micro_batches_within_the_limit(
    spark: SparkSession, topics: Topics, numbers: str, tmp_path: Path
) -> None:
    stream = AvailableNow(spark, topics.bootstrap, tmp_path, numbers)
    batches = stream.run(maxOffsetsPerTrigger="40", maxRecordsPerPartition="7")
    assert [len(batch) for batch in batches] == [40, 40]
    assert values([row for batch in batches for row in batch]) == [*range(80)]
    first = stream.progress[0].sources[0]
    assert '"0": 30, "1": 10' in first.endOffset
    assert '"0": 60, "1": 20' in first.latestOffset


def test_a_running_stream_tells_its_lag(
    spark: SparkSession, topics: Topics, numbers: str, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    listener = TidelogProgressListener(lambda one: told.append((one.rows, one.lag_total)))
    spark.streams.addListener(listener)
    frame = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .options(startingOffsets="earliest", maxOffsetsPerTrigger="40")
        .load(numbers)
    )
    query = (
        frame.writeStream.format("memory")
        .queryName("lagging")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        fill(topics, numbers, 80, 5)
        query.processAllAvailable()
        assert values(rows_of(spark.table("lagging"))) == [*range(85)]
        # Spark tells its listeners from a thread of its own, by and by.
        eventually(lambda: sum(rows for rows, _ in told) >= 85, waiting_for="the last progress")
    finally:
        query.stop()
        spark.streams.removeListener(listener)
        spark.catalog.dropTempView("lagging")
    lags = [lag for rows, lag in told if rows]
    assert lags[:2] == [40, 0]
    assert sum(rows for rows, _ in told) == 85


def test_lost_data_fails_a_stream_or_is_passed_over(
    spark: SparkSession, topics: Topics, numbers: str, tmp_path: Path
) -> None:
    stream = AvailableNow(spark, topics.bootstrap, tmp_path, numbers)
    stream.run()
    fill(topics, numbers, 80, 20)
    with Admin(topics.bootstrap) as admin:
        admin.delete_records({TopicPartition(numbers, 0): 70})
    with pytest.raises(PySparkException, match=f"{numbers}-0 begins at offset 70") as raised:
        stream.run()
    assert "failOnDataLoss=false" in str(raised.value)
    assert [values(batch) for batch in stream.run(failOnDataLoss="false")] == [[*range(90, 100)]]


def test_a_topic_made_anew_fails_a_stream_or_is_read_from_its_beginning(
    spark: SparkSession, topics: Topics, numbers: str, tmp_path: Path
) -> None:
    stream = AvailableNow(spark, topics.bootstrap, tmp_path, numbers)
    stream.run()
    with Admin(topics.bootstrap) as admin:
        admin.delete_topic(numbers)
    topics.create_named(numbers, retention_ms="-1")
    fill(topics, numbers, 500, 100)
    with pytest.raises(PySparkException, match="deleted and created anew"):
        stream.run()
    assert [values(batch) for batch in stream.run(failOnDataLoss="false")] == [[*range(500, 600)]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "topik-that-is-not"}, "'topik-that-is-not' does not exist"),
        ({"subscribe": "x", "startingOffsets": '{"x": '}, "is no JSON"),
        ({"subscribe": "x", "startingOfsets": "earliest"}, "Did you mean 'startingOffsets'"),
        ({"subscribe": "x", "includeHeader": "true"}, "Did you mean 'includeHeaders'"),
        ({}, "Nothing says what to read"),
        (
            {
                "subscribe": "x",
                "bootstrap.servers": "127.0.0.1:1",
                "kafka.default.api.timeout.ms": "500",
            },
            "None of the brokers could be reached \\(127.0.0.1:1\\)",
        ),
    ],
)
def test_errors_in_sparks_output_say_what_to_do(
    spark: SparkSession, topics: Topics, options: dict[str, str], words: str
) -> None:
    reader = spark.read.format("tidelog")
    if "bootstrap.servers" not in options:
        reader = reader.option("kafka.bootstrap.servers", topics.bootstrap)
    with pytest.raises(PySparkException, match=words):
        reader.options(**options).load().count()


def test_a_schema_that_records_do_not_have(
    spark: SparkSession, topics: Topics, numbers: str
) -> None:
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", topics.bootstrap)
    with pytest.raises(PySparkException, match=r"no column 'valeu'\. Did you mean 'value'"):
        reader.schema("valeu binary").load(numbers).count()
