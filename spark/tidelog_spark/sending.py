"""The rows of one task into topics: Arrow batches in, acknowledged records out.

`writer` calls it on executors. Invariant: when `write_rows` returns every row is acknowledged; when
it raises, its producer is gone, and the message says what may stand in the topic already. There is
no Python object for a row on the way.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import InvalidRecord, TidelogError
from tidelog.producer.column_routing import grouped
from tidelog.producer.producer import Producer
from tidelog.records.plain_arrays import of_numbers
from tidelog_spark.clients import borrowed
from tidelog_spark.commit_messages import TaskIdentity, WrittenRows
from tidelog_spark.worker_heap import spare_imports

if TYPE_CHECKING:
    from tidelog.producer.delivery import Deliveries
    from tidelog_spark.sink_columns import SinkColumns
    from tidelog_spark.sink_options import SinkOptions

#: Rows are handed over in portions of at least this many bytes: keys divide each among partitions,
#: and the last batch of every share is as small as it happens to be.
PORTION_BYTES: Final = 8 * 1024 * 1024


def write_rows(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    columns: SinkColumns,
    identity: TaskIdentity,
) -> WrittenRows:
    """Writes the rows of a task; returns once each of them is acknowledged."""
    portions = _portions(batches)
    first = next(portions, None)
    records = size = 0
    if first is not None:
        with borrowed(Producer, options.bootstrap, **options.settings) as producer:
            sender = RowSender(producer, options.topic, columns)
            try:
                sender.send(first)
                for portion in portions:
                    sender.send(portion)
                sender.finish()
            except BaseException as failure:
                _abandon(producer)
                if isinstance(failure, TidelogError):
                    raise _told(failure, identity, sender.records) from failure
                raise
            records, size = sender.records, sender.bytes
    spare_imports()
    return WrittenRows(
        identity.sink_id, identity.batch_id, identity.partition, identity.attempt, records, size
    )


class RowSender:
    """Hands rows to a producer and looks after their verdicts."""

    def __init__(
        self, producer: Producer[Any, Any], topic: str | None, columns: SinkColumns
    ) -> None:
        self.records = 0
        self.bytes = 0
        self._producer = producer
        self._topic = topic
        self._columns = columns
        self._under_way: deque[Deliveries] = deque()

    def send(self, rows: pa.RecordBatch) -> None:
        """Hands over some rows; raises when earlier ones have failed."""
        if self._topic is not None:
            self._send_to(self._topic, rows)
        else:
            for topic, some in _by_topic(rows):
                self._send_to(topic, some)
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().confirm()

    def finish(self) -> None:
        """Returns when every row is acknowledged, or raises the first failure."""
        while self._under_way:
            self._under_way.popleft().confirm()

    def _send_to(self, topic: str, rows: pa.RecordBatch) -> None:
        columns = self._columns
        value = rows.column("value")
        key = rows.column("key") if columns.key else None
        self.records += rows.num_rows
        self.bytes += _payload_bytes(value) + (0 if key is None else _payload_bytes(key))
        self._under_way.append(
            self._producer.send_columns(
                topic,
                value=value,
                key=key,
                timestamp=_timestamps(rows.column("timestamp")) if columns.timestamp else None,
                headers=_headers(rows.column("headers")) if columns.headers else None,
                partition=_partitions(rows.column("partition")) if columns.partition else None,
            )
        )


def _portions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in larger pieces, empty batches left out."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= PORTION_BYTES:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _by_topic(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in their order."""
    column = rows.column("topic")
    if column.null_count:
        raise InvalidRecord(
            f"The topic of row {column.is_null().index(True).as_py()} is null",
            hint='Fill the column, or give .option("topic", "name") for all rows',
        )
    encoded = column.dictionary_encode()
    for number, some in grouped(encoded.indices.to_numpy()):
        chosen = rows if some is None else rows.take(of_numbers(some, pa.int64()))
        yield encoded.dictionary[number].as_py(), chosen


def _payload_bytes(column: Any) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0


def _timestamps(column: Any) -> Any:
    """A row without a time is written now."""
    if not column.null_count:
        return column
    now = of_numbers(np.array([time.time_ns() // 1_000]), pa.int64())
    return pc.fill_null(column, now.cast(column.type)[0])


def _headers(column: Any) -> Any | None:
    """None where no row has any, which is by far the quickest."""
    return column if len(column.flatten()) else None


def _partitions(column: Any) -> Any | None:
    return None if column.null_count == len(column) else column


def _abandon(producer: Producer[Any, Any]) -> None:
    """Gives up what is under way: the task is run again with all its rows."""
    with contextlib.suppress(TidelogError):
        producer.close(timeout=0)


def _told(failure: TidelogError, identity: TaskIdentity, handed_over: int) -> TidelogError:
    """The failure with what it means for the topic."""
    return TidelogError(
        f"Writing failed in {identity}",
        cause=str(failure),
        hint=f"Up to {handed_over} records of this attempt may stand in the topic already; Spark"
        " runs the task again from its first row, so these may be there twice",
    )
