"""The columns of a DataFrame that become records: which there are, and of which types.

Writers check a schema here before any task runs. Invariant: rows of a schema that passed can be
written, whatever they hold, but for a null topic, an impossible time or an unknown partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.errors import InvalidRequest
from tidelog.nearest import nearest

HEADERS_DDL: Final = "array<struct<key: string, value: binary>>"
#: Columns of a record that was read, which the topic it is written to decides anew.
_DECIDED_BY_THE_TOPIC: Final = ("offset", "timestampType")


def _is_payload(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column has to be."""

    fits: Callable[[DataType], bool]
    types: str
    hint: str


_COLUMNS: Final = {
    "key": _Column(_is_payload, "string or binary", "cast it: CAST(key AS STRING)"),
    "value": _Column(_is_payload, "string or binary", "cast it, or make text of it: to_json(...)"),
    "topic": _Column(lambda kind: isinstance(kind, StringType), "string", "cast it to string"),
    "partition": _Column(lambda kind: isinstance(kind, IntegerType), "int", "cast it to int"),
    "timestamp": _Column(
        lambda kind: isinstance(kind, TimestampType),
        "timestamp",
        "cast it to timestamp: timestamp_millis(...) makes one of milliseconds",
    ),
    "headers": _Column(_is_headers, HEADERS_DDL, "name the fields key and value"),
}


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Which of the columns there are; `value` always is."""

    key: bool = False
    topic: bool = False
    partition: bool = False
    timestamp: bool = False
    headers: bool = False


def sink_columns(schema: StructType, topic: str | None) -> SinkColumns:
    """The columns of a DataFrame; `topic` is the option's. Raises in words what can't be written.

    Other columns are left out, as Spark's Kafka connector does, unless one looks like a slip.
    """
    fields = {field.name: field for field in schema.fields}
    for name, column in _COLUMNS.items():
        if name in fields and not column.fits(fields[name].dataType):
            raise _wrong_type(fields[name], column)
    for name in fields:
        _refuse_slip(name, fields)
    if "value" not in fields:
        raise InvalidRequest(
            f"There is no column 'value' among {_listed(fields)}: it is what a record holds",
            hint="For example df.selectExpr('CAST(id AS STRING) AS key', 'to_json(...) AS value')",
        )
    if topic is None and "topic" not in fields:
        raise InvalidRequest(
            "Nothing says which topic to write to",
            hint='Give .option("topic", "name"), or a column named topic',
        )
    optional = {name: name in fields for name in _COLUMNS if name != "value"}
    return SinkColumns(**optional)


def _wrong_type(field: StructField, column: _Column) -> InvalidRequest:
    return InvalidRequest(
        f"The column {field.name!r} has the type {field.dataType.simpleString()}, and has to be"
        f" {column.types}",
        hint=column.hint[0].upper() + column.hint[1:],
    )


def _refuse_slip(name: str, fields: dict[str, StructField]) -> None:
    if name in _COLUMNS or name in _DECIDED_BY_THE_TOPIC:
        return
    meant = nearest(name, _COLUMNS)
    if meant is not None and meant not in fields:
        raise InvalidRequest(
            f"The column {name!r} would not be written",
            hint=f"Did you mean '{meant}'? Drop the column if not",
        )


def _listed(fields: dict[str, StructField]) -> str:
    return ", ".join(repr(name) for name in fields) or "no columns at all"
