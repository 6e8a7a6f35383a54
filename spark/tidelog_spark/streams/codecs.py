"""Bytes of a record into typed columns, and rows back into key and value.

`topics.py` and `sinks.py` call these; they work on any DataFrame with the columns of
`format("tidelog")`. Invariant: the fields of a value keep their own names, and everything else
that belongs to the record begins with an underscore, so that the two never meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean

#: Text, bytes, or the schema of a JSON document: a StructType, or Spark's DDL.
Schema = str | StructType
Malformed = Literal["keep", "fail"]

#: Holds a JSON text that did not fit its schema.
MALFORMED: Final = "_malformed"
#: A JSON field of this name is Spark's, where the text went.
OWN_PREFIX: Final = "_"
#: Kinds of columns that become JSON where text is wanted.
NESTED: Final = frozenset({"struct", "array", "map", "variant"})
#: Spark writes times to the millisecond unless it is told, and keeps microseconds.
EXACT: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
NOT_HERE: Final = {
    "avro": "Avro needs Spark's own extra package: read the value as 'binary' and apply its"
    " from_avro",
    "protobuf": "Protobuf needs Spark's own extra package: read the value as 'binary' and apply"
    " its from_protobuf",
    "json": "JSON needs the schema itself, such as 'user STRING, at TIMESTAMP'",
}


def decode(
    records: DataFrame,
    *,
    value: Schema = "binary",
    key: Schema = "binary",
    malformed: Malformed = "keep",
) -> DataFrame:
    """Records with typed keys and values.

    `value` and `key` are "binary", "string", or the schema of a JSON document, as DDL or as a
    StructType. With a schema the fields of the value become columns, and the record's own columns
    begin with an underscore: `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`, and
    `_malformed`, which holds the text of a value that does not fit the schema. `malformed="fail"`
    ends the query there instead. Without a schema the columns keep their names.
    """
    if malformed not in ("keep", "fail"):
        raise InvalidConfig(f"malformed={malformed!r} is neither 'keep' nor 'fail'")
    structure = _structure(value)
    key_column = _decoded(sql.col("key"), key)
    if structure is None:
        return records.withColumns(
            {"key": key_column, "value": _decoded(sql.col("value"), value)},
        )
    _refuse_own_names(structure)
    own = [name for name in records.columns if name not in ("key", "value")]
    parsed = records.select(
        key_column.alias(f"{OWN_PREFIX}key"),
        *(sql.col(name).alias(f"{OWN_PREFIX}{name}") for name in own),
        _parsed(structure, malformed).alias("_parsed"),
    )
    kept = [name for name in parsed.columns if name != "_parsed"]
    return parsed.select("_parsed.*", *kept)


def encode(
    rows: DataFrame,
    *,
    key: str | Sequence[str] = (),
    value: str = "",
    delete_when: str = "",
) -> DataFrame:
    """Rows as records: the columns `key` and `value`, as `format("tidelog")` writes them.

    The key is one column as it is, text for numbers and times, or a JSON object of several. The
    value is the named column, or a JSON object of all whose names do not begin with an underscore;
    it is null where the SQL condition `delete_when` holds.
    """
    names = [key] if isinstance(key, str) else list(key)
    for name in [*names, *([value] if value else [])]:
        if name not in rows.columns:
            hint = did_you_mean(name, rows.columns) or f"It has {', '.join(rows.columns)}."
            raise InvalidConfig(f"the rows have no column '{name}'. {hint}")
    columns = [] if not names else [_as_key(rows, names).alias("key")]
    content = _as_value(rows, value)
    if delete_when:
        content = sql.when(sql.expr(delete_when), sql.lit(None)).otherwise(content)
    return rows.select(*columns, content.alias("value"))


def _structure(schema: Schema) -> StructType | None:
    """The schema of a JSON document; None for text and bytes."""
    if isinstance(schema, StructType):
        return schema
    word = schema.strip().lower()
    if word in ("binary", "string"):
        return None
    if word in NOT_HERE:
        raise InvalidConfig(f"'{schema}' cannot be decoded as it stands: {NOT_HERE[word]}.")
    if len(word.split()) == 1 and ":" not in word:
        hint = did_you_mean(word, ("binary", "string"))
        told = hint or "It is 'binary', 'string', or a schema such as 'user STRING, at TIMESTAMP'."
        raise InvalidConfig(f"'{schema}' is no way to decode. {told}")
    structure = DataType.fromDDL(schema)
    if not isinstance(structure, StructType):
        raise InvalidConfig(
            f"'{schema}' is one type; a schema has named fields, as 'user STRING, at TIMESTAMP'"
        )
    return structure


def _refuse_own_names(structure: StructType) -> None:
    taken = [name for name in structure.names if name.startswith(OWN_PREFIX)]
    if taken:
        raise InvalidConfig(
            f"the schema has a field '{taken[0]}', and names that begin with '_' belong to the"
            " record. Read the value as 'string' and take such fields from it with from_json."
        )


def _decoded(column: Column, schema: Schema) -> Column:
    structure = _structure(schema)
    if structure is not None:
        return sql.from_json(column.cast("string"), structure)
    return column.cast("string") if str(schema).strip().lower() == "string" else column


def _parsed(structure: StructType, malformed: Malformed) -> Column:
    text = sql.col("value").cast("string")
    if malformed == "fail":
        return sql.from_json(text, structure, {"mode": "FAILFAST"})
    with_text = StructType([*structure.fields]).add(MALFORMED, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    return sql.from_json(text, with_text, options)


def _as_key(rows: DataFrame, names: list[str]) -> Column:
    if len(names) > 1:
        return sql.to_json(sql.struct(*map(_named, names)), EXACT)
    return _as_bytes_or_text(rows.schema[names[0]].dataType, _named(names[0]))


def _as_value(rows: DataFrame, value: str) -> Column:
    if value:
        return _as_bytes_or_text(rows.schema[value].dataType, _named(value))
    fields = [name for name in rows.columns if not name.startswith(OWN_PREFIX)]
    if not fields:
        raise InvalidConfig("the rows have no column to write: all names begin with '_'")
    return sql.to_json(sql.struct(*map(_named, fields)), EXACT)


def _named(name: str) -> Column:
    """The column of exactly this name, dots and all."""
    quoted = name.replace("`", "``")
    return sql.col(f"`{quoted}`")


def _as_bytes_or_text(kind: DataType, column: Column) -> Column:
    if isinstance(kind, BinaryType | StringType):
        return column
    return sql.to_json(column, EXACT) if kind.typeName() in NESTED else column.cast("string")
