"""Fetched batches into the Arrow batches that Spark wants, column by column.

`reader` hands each fetch to a `RowShape`, which knows the schema. Columns that are the same in
every row are made once and cut to length; those that nobody asked for are not decoded. Invariant:
the batches equal the schema's Arrow form exactly, since Spark checks only the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.errors import InvalidRequest, SerializationFailed
from tidelog.model import TopicPartition
from tidelog.nearest import did_you_mean
from tidelog.records.plain_arrays import of_bytes, of_numbers
from tidelog_spark.options import RowOptions

if TYPE_CHECKING:
    from tidelog.consumer.batch import FetchedBatch

    Batch = FetchedBatch[bytes, bytes]

_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
#: What each column may be declared as.
TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "offset": (LongType(),),
    "timestamp": (TimestampType(),),
    "timestamptype": (IntegerType(),),
    "headers": (_HEADERS,),
}
#: Columns under the names that the client has for them.
_CLIENTS_NAMES: Final = {"timestamptype": "timestamp_type"}
_CONSTANT: Final = ("topic", "partition")


class _Place:
    """Which rows of what was fetched are converted."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.rows_before = 0


class RowShape:
    """How records become rows of one schema. It can be pickled."""

    def __init__(self, schema: StructType, options: RowOptions) -> None:
        _check(schema)
        self._schema = schema
        self._options = options

    @cached_property
    def _arrow_schema(self) -> Any:
        return to_arrow_schema(self._schema, timezone="UTC")

    @cached_property
    def _columns(self) -> list[str]:
        return [field.name.lower() for field in self._schema.fields]

    @cached_property
    def _decoded(self) -> tuple[str, ...]:
        """What has to be decoded; something always has, for the number of rows."""
        names = [_CLIENTS_NAMES.get(name, name) for name in self._columns if name not in _CONSTANT]
        return tuple(names) or ("offset",)

    def __getstate__(self) -> dict[str, object]:
        return {"_schema": self._schema, "_options": self._options}

    def batches(self, fetched: Iterator[Batch]) -> Iterator[Any]:
        """The rows of what was fetched of one partition, in pieces of the wanted size."""
        constants: dict[str, Any] = {}
        for batch in fetched:
            place = _Place(batch)
            for decoded in batch.arrow_parts(self._decoded):
                if decoded.num_rows:
                    yield from self._pieces(self._rows(decoded, place, constants))
                    place.rows_before += decoded.num_rows

    def _pieces(self, rows: Any) -> Iterator[Any]:
        by_bytes = -(-rows.nbytes // self._options.bytes_max)
        by_rows = -(-rows.num_rows // self._options.rows_max)
        count = min(rows.num_rows, max(by_bytes, by_rows))
        if count == 1:
            yield rows
            return
        edges = [rows.num_rows * index // count for index in range(count + 1)]
        for first, last in pairwise(edges):
            yield rows.slice(first, last - first)

    def _rows(self, decoded: Any, place: _Place, constants: dict[str, Any]) -> Any:
        arrays = []
        for name, field in zip(self._columns, self._arrow_schema, strict=True):
            if name in _CONSTANT:
                arrays.append(_constant(name, place.batch, decoded.num_rows, constants))
                continue
            array = decoded.column(_CLIENTS_NAMES.get(name, name))
            if array.type != field.type:
                array = self._converted(name, array, field.type, place)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    def _converted(self, name: str, array: Any, wanted: Any, place: _Place) -> Any:
        if name == "headers":
            return _headers(array, wanted)
        try:
            return array.cast(wanted)
        except pa.ArrowInvalid:
            valid = [value is None or _is_utf8(value) for value in array.to_pylist()]
        if not self._options.null_on_invalid_utf8:
            raise _not_utf8(name, place, valid.index(False))
        import pyarrow.compute as pc  # noqa: PLC0415 - 70 ms that hardly any reader needs

        return pc.if_else(pa.array(valid), array, None).cast(wanted)


def _constant(name: str, batch: Batch, rows: int, constants: dict[str, Any]) -> Any:
    """A column with the same in every row: made once for the partition, and again when longer."""
    made = constants.get(name)
    if made is None or len(made) < rows:
        make: dict[str, Callable[[], Any]] = {
            "topic": lambda: of_bytes([batch.topic.encode()], pa.string()),
            "partition": lambda: of_numbers(np.array([batch.partition], np.int32), pa.int32()),
        }
        made = constants[name] = pa.repeat(make[name]()[0], rows)
    return made.slice(0, rows)


def _headers(array: Any, wanted: Any) -> Any:
    """The same lists under the names that Spark has for their parts."""
    pairs = pa.StructArray.from_arrays(array.values.flatten(), fields=list(wanted.value_type))
    return pa.ListArray.from_arrays(array.offsets, pairs, type=wanted)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _not_utf8(name: str, place: _Place, row: int) -> SerializationFailed:
    batch = place.batch
    offset = batch.to_arrow(["offset"]).column(0)[place.rows_before + row].as_py()
    partition = TopicPartition(batch.topic, batch.partition)
    return SerializationFailed(
        f"The {name} of {partition} at offset {offset} is not UTF-8, but declared as string",
        hint=f"Declare `{name} binary`, or set onInvalidUtf8=null to make such ones null",
    )


def _check(schema: StructType) -> None:
    """Refuses what can't be read: other columns, other types, a column twice."""
    seen: set[str] = set()
    for field in schema.fields:
        name = field.name.lower()
        if name not in TYPES:
            near = did_you_mean(name, TYPES) or f"There are {', '.join(TYPES)}"
            raise InvalidRequest(f"Records have no column {field.name!r}", hint=near)
        if name in seen:
            raise InvalidRequest(f"The column {field.name!r} is there twice")
        seen.add(name)
        if not any(_same(field.dataType, possible) for possible in TYPES[name]):
            possible = " or ".join(one.simpleString() for one in TYPES[name])
            raise InvalidRequest(
                f"The column {field.name!r} is declared as {field.dataType.simpleString()}",
                hint=f"It can be {possible}; cast it after reading",
            )
    if not seen:
        raise InvalidRequest("The schema has no columns", hint=f"There are {', '.join(TYPES)}")


def _same(declared: DataType, possible: DataType) -> bool:
    """Whether two types are the same but for what may be null."""
    return declared.simpleString() == possible.simpleString()
