"""Values and keys become columns, rows become records; what cannot be is told in words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession

from tidelog.errors import InvalidConfig
from tidelog_spark.source import SCHEMA_DDL
from tidelog_spark.streams import decode, encode

AT = datetime(2026, 1, 1, tzinfo=UTC)
ORDER = "customer STRING, amount DOUBLE"


def records(spark: SparkSession, *pairs: tuple[bytes | None, bytes | None]) -> DataFrame:
    """Records as `format("tidelog")` reads them."""
    rows = [(key, value, "orders", 0, at, AT, 0) for at, (key, value) in enumerate(pairs)]
    return spark.createDataFrame(rows, SCHEMA_DDL)


def test_the_fields_of_a_value_become_columns(spark: SparkSession) -> None:
    rows = decode(records(spark, (b"7", b'{"customer": "a", "amount": 2.5}')), value=ORDER)
    assert rows.columns == [
        *("customer", "amount", "_malformed", "_key"),
        *("_topic", "_partition", "_offset", "_timestamp", "_timestampType"),
    ]
    found = rows.first()
    assert found is not None
    assert (found.customer, found.amount, found._malformed) == ("a", 2.5, None)
    assert (bytes(found._key), found._topic, found._offset) == (b"7", "orders", 0)


def test_what_does_not_fit_is_kept_as_text(spark: SparkSession) -> None:
    pairs = [
        (None, b'{"customer": "a"}'),
        (None, b"no json"),
        (None, None),
        (None, b'{"amount":"x"}'),
    ]
    rows = decode(records(spark, *pairs), value=ORDER).collect()
    assert [row._malformed for row in rows] == [None, "no json", None, '{"amount":"x"}']
    assert [row.customer for row in rows] == ["a", None, None, None]


def test_what_does_not_fit_may_end_the_query(spark: SparkSession) -> None:
    rows = decode(records(spark, (None, b"no json")), value=ORDER, malformed="fail")
    with pytest.raises(Py4JJavaError, match="MALFORMED_RECORD"):
        rows.collect()


def test_text_and_bytes_keep_the_names_of_the_columns(spark: SparkSession) -> None:
    source = records(spark, (b"\xff", "ü".encode()))
    rows = decode(source, value="string")
    assert rows.columns == source.columns
    found = rows.first()
    assert found is not None
    assert (bytes(found.key), found.value) == (b"\xff", "ü")


def test_a_key_may_have_a_schema_too(spark: SparkSession) -> None:
    rows = decode(records(spark, (b'{"id": 7}', b"{}")), value=ORDER, key="id INT").collect()
    assert [row._key for row in rows] == [Row(id=7)]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("avro", "Avro needs Spark's own extra package"),
        ("json", "JSON needs the schema itself"),
        ("strin", "Did you mean 'string'"),
        ("map<string, int>", "a schema has named fields"),
        ("_offset BIGINT", "belong to the record"),
    ],
)
def test_schemas_that_are_none_are_refused(spark: SparkSession, schema: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        decode(records(spark), value=schema)


def encoded(rows: DataFrame, **wanted: str | list[str]) -> list[tuple[object, object]]:
    """Keys and values of the records that rows become."""
    made = encode(rows, **wanted)  # type: ignore[arg-type]
    return [(row["key"] if len(row) == 2 else None, row["value"]) for row in made.collect()]


def test_rows_become_json_without_what_belongs_to_the_record(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 2, 9)], "customer STRING, n INT, _offset INT")
    [(key, value)] = encoded(rows, key="customer")
    assert key == "a"
    assert json.loads(str(value)) == {"customer": "a", "n": 2}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("n", "2"),
        (["customer", "n"], '{"customer":"a","n":2}'),
        ("place", '{"x":1}'),
        ("raw", bytearray(b"\x00")),
        ([], None),
    ],
)
def test_keys_of_every_kind(spark: SparkSession, key: str | list[str], expected: object) -> None:
    ddl = "customer STRING, n INT, place STRUCT<x: INT>, raw BINARY"
    rows = spark.createDataFrame([("a", 2, (1,), b"\x00")], ddl)
    assert [found for found, _ in encoded(rows, key=key)] == [expected]


def test_names_with_dots_are_names(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 2)], "`x.y` STRING, n INT")
    assert encoded(rows, key="x.y", value="x.y") == [("a", "a")]
    assert encoded(rows, key=["x.y", "n"]) == [('{"x.y":"a","n":2}', '{"x.y":"a","n":2}')]


def test_one_column_may_be_the_value_and_some_rows_deletions(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1), ("b", 0), ("c", None)], "id STRING, n INT")
    assert encoded(rows, key="id", value="n", delete_when="n = 0") == [
        ("a", "1"),
        ("b", None),
        ("c", None),
    ]


def test_a_column_that_is_not_there_is_named(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1)], "customer STRING, n INT")
    with pytest.raises(InvalidConfig, match=r"no column .custmer.\. Did you mean .customer."):
        encode(rows, key="custmer")
    with pytest.raises(InvalidConfig, match="all names begin with '_'"):
        encode(rows.toDF("_a", "_b"))


def test_what_is_written_is_what_is_read(spark: SparkSession) -> None:
    ddl = "n DECIMAL(20, 3), at TIMESTAMP, day DATE, raw BINARY, many ARRAY<STRUCT<x: DOUBLE>>"
    at = datetime(2026, 1, 1, 12, 30, 15, 123_457)
    row = (Decimal("12345678901234567.125"), at, at.date(), b"\x00\xff", [(0.1,), (None,)])
    written = encode(spark.createDataFrame([row], ddl)).first()
    assert written is not None
    back = decode(records(spark, (None, written.value.encode())), value=ddl)
    assert back.select("n", "at", "day", "raw", "many").collect() == [row]
