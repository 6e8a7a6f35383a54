"""Reads topics as a stream: decides on the driver what each micro-batch holds.

Spark asks one of these in a process of its own for each query, and pickles it into tasks for `read`
alone. Invariants: offsets only move forward; equal offsets are equal text; what a replayed batch
holds is what it held, since its start and end come from Spark's log and nothing else decides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog_spark.cluster_logs import ClusterLogs
from tidelog_spark.offsets import OffsetMap
from tidelog_spark.options import SourceOptions, stream_options
from tidelog_spark.reader import RangeReader
from tidelog_spark.stream_planning import StreamPlanning

#: Tells a trigger that obeys the options from one that takes all there is; the options say what.
BY_OPTIONS: Final = 2**62


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of the records of topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options: SourceOptions = stream_options(options)
        self._reader = RangeReader(self._options, schema)
        self._planned: StreamPlanning | None = None

    @property
    def _planning(self) -> StreamPlanning:
        """Made where it is first asked: the constructor must not need the network."""
        if self._planned is None:
            logs = ClusterLogs(self._options.bootstrap, self._options.admin_settings)
            self._planned = StreamPlanning(self._options, logs)
        return self._planned

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_reader": self._reader, "_planned": None}

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self._planning.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """What a trigger takes unless it is told to take all."""
        limits = self._options.limits
        if not limits.are_given:
            return ReadAllAvailable()
        return ReadMaxRows(limits.offsets_max or BY_OPTIONS)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends; `start` itself when there is nothing to do."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        return self._planning.next_end(OffsetMap.from_json(start), is_limited).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the logs end: the query's progress shows it as latestOffset."""
        latest = self._planning.latest_seen
        return None if latest is None else latest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on the logs end where they end now."""
        self._planning.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch."""
        return self._planning.tasks(OffsetMap.from_json(start), OffsetMap.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, as Arrow batches."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has finished all up to `end`.

        The checkpoint knows it already; once there are consumer groups, their offsets for lag tools
        are written in `latestOffset`, whose `start` is finished work too and comes without delay.
        """

    def stop(self) -> None:
        """Nothing to end: Spark kills the process, and the clients end with it."""
