"""`send_columns`: Arrow columns into batches, without an object for each record.

Both producers step through it. Rows with keys, or with partitions of their own, are split by the
partition of each first; rows without go to one partition after the other, a batch each. Few rows
that are plain go the way of `send_many`, which costs little for each call.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tidelog.engine.places import without_zone
from tidelog.errors import InvalidRecord
from tidelog.producer.delivery import Deliveries
from tidelog.producer.handing_over import checked, to_milliseconds
from tidelog.producer.many import ManyRecords
from tidelog.producer.partitioner import BY_KEY, STICKY
from tidelog.records.columns import loose_columns, timestamp_column
from tidelog.records.few_rows import FEW_ROWS
from tidelog.wording import counted

if TYPE_CHECKING:
    from tidelog.producer.accumulator import TopicRoute
    from tidelog.producer.handing_over import HandingOver
    from tidelog.producer.producer_settings import ProducerSettings
    from tidelog.records.batch import LooseBatch

#: value, key, timestamp, headers
Columns = tuple[Any, Any, Any, Any]
#: Rows are encoded in windows of about this many bytes, so that the buffer can push back. Smaller
#: ones would leave more batches half empty: what keys divide ends in one for each partition.
_WINDOW_BYTES: Final = 8 * 1024 * 1024
_WINDOW_ROWS: Final = 100_000
#: Few rows that are larger gain nothing by it, and would be copied whole beside the buffer.
_FEW_BYTES: Final = 1024 * 1024
#: Columns of these types become bytes or text as Python has it.
_PLAIN_TYPES: Final = frozenset({"binary", "large_binary", "string", "large_string"})


def records_of_columns(
    path: HandingOver[Any, Any],
    route: TopicRoute,
    settings: ProducerSettings,
    columns: Columns,
    partition: Any,
) -> ColumnRecords | ManyRecords:
    """What steps through the rows of one call.

    Most of what Arrow does releases the interpreter's lock, and whoever wants it back waits for
    the thread that sends: for few rows that takes far longer than the rows themselves.
    """
    value, key, timestamp, headers = columns
    value = _sized("value", value)
    key = None if key is None else _sized("key", key)
    headers = None if headers is None else _sized("headers", headers)
    if not (timestamp is None or isinstance(timestamp, int | datetime)):
        timestamp = _milliseconds(_sized("timestamp", timestamp))
    columns = value, key, timestamp, headers
    if (
        headers is None
        and (timestamp is None or isinstance(timestamp, int | datetime))
        and (partition is None or isinstance(partition, int))
        and path._key is None
        and path._value is None
        and _is_plain(value)
        and (key is None or _is_plain(key))
    ):
        with suppress(UnicodeDecodeError):  # text that is none is written as it is, as columns are
            values, keys = value.to_pylist(), None if key is None else key.to_pylist()
            return ManyRecords(path, route, values, keys, timestamp, None, partition)
    return ColumnRecords(path, route, settings, columns, partition)


def partition_column(partition: Any) -> Any:
    """What says where rows go: None, a number, or a column as one Arrow array."""
    if partition is None or isinstance(partition, int):
        return partition
    return _routing().numbers(_sized("partition", partition))


def highest_partition(partition: Any) -> int:
    """The highest partition that `partition_column` has; 0 where it names none."""
    if partition is None or isinstance(partition, int):
        return partition or 0
    return int(_routing().highest(partition))


def _is_plain(column: Any) -> bool:
    """Whether these are few rows of an Arrow column that needs no converting."""
    kind = getattr(column, "type", None)
    return (
        kind is not None
        and len(column) <= FEW_ROWS
        and str(kind) in _PLAIN_TYPES
        and column.nbytes <= _FEW_BYTES
    )


class ColumnRecords:
    """The rows of one call, and how many of them are handed over."""

    def __init__(
        self,
        path: HandingOver[Any, Any],
        route: TopicRoute,
        settings: ProducerSettings,
        columns: Columns,
        partition: Any,
    ) -> None:
        self._accumulator = path._accumulator
        self._partitioner = path._partitioner
        self._settings = settings
        self._route = route
        value, key, timestamp, headers = columns
        if isinstance(partition, int):
            partition = checked(partition, route)
        if isinstance(timestamp, datetime | int):
            timestamp = to_milliseconds(timestamp)
        self._now_ms = int(path._wall_clock() * 1000)
        self._columns = {
            "value": value,
            "key": None if key is None else _routing().key_column(key),
            "timestamp": timestamp,
            "headers": headers,
            "partition": partition,
        }
        self._count = len(value)
        for name, column in self._columns.items():
            if _is_column(column) and len(column) != self._count:
                others = counted(len(column), name.removesuffix("s"))
                raise InvalidRecord(f"There are {counted(self._count, 'value')} and {others}")
        is_one = not _is_column(timestamp)
        self.deliveries = Deliveries(
            (self._now_ms if timestamp is None else timestamp) if is_one else 0,
            None if is_one else timestamp,
        )
        self._batches = self._encoded()

    def step(self) -> bool:
        """Hands over batches while there is room; True when that were all of them."""
        accumulator = self._accumulator
        while True:
            if accumulator.refusal is not None:
                raise copy(accumulator.refusal)
            if not accumulator.has_room():
                return False
            found = next(self._batches, None)
            if found is None:
                return True
            partition, batch = found
            accumulator.add_batch(self._route, partition, batch, self.deliveries)

    def _encoded(self) -> Iterator[tuple[int, LooseBatch]]:
        """Batches with their partitions, window by window."""
        size = getattr(self._columns["value"], "nbytes", 0)
        row_bytes = max(1, size // max(1, self._count))
        step = max(1, min(_WINDOW_ROWS, _WINDOW_BYTES // row_bytes))
        for start in range(0, self._count, step):
            stop = min(start + step, self._count)
            window = {
                name: column[start:stop] if _is_column(column) else column
                for name, column in self._columns.items()
            }
            if window["timestamp"] is None:
                window["timestamp"] = self._now_ms
            for partition, rows in self._split(window, start, stop):
                for batch in loose_columns(
                    rows.pop("value"),
                    **rows,
                    limit_bytes=self._settings.batch_size,
                    compression=self._settings.compression,
                    level=self._settings.compression_level,
                ):
                    yield partition, batch

    def _split(
        self, window: dict[str, Any], start: int, stop: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The rows of a window by the partition they go to."""
        partition, key = window.pop("partition"), window["key"]
        if isinstance(partition, int):
            yield partition, window
            return
        if partition is None and key is None and self._partitioner.kind == BY_KEY:
            yield STICKY, window
            return
        routing = _routing()
        topic, count = self._route.topic, len(self._route.slots)
        chosen = routing.chosen_partitions(self._partitioner, topic, count, key, range(start, stop))
        if partition is not None:
            chosen = routing.named_partitions(partition, topic, count, chosen)
        # Rows without a key keep their place among those with one that go where they go.
        chosen = routing.settled(chosen, self._route.turn)
        for number, rows in routing.grouped(chosen):
            if rows is None:
                self.deliveries.order.append(range(start, stop))
                yield number, window
            else:
                self.deliveries.order.append(rows + start)
                yield number, {name: _chosen(column, rows) for name, column in window.items()}


