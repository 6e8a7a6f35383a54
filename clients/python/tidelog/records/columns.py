"""Whole columns in and out of record batches: Arrow arrays, or what Arrow makes arrays of.

Columnar consumers and `send_columns` come here; `decoder` and `builder` are the ways for single
records. Needs NumPy and pyarrow, which are loaded at the first call. Invariant: what comes out of
`decode_columns` equals what `decode_records` gives for the same bytes, and `encode_columns` writes
what `BatchBuilder` would.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.errors import InvalidRequest, TidelogError
from tidelog.records.batch import NO_PRODUCER, LooseBatch
from tidelog.records.compression import Compression
from tidelog.records.source import DECOMPRESSED_LIMIT_BYTES, BatchBody, BatchSource

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: What `decode_columns` gives when it is not told; and all that it can give.
DEFAULT_COLUMNS: Final = ("key", "value", "offset", "timestamp")
COLUMNS: Final = (*DEFAULT_COLUMNS, "timestamp_type", "headers")

DEFAULT_LIMIT_BYTES: Final = 1024 * 1024
_BEYOND_ALL_OFFSETS: Final = 2**63 - 1


def decode_columns(  # noqa: PLR0913 - what to read and how: each stands for itself
    buffer: Buffer,
    topic: str = "",
    partition: int = -1,
    *,
    span: tuple[int, int] | None = None,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    include_headers: bool = False,
    start_offset: int = 0,
    end_offset: int | None = None,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    check_crc: bool = True,
) -> Any:
    """The records of the batches in `buffer`, or in a span of it, as a `pyarrow.RecordBatch`.

    Records from `start_offset` up to and without `end_offset`; control batches are left out. The
    fewer `columns`, the faster. Keys and values are `binary`, offsets `int64`, timestamps
    microseconds in UTC, headers a list (never null) of `struct<key: string, value: binary>`;
    topic and partition serve the words of an error. Raises as `decode_records` does.
    """
    names = (*columns, "headers") if include_headers and "headers" not in columns else (*columns,)
    source = BatchSource(
        topic, partition, start_offset=start_offset, limit_bytes=limit_bytes, check_crc=check_crc
    )
    end = _BEYOND_ALL_OFFSETS if end_offset is None else end_offset
    whole = buffer if isinstance(buffer, bytes) else bytes(buffer)
    span = span or (0, len(whole))
    rows, _ = decode_part(source, whole, span, columns=names, end_offset=end)
    return rows


def decode_part(
    source: BatchSource,
    data: bytes,
    span: tuple[int, int],
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    end_offset: int = _BEYOND_ALL_OFFSETS,
    room_bytes: int = sys.maxsize,
) -> tuple[Any, int]:
    """The first batches of a span of `data`, and where in it the rest of them begins.

    As many batches as it takes until their records, decompressed, fill `room_bytes`: what a
    megabyte of batches holds may be a hundred of them. Otherwise as `decode_columns`.
    """
    names = (*columns,)
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or len(set(names)) != len(names):
        raise InvalidRequest(
            f"The columns {list(names)} are not possible", hint=f"Once each of {list(COLUMNS)}"
        )
    decode_bodies = _loaded("column_decoder").decode_bodies
    bodies, rest = _wanted_bodies(source, data, span, (end_offset, room_bytes))
    return decode_bodies(source, bodies, names, end_offset), rest


def encode_columns(
    value: Any,
    *,
    timestamp: Any,
    key: Any = None,
    headers: Any = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    compression: Compression = Compression.NONE,
    level: int | None = None,
) -> list[bytes]:
    """The record batches that hold the rows of these columns, in order.

    The batches carry no producer identity; `set_producer` gives them one. The rest is as with
    `loose_columns`, which spares a copy.
    """
    batches = loose_columns(
        value,
        timestamp=timestamp,
        key=key,
        headers=headers,
        limit_bytes=limit_bytes,
        compression=compression,
        level=level,
    )
    return [b"".join(batch.sealed(NO_PRODUCER)) for batch in batches]


def loose_columns(
    value: Any,
    *,
    timestamp: Any,
    key: Any = None,
    headers: Any = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    compression: Compression = Compression.NONE,
    level: int | None = None,
) -> Iterator[LooseBatch]:
    """The rows of these columns as batches that have no header yet, in order.

    `value` and `key` are Arrow arrays (binary, string, any width, views, chunked, with nulls) or
    sequences of bytes and None; `timestamp` is a column of milliseconds or Arrow timestamps, or
    one number for all rows; `headers` a column of lists of pairs. A batch takes at
    most `limit_bytes` before compression, unless one record alone is larger. Raises
    `InvalidRecord` or `InvalidTimestamp` for columns that are none.
    """
    encoder = _loaded("column_encoder")
    rows = encoder.Rows(value, key=key, timestamp=timestamp, headers=headers)
    batches: Iterator[LooseBatch] = encoder.encode_rows(rows, limit_bytes, compression, level)
    return batches


def timestamp_column(column: Any) -> Any:
    """A column of times as checked milliseconds, as the records of its rows will carry them."""
    return _loaded("rows").timestamp_column(column)


def _wanted_bodies(
    source: BatchSource, whole: bytes, span: tuple[int, int], limits: tuple[int, int]
) -> tuple[list[BatchBody], int]:
    """The records of batches up to an end offset, or a size; and where the rest begins."""
    bodies = []
    position, end = span
    end_offset, room_bytes = limits
    while position < end and room_bytes > 0:
        header = source.header(whole, position)
        if source.is_wanted(header) and header.base_offset < end_offset:
            body = source.body(whole, position, header)
            bodies.append(body)
            room_bytes -= body.end - body.start
        position += header.size
    return bodies, position


def _loaded(name: str) -> Any:
    try:
        return importlib.import_module(f"tidelog.records.{name}")
    except ModuleNotFoundError as error:
        raise TidelogError(
            "Columns of records need NumPy and pyarrow",
            cause=str(error),
            hint="Install both: pip install numpy pyarrow",
        ) from error
