"""What was fetched of one partition at once: as records, as values, or as Arrow columns.

`Consumer.batches()` yields these. Nothing is decoded before it is asked for. Invariant: a batch
holds exactly the records from `base_offset` up to and without `next_offset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic

from tidelog.consumer.decoding import DEFAULT_COLUMNS, Decoding
from tidelog.consumer.record_types import ConsumerRecord, Key, Value

if TYPE_CHECKING:
    from tidelog.consumer.fetched import Pushed
    from tidelog.model import TopicId


class FetchedBatch(Generic[Key, Value]):
    """The records of one partition that came with one fetch."""

    __slots__ = ("_decoding", "_pushed")

    def __init__(self, pushed: Pushed, decoding: Decoding[Key, Value]) -> None:
        self._pushed = pushed
        self._decoding = decoding

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._pushed.state.name.topic

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self._pushed.state.name.partition

    @property
    def topic_id(self) -> TopicId:
        """The identity of the topic: another one of the same name has another."""
        return self._pushed.state.topic_id

    @property
    def base_offset(self) -> int:
        """The offset from which on the records were wanted."""
        return self._pushed.base_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self._pushed.next_offset

    @property
    def size_bytes(self) -> int:
        """What was fetched, as it is stored: compressed where it is."""
        return self._pushed.size_bytes

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        return chain.from_iterable(self._decoding.slices(self._pushed))

    def __len__(self) -> int:
        return self._decoding.count(self._pushed)

    def records(self) -> list[ConsumerRecord[Key, Value]]:
        """All records in a list; raises `UnreadableBatch` if one of them can't be read."""
        return list(self)

    def values(self) -> list[Value | None]:
        """The values alone."""
        return [record.value for record in self]

    def to_arrow(self, columns: Sequence[str] = DEFAULT_COLUMNS) -> Any:
        """A `pyarrow.RecordBatch`; the fewer columns, the faster.

        There are topic, partition, offset, timestamp, timestamp_type, key, value and headers. Keys
        and values stay bytes: deserializers are for records. Needs NumPy and pyarrow.
        """
        return self._decoding.columns(self._pushed, columns)

    def arrow_parts(
        self, columns: Sequence[str] = DEFAULT_COLUMNS, *, part_bytes: int = 4 << 20
    ) -> Iterator[Any]:
        """The same rows in several record batches, each decompressed when it is asked for.

        A part ends behind the batch whose records fill `part_bytes`: what was fetched may be a
        hundred times as large once it is decompressed.
        """
        pushed = self._pushed
        while True:
            rows, position = self._decoding.some_columns(pushed, columns, part_bytes)
            yield rows
            if position >= pushed.end:
                return
            _, pushed = pushed.split(position)

    def __repr__(self) -> str:
        return (
            f"FetchedBatch(topic={self.topic!r}, partition={self.partition},"
            f" base_offset={self.base_offset}, next_offset={self.next_offset},"
            f" size_bytes={self.size_bytes})"
        )
