"""DataFrames written to topics: every column as it was, every row once, and errors in words."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_kit.topics import Topics
from tidelog.producer.partitioner import partition_of_key


def save(frame: DataFrame, topics: Topics, options: Mapping[str, str] | None = None) -> None:
    """Appends the rows to what the options name."""
    writer = frame.write.format("tidelog").mode("append")
    writer.option("kafka.bootstrap.servers", topics.bootstrap).options(**(options or {})).save()


def test_every_column_arrives_as_it_was(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    rows = spark.sql(
        """
        SELECT IF(id % 3 = 0, NULL, CAST(id AS STRING)) AS key,
               timestamp_millis(1700000000000 + id) AS timestamp,
               CASE WHEN id % 5 = 0 THEN NULL WHEN id % 5 = 1 THEN X''
                    ELSE CAST(CONCAT('value ', id) AS BINARY) END AS value,
               IF(id % 4 = 0, ARRAY(), ARRAY(NAMED_STRUCT('key', 'number', 'value',
                   IF(id % 4 = 1, NULL, CAST(CAST(id AS STRING) AS BINARY))))) AS headers,
               IF(id % 7 = 0, 2, NULL) AS partition,
               id AS offset
        FROM RANGE(500)
        """
    )
    save(rows, topics, {"topic": topic})
    found = {
        record.timestamp - 1_700_000_000_000: (partition, record)
        for partition in range(3)
        for record in topics.records(topic, partition)
    }
    assert sorted(found) == list(range(500))
    for number, (partition, record) in found.items():
        key = None if number % 3 == 0 else b"%d" % number
        value = {0: None, 1: b""}.get(number % 5, b"value %d" % number)
        assert (record.key, record.value) == (key, value)
        if number % 4 == 0:
            assert record.headers == ()
        else:
            given = None if number % 4 == 1 else b"%d" % number
            assert record.headers == (("number", given),)
        if number % 7 == 0:
            assert partition == 2
        elif key is not None:
            assert partition == partition_of_key(key, 3)


def test_rows_choose_their_topics_unless_the_option_does(
    spark: SparkSession, topics: Topics
) -> None:
    first, second, third = (topics.create() for _ in range(3))
    rows = spark.range(100).selectExpr(
        f"IF(id % 2 = 0, '{first}', '{second}') AS topic", "CAST(id AS STRING) AS value"
    )
    save(rows, topics)
    save(rows, topics, {"topic": third})
    assert sorted(topics.values(first)) == sorted(str(n) for n in range(0, 100, 2))
    assert sorted(topics.values(second)) == sorted(str(n) for n in range(1, 100, 2))
    assert sorted(topics.values(third)) == sorted(str(n) for n in range(100))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression_and_settings_of_kafka_are_obeyed(
    spark: SparkSession, topics: Topics, compression: str
) -> None:
    topic = topics.create(partitions=1)
    options = {"kafka.compression.type": compression, "kafka.batch.size": "10000"}
    rows = spark.range(2_000).coalesce(1).selectExpr("CAST(id AS STRING) AS value")
    save(rows, topics, {**options, "topic": topic, "kafka.acks": "-1", "kafka.linger.ms": "0"})
    assert topics.values(topic) == [str(n) for n in range(2_000)]


def test_a_frame_without_rows_writes_nothing(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    save(spark.range(0).selectExpr("'x' AS value"), topics, {"topic": topic})
    assert topics.records(topic) == []


def test_rows_without_a_time_are_written_now(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=1)
    rows = spark.sql("SELECT 'x' AS value, CAST(NULL AS TIMESTAMP) AS timestamp")
    save(rows, topics, {"topic": topic})
    (record,) = topics.records(topic)
    assert record.timestamp > 1_700_000_000_000


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id AS value", {}, "'value' has the type bigint, and has to be string or binary"),
        ("'x' AS value, 1L AS partition", {}, "'partition' has the type bigint"),
        ("'x' AS key", {}, "no column 'value' among 'key'"),
        ("'x' AS value, 'k' AS kye", {}, "Did you mean 'key'"),
        ("'x' AS value", {"topic": ""}, "'topic' is empty"),
        ("'x' AS value", {"topc": "t"}, "no option 'topc' for writing. Did you mean 'topic'"),
        ("'x' AS value", {"deliveryGuarantee": "exactly_once"}, "needs transactions"),
        ("'x' AS value", {"kafka.lingr.ms": "1"}, "linger.ms"),
    ],
)
def test_what_is_wrong_is_said_before_any_task_runs(
    spark: SparkSession, topics: Topics, columns: str, options: dict[str, str], words: str
) -> None:
    rows = spark.range(1).selectExpr(*columns.split(", "))
    with pytest.raises(PySparkException) as caught:
        save(rows, topics, {"topic": "none", **options})
    assert words in str(caught.value)


def test_overwriting_is_refused(spark: SparkSession, topics: Topics) -> None:
    rows = spark.range(1).selectExpr("'x' AS value")
    writer = rows.write.format("tidelog").mode("overwrite")
    writer = writer.option("kafka.bootstrap.servers", topics.bootstrap).option("topic", "t")
    with pytest.raises(PySparkException, match="records of a topic are never replaced"):
        writer.save()


def test_a_row_that_cannot_be_written_is_named_with_what_may_be_there_twice(
    spark: SparkSession, topics: Topics
) -> None:
    rows = spark.sql("SELECT 'x' AS value, CAST(NULL AS STRING) AS topic")
    with pytest.raises(PySparkException, match="The topic of row 0 is null"):
        save(rows, topics)
    topic = topics.create(partitions=2)
    rows = spark.sql("SELECT 'x' AS value, 2 AS partition")
    with pytest.raises(PySparkException, match="has no partition 2: it has 2") as caught:
        save(rows, topics, {"topic": topic})
    assert "may stand in the topic already" in str(caught.value)


def test_a_cluster_that_is_not_there_is_named(spark: SparkSession, topics: Topics) -> None:
    rows = spark.range(1).selectExpr("'x' AS value")
    options = {"kafka.max.block.ms": "300", "topic": "t"}
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1"):
        save(rows, Topics("127.0.0.1:1"), options)
