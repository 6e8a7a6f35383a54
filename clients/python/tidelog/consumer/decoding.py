"""Fetched bytes into records and columns, slice by slice, in the thread that reads.

`FetchedBatch` and the consumers' iteration decode here. Invariant: few records live at once
(a batch is decoded as it is read, whatever its size), and a batch that can't be read is named by
topic, partition and offsets, with the offset where the reader can go on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic

from tidelog.consumer.record_types import (
    ConsumerRecord,
    Deserializers,
    Key,
    TypedRecord,
    Value,
)
from tidelog.errors import CorruptMessage, MessageTooLarge, TidelogError, UnsupportedCompression
from tidelog.model import TopicPartition
from tidelog.records import COMPILED
from tidelog.records.batch import HEADER_BYTES, BatchHeader, batch_headers, read_header
from tidelog.records.columns import COLUMNS, decode_columns, decode_part
from tidelog.records.decoder import append_records, decode_batch
from tidelog.records.record import Record
from tidelog.records.source import DECOMPRESSED_LIMIT_BYTES, BatchBody, BatchSource

if TYPE_CHECKING:
    from tidelog.consumer.fetched import Pushed

#: Records that are decoded at once: few enough to stay in the processor's cache.
SLICE_RECORDS: Final = 512

#: What columns are given unless the caller names others, and all that can be named.
DEFAULT_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
ALL_COLUMNS: Final = ("topic", "partition", *COLUMNS)

_UNREADABLE: Final = (CorruptMessage, MessageTooLarge, UnsupportedCompression)


class UnreadableBatch(CorruptMessage):
    """A batch whose inside is not what it should be; the reader can go on at `next_offset`."""

    def __init__(self, error: TidelogError, source: BatchSource, place: tuple[int, int]) -> None:
        position, next_offset = place
        super().__init__(
            error.message, cause=error.cause, hint=f"consumer.skip(error) goes on at {next_offset}"
        )
        self.topic = source.topic
        self.partition = source.partition
        self.next_offset = next_offset
        #: Where the batch begins in the bytes that were fetched.
        self.position = position


class Decoding(Generic[Key, Value]):
    """How a consumer decodes: one for all its batches."""

    __slots__ = ("check_crc", "deserializers", "limit_bytes")

    def __init__(
        self,
        deserializers: Deserializers[Key, Value],
        *,
        check_crc: bool = True,
        limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    ) -> None:
        self.deserializers = deserializers
        self.check_crc = check_crc
        self.limit_bytes = limit_bytes

    # ------------------------------------------------------------------ records

    def slices(self, pushed: Pushed) -> Iterator[list[ConsumerRecord[Key, Value]]]:
        """The records from the pushed base offset on, in lists that belong to the caller."""
        slices = _before(pushed.next_offset, self._plain_slices(pushed))
        if not self.deserializers.are_needed:
            return slices  # type: ignore[return-value] # then Key and Value are bytes
        deserializers = self.deserializers
        return (_typed(plain, deserializers) for plain in slices)

    def _plain_slices(self, pushed: Pushed) -> Iterator[list[Record]]:
        data = pushed.data
        source = self._source(pushed)
        records: list[Record] = []
        position = pushed.begin
        while position < pushed.end:
            try:
                header = source.header(data, position)
                if source.is_wanted(header) and not COMPILED:
                    records += self._whole_batch(source, data, position)
                    if len(records) >= SLICE_RECORDS:
                        yield records
                        records = []
                elif source.is_wanted(header):
                    body = source.body(data, position, header)
                    left = header.record_count
                    while left:
                        count = min(left, SLICE_RECORDS)
                        _append(records, source, body, count)
                        left -= count
                        if len(records) >= SLICE_RECORDS:
                            yield records
                            records = []
                    if body.start != body.end:
                        raise source.corrupt(header, "bytes follow the last record")
            except _UNREADABLE as error:
                if records:
                    yield records
                raise self._unreadable(error, source, pushed, position) from error
            position += header.size
        if records:
            yield records

    def _source(self, pushed: Pushed) -> BatchSource:
        name = pushed.state.name
        return BatchSource(
            name.topic,
            name.partition,
            start_offset=pushed.base_offset,
            limit_bytes=self.limit_bytes,
            check_crc=self.check_crc,
        )

    def _whole_batch(self, source: BatchSource, data: bytes, position: int) -> list[Record]:
        """One batch by the pure codec, which is fast where it has all of it."""
        return decode_batch(
            data,
            source.topic,
            source.partition,
            position=position,
            start_offset=source.start_offset,
            limit_bytes=self.limit_bytes,
            check_crc=False,
        )

    @staticmethod
    def _unreadable(
        error: TidelogError, source: BatchSource, pushed: Pushed, position: int
    ) -> UnreadableBatch:
        """The error for the batch at a position, with the offset of the one after it."""
        header = BatchHeader(pushed.data, position)
        after = position + header.size
        if pushed.end - after >= HEADER_BYTES:
            next_offset = read_header(pushed.data, after).base_offset
        else:
            next_offset = max(header.next_offset, source.start_offset + 1)
        return UnreadableBatch(error, source, (position, next_offset))

    def count(self, pushed: Pushed) -> int:
        """How many records there are; decodes batches only where a part of them is wanted."""
        counted = 0
        for header in batch_headers(pushed.data, pushed.begin, pushed.end):
            if header.next_offset <= pushed.base_offset or header.is_control:
                continue
            if (
                header.base_offset >= pushed.base_offset
                and header.next_offset <= pushed.next_offset
            ):
                counted += header.record_count
            else:
                within = _before(pushed.next_offset, self._plain_slices(pushed))
                return sum(len(records) for records in within)
        return counted

    # ------------------------------------------------------------------ columns

    def columns(self, pushed: Pushed, names: Sequence[str] = DEFAULT_COLUMNS) -> Any:
        """A `pyarrow.RecordBatch` of the records from the pushed base offset on."""
        rows, _ = self.some_columns(pushed, names, sys.maxsize)
        return rows

    def some_columns(
        self, pushed: Pushed, names: Sequence[str], room_bytes: int
    ) -> tuple[Any, int]:
        """As `columns`, of the first batches that fill so many bytes; where the others begin."""
        name = pushed.state.name
        own = [column for column in names if column not in ("topic", "partition")]
        try:
            decoded, rest = decode_part(
                self._source(pushed),
                pushed.data,
                (pushed.begin, pushed.end),
                columns=own or ["offset"],
                end_offset=pushed.next_offset,
                room_bytes=room_bytes,
            )
        except _UNREADABLE as error:
            raise self._named_by_records(pushed, error) from error
        return (decoded if len(own) == len(names) else _with_place(decoded, names, name)), rest

    def table(self, rows: list[Any], names: tuple[str, ...]) -> Any:
        """A `pyarrow.Table` of record batches of these columns, also of none."""
        if not rows:
            own = [name for name in names if name not in ("topic", "partition")]
            empty = decode_columns(b"", columns=own or ["offset"])
            rows = [_with_place(empty, names, TopicPartition("", 0))]
        import pyarrow as pa  # noqa: PLC0415 - needed for columns alone, and slow to import

        return pa.Table.from_batches(rows)

    def _named_by_records(self, pushed: Pushed, error: Exception) -> Exception:
        """The error as the reader of records would meet it, who knows the batch it is about."""
        try:
            for _ in self.slices(pushed):
                pass
        except UnreadableBatch as unreadable:
            return unreadable
        return error


def _append(records: list[Record], source: BatchSource, body: BatchBody, count: int) -> None:
    """Appends the next records of a batch; what is malformed is named with its place."""
    try:
        append_records(records, body, count)
    except (IndexError, UnicodeDecodeError, CorruptMessage) as error:
        why = f"a record in it is malformed ({error})"
        raise source.corrupt(body.header, why) from error


def _typed(
    plain: list[Record], deserializers: Deserializers[Key, Value]
) -> list[ConsumerRecord[Key, Value]]:
    typed: list[TypedRecord[Key, Value]] = [TypedRecord(record, deserializers) for record in plain]
    return typed  # type: ignore[return-value] # the list is the caller's alone


def _before(end_offset: int, slices: Iterator[list[Record]]) -> Iterator[list[Record]]:
    """Leaves out the records from an offset on."""
    for records in slices:
        if records[-1].offset < end_offset:
            yield records
            continue
        within = [record for record in records if record.offset < end_offset]
        if within:
            yield within
        return


def _with_place(decoded: Any, names: Sequence[str], place: TopicPartition) -> Any:
    """Adds the columns that are the same in each row."""
    import numpy as np  # noqa: PLC0415 - needed for columns alone, and slow to import
    import pyarrow as pa  # noqa: PLC0415

    from tidelog.records.plain_arrays import of_numbers  # noqa: PLC0415

    rows = decoded.num_rows
    schema = _placed_schema(tuple(names))
    made: dict[str, Any] = {}
    if "partition" in names:
        made["partition"] = of_numbers(np.full(rows, place.partition, np.int32), pa.int32())
    if "topic" in names:
        indices = of_numbers(np.zeros(rows, np.int32), pa.int32())
        made["topic"] = pa.DictionaryArray.from_arrays(indices, _one_name(place.topic), safe=False)
    arrays = [made[name] if name in made else decoded.column(name) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@lru_cache(maxsize=128)
def _one_name(topic: str) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - needed for columns alone, and slow to import

    from tidelog.records.plain_arrays import of_bytes  # noqa: PLC0415

    return of_bytes([topic.encode()], pa.string())


@lru_cache(maxsize=128)
def _placed_schema(names: tuple[str, ...]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - needed for columns alone, and slow to import

    from tidelog.records.column_decoder import SCHEMA  # noqa: PLC0415

    same = {
        "topic": pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        "partition": pa.field("partition", pa.int32(), nullable=False),
    }
    return pa.schema([same.get(name) or SCHEMA.field(name) for name in names])
