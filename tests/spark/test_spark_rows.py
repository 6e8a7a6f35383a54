"""Records into rows, without Spark: every record, key, header and time, under every compression.

The reader is driven as Spark drives it; what should come out is read past it, from the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from spark_kit.reading import expected, read_without_spark, rows, schema_of
from spark_kit.topics import Topics
from tidelog.admin.admin import Admin
from tidelog.errors import InvalidRequest, RequestTimedOut, SerializationFailed
from tidelog.model import TopicPartition
from tidelog.producer.producer import Producer
from tidelog.records.compression import Compression
from tidelog_spark.clients import close_clients
from tidelog_spark.columns import RowShape
from tidelog_spark.data_loss import DataLoss
from tidelog_spark.options import RowOptions
from tidelog_spark.reader import batch_reader
from tidelog_spark.tasks import RangePartition

SMALL_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), SMALL_BYTES), max_size=3)
RECORDS = st.lists(
    st.tuples(SMALL_BYTES, SMALL_BYTES, HEADERS, st.integers(0, 1_700_000_000_000)),
    min_size=1,
    max_size=40,
)


@pytest.fixture(autouse=True)
def _no_client_left() -> Iterator[None]:
    yield
    close_clients()


def options_of(topics: Topics, topic: str, **options: str) -> dict[str, str]:
    """The options of a read of one topic."""
    return {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic} | options


@pytest.mark.parametrize("compression", [codec.name.lower() for codec in Compression])
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS)
def test_every_record_comes_out_as_it_stands_in_the_log(
    topics: Topics,
    compression: str,
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]],
) -> None:
    topic = topics.create(retention_ms="-1")
    with Producer(topics.bootstrap, compression=compression) as producer:  # type: ignore[arg-type] # a codec's name
        for index, (key, value, headers, timestamp) in enumerate(records):
            producer.send(
                topic,
                key=key,
                value=value,
                headers=headers,
                timestamp=timestamp,
                partition=index % 2,
            )
    read = rows(read_without_spark(options_of(topics, topic)))
    assert read == expected(topics.records(topic))
    assert len(read) == len(records)


def test_large_and_empty_values_and_many_small_batches(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    sizes = [0, 1, 12, 13, 100, 70_000, 0, 900_000]
    with Producer(topics.bootstrap) as producer:
        for size in sizes:
            producer.send(topic, value=bytes(size), key=b"k" * (size % 7))
            producer.flush()
    assert rows(read_without_spark(options_of(topics, topic))) == expected(topics.records(topic))


def test_times_of_the_broker(topics: Topics) -> None:
    topic = topics.create(message_timestamp_type="LogAppendTime")
    with Producer(topics.bootstrap) as producer:
        producer.send_many(topic, values=[b"a", b"b"], partition=0)
    read = rows(read_without_spark(options_of(topics, topic)))
    assert read == expected(topics.records(topic))
    assert {row["timestampType"] for row in read} == {1}


@pytest.fixture
def numbers(topics: Topics) -> str:
    """A topic with 100 values in one partition."""
    topic = topics.create(partitions=1)
    with Producer(topics.bootstrap) as producer:
        producer.send_many(topic, values=[b"%d" % number for number in range(100)])
    return topic


def test_batches_are_as_large_as_asked(topics: Topics, numbers: str) -> None:
    by_rows = read_without_spark(options_of(topics, numbers, batchRows="30"))
    assert [batch.num_rows for batch in by_rows] == [25] * 4
    by_bytes = read_without_spark(options_of(topics, numbers, batchBytes="1k"))
    assert len(by_bytes) > 4
    assert rows(by_rows) == rows(by_bytes) == expected(topics.records(numbers))


def test_a_schema_of_some_columns_in_any_order_and_case(topics: Topics, numbers: str) -> None:
    schema = schema_of("Value string", "offset")
    read = read_without_spark(options_of(topics, numbers), schema)
    assert [name for batch in read for name in batch.schema.names] == ["Value", "offset"]
    assert rows(read) == [{"Value": str(number), "offset": number} for number in range(100)]


def test_a_schema_of_what_is_the_same_in_every_row(topics: Topics, numbers: str) -> None:
    read = read_without_spark(options_of(topics, numbers), schema_of("partition", "topic"))
    assert rows(read) == [{"partition": 0, "topic": numbers}] * 100


def test_what_is_no_text_is_named_or_null(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    with Producer(topics.bootstrap) as producer:
        producer.send_many(topic, values=[b"good", None, b"\xff bad", b"good too"])
    schema = schema_of("value string")
    with pytest.raises(SerializationFailed, match=f"value of {topic}-0 at offset 2 is not UTF-8"):
        read_without_spark(options_of(topics, topic), schema)
    read = read_without_spark(options_of(topics, topic, onInvalidUtf8="null"), schema)
    assert [row["value"] for row in rows(read)] == ["good", None, None, "good too"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["valeu int"], "no column 'valeu'. Did you mean 'value'"),
        (["offset bigint", "OFFSET bigint"], "'OFFSET' is there twice"),
        (["value int"], "'value' is declared as int. It can be binary or string"),
        (["offset int"], "It can be bigint"),
    ],
)
def test_a_schema_that_records_do_not_have_is_refused(columns: list[str], words: str) -> None:
    kinds = {"int": IntegerType(), "bigint": LongType()}
    fields = []
    for column in columns:
        name, _, kind = column.partition(" ")
        fields.append(StructField(name, kinds[kind]))
    with pytest.raises(InvalidRequest, match=words):
        RowShape(StructType(fields), RowOptions())


def test_an_empty_schema_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no columns"):
        RowShape(StructType([]), RowOptions())


def test_tasks_read_their_ranges_alone(topics: Topics, numbers: str) -> None:
    options = options_of(topics, numbers, maxRecordsPerPartition="7")
    reader = batch_reader(options, schema_of())
    tasks = list(reader.partitions())
    assert len(tasks) == 15
    assert rows(read_without_spark(options)) == expected(topics.records(numbers))


def test_a_late_end_is_where_the_log_ends_when_a_task_reads(topics: Topics, numbers: str) -> None:
    reader = batch_reader(
        options_of(topics, numbers, endingOffsets="latest-each-read"), schema_of("value")
    )
    (task,) = reader.partitions()
    with Producer(topics.bootstrap) as producer:
        producer.send(numbers, value=b"late")
    assert sum(batch.num_rows for batch in reader.read(task)) == 101
    empty = topics.create(partitions=1)
    nothing = options_of(topics, empty, endingOffsets="latest-each-read")
    assert read_without_spark(nothing) == []


def test_a_task_of_a_topic_that_was_made_anew_reads_nothing_of_the_new(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    options = options_of(topics, topic)
    with Producer(topics.bootstrap) as producer:
        producer.send_many(topic, values=[b"old"] * 3)
    assert len(rows(read_without_spark(options))) == 3  # the worker knows the old topic now
    reader = batch_reader(options, schema_of())
    (task,) = reader.partitions()
    with Admin(topics.bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1)
    with Producer(topics.bootstrap) as producer:
        producer.send_many(topic, values=[b"new"] * 4)
    with pytest.raises(DataLoss, match="deleted and created anew"):
        list(reader.read(task))
    lenient = batch_reader(options | {"failOnDataLoss": "false"}, schema_of())
    assert list(lenient.read(task)) == []
    assert [row["value"] for row in rows(read_without_spark(options))] == [b"new"] * 4


def test_records_that_were_deleted_meanwhile(topics: Topics, numbers: str) -> None:
    options = options_of(topics, numbers)
    reader = batch_reader(options, schema_of("offset"))
    (task,) = reader.partitions()
    with Admin(topics.bootstrap) as admin:
        admin.delete_records({TopicPartition(numbers, 0): 40})
    with pytest.raises(DataLoss, match=f"{numbers}-0 begins at offset 40: the records from 0"):
        list(reader.read(task))
    lenient = batch_reader(options | {"failOnDataLoss": "false"}, schema_of("offset"))
    assert rows(lenient.read(task)) == [{"offset": offset} for offset in range(40, 100)]


def test_a_log_that_ends_before_the_range(topics: Topics, numbers: str) -> None:
    task = RangePartition(TopicPartition(numbers, 0), _id_of(topics, numbers), 500, 600)
    reader = batch_reader(options_of(topics, numbers), schema_of("offset"))
    with pytest.raises(DataLoss, match="ends at offset 100, before 500"):
        list(reader.read(task))


def test_a_log_that_stands_still_before_the_end_of_the_range(topics: Topics, numbers: str) -> None:
    task = RangePartition(TopicPartition(numbers, 0), _id_of(topics, numbers), 90, 200)
    options = options_of(topics, numbers) | {"kafkaConsumer.pollTimeoutMs": "50ms"}
    with pytest.raises(RequestTimedOut, match=f"No record of {numbers}-0 from offset 100 on"):
        list(batch_reader(options, schema_of("offset")).read(task))


def test_a_partition_that_was_added_after_the_worker_knew_the_topic(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    with Producer(topics.bootstrap) as producer:
        producer.send(topic, value=b"first")
    assert len(rows(read_without_spark(options_of(topics, topic)))) == 1
    with Admin(topics.bootstrap) as admin:
        admin.create_partitions(topic, 3)
    with Producer(topics.bootstrap) as producer:
        producer.send(topic, value=b"second", partition=2)
    read = rows(read_without_spark(options_of(topics, topic)))
    assert [row["value"] for row in read] == [b"first", b"second"]


def test_what_records_weigh_bounds_tasks(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    with Producer(topics.bootstrap) as producer:
        for _ in range(20):
            producer.send_many(topic, values=[bytes(1_000)] * 50)
            producer.flush()
    options = options_of(topics, topic, maxBytesPerPartition="100k")
    tasks = list(batch_reader(options, schema_of("offset")).partitions())
    assert 9 <= len(tasks) <= 11
    assert len(rows(read_without_spark(options))) == 1_000


def _id_of(topics: Topics, topic: str) -> str:
    with Admin(topics.bootstrap) as admin:
        return admin.describe_topic(topic).topic_id.hex()


def test_what_is_large_once_decompressed_is_decoded_part_by_part(topics: Topics) -> None:
    """A fetch of a few kilobytes may hold a hundred megabytes: they are never there at once."""
    topic = topics.create(partitions=1)
    value = b"a" * 100_000
    with Producer(topics.bootstrap, compression="zstd", batch_size="1 MiB") as producer:
        producer.send_many(topic, values=[value] * 600).confirm()
        producer.send(topic, value=b"\xff").result()
    most_bytes, offsets = 0, []
    before = pa.total_allocated_bytes()
    for batch in read_lazily(topics, topic, "value", "offset"):
        offsets += batch.column(1).to_pylist()
        most_bytes = max(most_bytes, pa.total_allocated_bytes() - before)
    assert offsets == list(range(601))
    assert most_bytes < 30 << 20

    with pytest.raises(SerializationFailed, match="offset 600 is not UTF-8"):
        list(read_lazily(topics, topic, "value string"))


def read_lazily(topics: Topics, topic: str, *columns: str) -> Iterator[Any]:
    """What the only task of a read gives."""
    reader = batch_reader(options_of(topics, topic), schema_of(*columns))
    (task,) = reader.partitions()
    return iter(reader.read(task))
