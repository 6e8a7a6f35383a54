"""The columns of a DataFrame: which are written, which left out, which refused and how."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.errors import InvalidRequest
from tidelog_spark.sink_columns import SinkColumns, sink_columns

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def schema(**columns: DataType) -> StructType:
    """Columns of these types, in this order."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_what_was_read_can_be_written() -> None:
    read = schema(
        timestampType=IntegerType(),
        headers=HEADERS,
        timestamp=TimestampType(),
        offset=LongType(),
        partition=IntegerType(),
        topic=StringType(),
        value=BinaryType(),
        key=BinaryType(),
    )
    assert sink_columns(read, None) == SinkColumns(
        key=True, topic=True, partition=True, timestamp=True, headers=True
    )


def test_the_value_is_enough_where_an_option_names_the_topic() -> None:
    assert sink_columns(schema(value=StringType()), "orders") == SinkColumns()


def test_other_columns_are_left_out() -> None:
    found = sink_columns(schema(value=StringType(), customer=LongType(), day=LongType()), "orders")
    assert found == SinkColumns()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (schema(key=StringType()), "no column 'value' among 'key'"),
        (schema(), "no columns at all"),
        (schema(vlaue=StringType()), "Did you mean 'value'"),
        (schema(value=StringType(), Key=StringType()), "'Key' would not be written.*'key'"),
        (schema(value=LongType()), "'value' has the type bigint, and has to be string or binary"),
        (schema(value=StringType(), key=LongType()), r"Cast it: CAST\(key AS STRING\)"),
        (schema(value=StringType(), topic=BinaryType()), "'topic' has the type binary"),
        (schema(value=StringType(), partition=LongType()), "has to be int"),
        (schema(value=StringType(), timestamp=LongType()), "timestamp_millis"),
        (schema(value=StringType(), timestamp=TimestampNTZType()), "has to be timestamp"),
        (schema(value=StringType(), headers=StringType()), "array<struct<key: string"),
        (
            schema(value=StringType(), headers=ArrayType(StructType([]))),
            "array<struct<key: string",
        ),
    ],
)
def test_what_cannot_be_written_is_said(columns: StructType, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        sink_columns(columns, "orders")


def test_some_topic_has_to_be_named() -> None:
    with pytest.raises(InvalidRequest, match="Nothing says which topic"):
        sink_columns(schema(value=StringType()), None)
