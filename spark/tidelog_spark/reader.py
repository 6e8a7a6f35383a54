"""Reads ranges of records on executors, and plans a batch read on the driver.

Spark pickles the reader into each task and calls `read` there. Invariant: a task ends only at the
end of its range; a log that stands still, has lost records of the range or belongs to another topic
is an error (or a warning, failOnDataLoss=false), never a shorter result.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tidelog.errors import OffsetOutOfRange, RequestTimedOut, UnknownTopicId
from tidelog_spark.batch_planning import plan_batch
from tidelog_spark.clients import borrowed_consumer
from tidelog_spark.cluster_logs import ClusterLogs
from tidelog_spark.columns import RowShape
from tidelog_spark.data_loss import DataLossPolicy
from tidelog_spark.filters import Bounds
from tidelog_spark.options import SourceOptions, batch_options
from tidelog_spark.tasks import RangePartition
from tidelog_spark.worker_heap import spare_imports
from tidelog_spark.worker_socket import Carried

if TYPE_CHECKING:
    from tidelog_spark.columns import Batch

logger = logging.getLogger(__name__)

#: What the consumers of tasks are told unless an option says otherwise: answers of some batches,
#: since each costs what a megabyte of records does before its first, and some of them on their way.
#: The leader knows where the range ends and sends nothing behind it.
READ_SETTINGS: Final[dict[str, object]] = {
    "client_id": "tidelog-spark",
    "fetch_max_bytes": 4 << 20,
    "max_partition_fetch_bytes": 4 << 20,
    "prefetch_bytes": 16 << 20,
}


class RangeReader(Carried):
    """Reads the range of a task as Arrow batches. It can be pickled."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._shape = RowShape(schema, options.rows)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task."""
        if not isinstance(partition, RangePartition):
            return iter(())  # what Spark makes of no tasks at all
        return self._rows(partition)

    def _rows(self, task: RangePartition) -> Iterator[Any]:
        yield from self._shape.batches(self._fetched(task))
        spare_imports()

    def _fetched(self, task: RangePartition) -> Iterator[Batch]:
        """What is fetched of the range; begins anew where the worker knew an older topic."""
        position = task.start
        is_second = False
        while task.end is None or position < task.end:
            try:
                for batch in self._fetched_once(task, position):
                    if batch.topic_id.hex() != task.topic_id:
                        self._policy.recreated(batch.topic, task.topic_id, batch.topic_id.hex())
                        return
                    yield batch
                    position = batch.next_offset
                return
            except UnknownTopicId:
                if is_second:
                    raise
                is_second = True
            except OffsetOutOfRange as error:
                position = self._after_loss(task, position, error)

    @property
    def _policy(self) -> DataLossPolicy:
        return DataLossPolicy(fails=self._options.fail_on_data_loss)

    def _fetched_once(self, task: RangePartition, position: int) -> Iterator[Batch]:
        options = self._options
        settings = READ_SETTINGS | dict(options.consumer_settings)
        with borrowed_consumer(options.bootstrap, **settings) as consumer:
            until = "end" if task.end is None else task.end
            consumer.assign({task.partition: position}, until=until)
            yield from consumer.batches(timeout=options.read_timeout_ms / 1000)
            reached = consumer.position(task.partition)
            if task.end is not None and reached < task.end:
                raise RequestTimedOut(
                    f"No record of {task.partition} from offset {reached} on came in"
                    f" {options.read_timeout_ms / 1000:g} s, although the log goes on to"
                    f" {task.end}",
                    hint="Does its leader live? kafkaConsumer.pollTimeoutMs sets the time",
                )
            consumer.unassign()

    def _after_loss(self, task: RangePartition, position: int, error: OffsetOutOfRange) -> int:
        """Where to go on when the log does not hold the position any more."""
        logs = ClusterLogs(self._options.bootstrap, self._options.admin_settings)
        log_start = logs.starts([task.partition])[task.partition]
        if log_start > position:
            self._policy.deleted_by_retention(task.partition, position, log_start)
            return log_start
        log_end = logs.ends([task.partition])[task.partition]
        if log_end >= position:
            raise error
        self._policy.cut_away(task.partition, position, log_end)
        return task.end or log_end


class TidelogReader(DataSourceReader):
    """Reads topics once, from here to there."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._reader = RangeReader(options, schema)
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, as the logs are now."""
        logs = ClusterLogs(self._options.bootstrap, self._options.admin_settings)
        return plan_batch(self._options, logs, self._bounds)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, as Arrow batches."""
        return self._reader.read(partition)


class FilteringReader(TidelogReader):
    """The same where Spark's filter push-down is on; where it is off, Spark refuses this class."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keeps in mind what the filters leave out; Spark applies all of them again."""
        for one in filters:
            self._bounds = self._bounds.narrowed(one)
        if self._bounds != Bounds():
            logger.warning(
                "pushFilters: Spark keeps what was planned with these filters for every other query"
                " of the same load(): call load() again for a query with other filters"
            )
        return filters


def batch_reader(options: Mapping[str, str], schema: StructType) -> TidelogReader:
    """The reader that the options ask for."""
    checked = batch_options(options)
    kind = FilteringReader if checked.push_filters else TidelogReader
    return kind(checked, schema)
