"""How far queries are behind their topics, in numbers: for people, logs and Prometheus.

    spark.streams.addListener(TidelogProgressListener(print))

Spark tells the listener, on the driver, what each micro-batch began and ended with and where the
logs end; the difference is the lag. Invariant: what is no source of ours is passed over, and a
listener never fails a query.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidelog.errors import InvalidRequest
from tidelog_spark.offsets import IDS_KEY, OffsetMap

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What one micro-batch did to one source; lags are offsets between its end and the logs'."""

    query: str
    batch_id: int
    topics: tuple[str, ...]
    rows: int
    rows_per_second: float
    batch_ms: int
    lag_min: int
    lag_max: int
    lag_avg: float
    lag_total: int


def progress_of(query: str, progress: Any) -> list[SourceProgress]:
    """What a query's progress says of each source of ours."""
    found = []
    for source in progress.sources:
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is None or latest is None:
            continue
        lags = [max(0, at - end.offsets.get(one, 0)) for one, at in latest.offsets.items()]
        found.append(
            SourceProgress(
                query=query,
                batch_id=progress.batchId,
                topics=tuple(sorted({one.topic for one in latest.offsets})),
                rows=source.numInputRows,
                rows_per_second=source.processedRowsPerSecond,
                batch_ms=progress.durationMs.get("triggerExecution", 0),
                lag_min=min(lags, default=0),
                lag_max=max(lags, default=0),
                lag_avg=sum(lags) / len(lags) if lags else 0.0,
                lag_total=sum(lags),
            )
        )
    return found


def _offsets(text: str | None) -> OffsetMap | None:
    """The offsets of a source of ours; None where it is none."""
    try:
        named = json.loads(text or "null")
        return OffsetMap.from_json(named) if isinstance(named, dict) and IDS_KEY in named else None
    except (json.JSONDecodeError, InvalidRequest):
        return None


class TidelogProgressListener(StreamingQueryListener):
    """Calls `tell` with each `SourceProgress`; with a Prometheus registry also shows gauges there.

    `latest` has the last one of each query. The gauges need `prometheus-client`.
    """

    def __init__(
        self,
        tell: Callable[[SourceProgress], object] | None = None,
        *,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._tell = tell
        self._gauges = None if registry is None else _Gauges(registry)
        self.latest: dict[str, SourceProgress] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch has ended."""
        progress = event.progress
        for one in progress_of(progress.name or str(progress.id), progress):
            self.latest[one.query] = one
            if self._gauges is not None:
                self._gauges.show(one)
            if self._tell is not None:
                self._tell(one)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The last figures stay: a query that has ended is as far behind as it was."""


class _Gauges:
    """The figures as Prometheus shows them, labelled by query and topics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Gauge  # noqa: PLC0415 - only those who give a registry need it

        def gauge(name: str, words: str) -> Any:
            return Gauge(f"tidelog_spark_{name}", words, ["query", "topics"], registry=registry)

        self._gauges = {
            "lag_min": gauge("lag_min_offsets", "The smallest lag of a partition"),
            "lag_max": gauge("lag_max_offsets", "The largest lag of a partition"),
            "lag_avg": gauge("lag_avg_offsets", "The mean lag of the partitions"),
            "lag_total": gauge("lag_offsets", "The lag of all partitions together"),
            "rows_per_second": gauge("rows_per_second", "Rows of the last micro-batch a second"),
            "batch_ms": gauge("batch_milliseconds", "What the last micro-batch took"),
        }

    def show(self, progress: SourceProgress) -> None:
        """Sets all of them."""
        topics = ",".join(progress.topics)
        for name, gauge in self._gauges.items():
            gauge.labels(progress.query, topics).set(getattr(progress, name))
