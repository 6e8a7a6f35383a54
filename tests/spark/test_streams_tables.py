"""Topics as streams and as tables: what is the row of a key, and when a stream sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tidelog
from spark_kit.topics import Topics
from tidelog.errors import InvalidConfig
from tidelog_spark.source import register
from tidelog_spark.streams import batch, changelog, stream, table, to_topic

USER = "name STRING"


@pytest.fixture(autouse=True)
def _format_is_known(spark: SparkSession) -> None:
    register(spark)


def send(topics: Topics, topic: str, *pairs: tuple[str | None, str | None]) -> None:
    """Records with keys and JSON values that have one field."""
    with tidelog.Producer(topics.bootstrap) as producer:
        for key, name in pairs:
            value = None if name is None else json.dumps({"name": name})
            producer.send(topic, key=key, value=value)


def names(rows: DataFrame) -> dict[str, str]:
    """The names of a table by their keys."""
    return {row._key: row.name for row in rows.collect()}


def test_the_last_record_of_a_key_is_its_row(spark: SparkSession, topics: Topics) -> None:
    users = topics.create(partitions=3)
    send(topics, users, ("a", "Ada"), ("b", "Bo"), (None, "nobody"), ("c", "Cy"))
    send(topics, users, ("a", "Ada II"), ("b", None), ("c", None), ("c", "Cy again"))
    rows = table(spark, users, bootstrap=topics.bootstrap, value=USER)
    assert rows.columns == [
        *("name", "_malformed", "_key", "_topic", "_partition", "_offset", "_timestamp")
    ]
    assert names(rows) == {"a": "Ada II", "c": "Cy again"}


def test_a_key_that_moved_has_the_row_of_its_new_partition(
    spark: SparkSession, topics: Topics
) -> None:
    users = topics.create(partitions=1)
    keys = [f"k{number}" for number in range(12)]
    send(topics, users, *((key, "old") for key in keys for _ in range(3)))
    with tidelog.Admin(topics.bootstrap) as admin:
        admin.create_partitions(users, 4)
    send(topics, users, *((key, "new") for key in keys))
    rows = table(spark, users, bootstrap=topics.bootstrap, value=USER)
    assert names(rows) == dict.fromkeys(keys, "new")


def test_each_batch_of_a_stream_sees_the_table_of_then(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    users, clicks, out = topics.create(partitions=1), topics.create(partitions=1), topics.create()
    send(topics, users, ("a", "Ada"))
    incoming = stream(spark, clicks, bootstrap=topics.bootstrap, key="string")
    known = table(spark, users, bootstrap=topics.bootstrap, value=USER)
    joined = incoming.join(known, incoming.key == known._key, "left").select("key", "name")
    query = to_topic(
        joined, out, bootstrap=topics.bootstrap, checkpoint=str(tmp_path), key="key", value="name"
    ).start()
    try:
        send(topics, clicks, ("a", "click"), ("b", "click"))
        query.processAllAvailable()
        send(topics, users, ("a", "Ada II"), ("b", "Bo"))
        send(topics, clicks, ("a", "click"), ("b", "click"))
        query.processAllAvailable()
    finally:
        query.stop()
    written = [(record.key, record.value) for record in topics.records(out)]
    assert len(written) == 4
    assert set(written) == {(b"a", b"Ada"), (b"a", b"Ada II"), (b"b", b"Bo"), (b"b", None)}


def test_a_topic_goes_into_another_as_it_is(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, out = topics.create(), topics.create()
    with tidelog.Producer(topics.bootstrap) as producer:
        producer.send(source, key=b"\xff\x00", value=b"\x00\xfe")
        producer.send(source, key=None, value=b"")
        producer.send(source, key=b"", value=None)
    rows = stream(spark, source, bootstrap=topics.bootstrap)
    writer = to_topic(
        *(rows, out), bootstrap=topics.bootstrap, checkpoint=str(tmp_path), key="key", value="value"
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    assert {(one.key, one.value) for one in topics.records(out)} == {
        (b"\xff\x00", b"\x00\xfe"),
        (None, b""),
        (b"", None),
    }


def test_what_chooses_topics_is_one_thing(spark: SparkSession, topics: Topics) -> None:
    name = topics.create()
    send(topics, name, ("a", "Ada"))
    chosen = batch(
        spark, None, bootstrap=topics.bootstrap, options={"subscribePattern": f"{name}$"}
    )
    assert chosen.count() == 1
    with pytest.raises(InvalidConfig, match="topics are chosen by one thing"):
        batch(spark, name, bootstrap=topics.bootstrap, options={"assign": "{}"})
    with pytest.raises(InvalidConfig, match="topics are chosen by one thing"):
        stream(spark, "", bootstrap=topics.bootstrap)


def test_a_changelog_needs_a_key_that_is_there(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1)], "id STRING, n INT")
    where: dict[str, Any] = {"bootstrap": "127.0.0.1:1", "checkpoint": "nowhere"}
    with pytest.raises(InvalidConfig, match="a changelog needs a key"):
        changelog(rows, "out", key=[], **where)
    with pytest.raises(InvalidConfig, match="no column 'idd'"):
        changelog(rows, "out", key="idd", **where)