def _routing() -> Any:
    """Loaded when it is needed: it needs NumPy, which is not needed to send."""
    return importlib.import_module("tidelog.producer.column_routing")


def _is_column(column: Any) -> bool:
    return column is not None and not isinstance(column, int)


def _chosen(column: Any, rows: list[int]) -> Any:
    if not _is_column(column):
        return column
    return column.take(rows) if hasattr(column, "take") else [column[row] for row in rows]


def _milliseconds(timestamp: Any) -> Any:
    """A column of times as milliseconds: the records and their receipts take the same ones."""
    kind = getattr(timestamp, "dtype", None)
    if not hasattr(timestamp, "type") and (kind is None or str(kind) == "object"):
        for time in timestamp:
            if isinstance(time, datetime) and time.tzinfo is None:
                raise without_zone(time)
    return timestamp_column(timestamp)


def _sized(name: str, column: Any) -> Any:
    """A column whose rows can be counted and read again; refuses what is none."""
    is_one = hasattr(column, "as_py") or getattr(column, "shape", None) == ()
    if not is_one and not isinstance(column, Mapping | Set):
        if hasattr(column, "__len__"):
            return column
        if isinstance(column, Iterable):
            return list(column)
    raise InvalidRecord(
        f"{name}={column!r:.80} is no column, but of type {type(column).__name__}",
        hint="Give an Arrow array, or a list of one item for each row",
    )
