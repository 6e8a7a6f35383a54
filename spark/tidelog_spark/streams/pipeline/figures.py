"""How a sink is doing: what its batches were, and what of it people and Prometheus are told.

`running.py` feeds Spark's progress in; the status files, progress lines and the metrics page are
made from this one value. Invariant: counts only grow, and every batch is counted once.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from tidelog_spark.listener import progress_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

State = Literal["starting", "running", "waiting", "done", "stopped", "failed"]


def now() -> str:
    """This moment, as status files have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class Figures:
    """One sink since the run began."""

    pipeline: str
    sink: str
    state: State = "starting"
    process_id: int = 0
    host: str = ""
    batch: int | None = None
    batches: int = 0
    rows: int = 0
    rows_a_second: float = 0.0
    batch_ms: int = 0
    #: Records that wait in the topics it reads; None while Spark has not said.
    behind: int | None = None
    offsets: list[Any] = field(default_factory=list)
    failures: int = 0
    error: str = ""
    updated: str = ""

    def add(self, progress: StreamingQueryProgress) -> bool:
        """Takes in a batch; false when it is known already, or was none."""
        if self.batch is not None and progress.batchId <= self.batch:
            return False
        if "addBatch" not in progress.durationMs:
            return False  # Spark looked for data and there was none
        self.batch = progress.batchId
        self.batches += 1
        self.rows += progress.numInputRows
        self.rows_a_second = _number(progress.processedRowsPerSecond)
        self.batch_ms = int(progress.durationMs.get("triggerExecution", 0))
        self.offsets = [_offsets(source.endOffset) for source in progress.sources]
        lags = [one.lag_total for one in progress_of(self.sink, progress)]
        self.behind = sum(lags) if lags else None
        self.error = ""
        self.updated = now()
        return True

    def line(self, rows: int) -> str:
        """What is told of the batch just added, which had so many rows."""
        waits = "" if self.behind is None else f"  {self.behind:,} behind"
        took = f"{self.batch_ms / 1000:.1f} s"
        rate = f"{self.rows_a_second:,.0f} rows/s"
        return f"{self.sink}: batch {self.batch}  {rows:,} rows  {rate}  {took}{waits}"

    def as_json(self) -> dict[str, Any]:
        """All of it by its names."""
        return asdict(self)


def _offsets(text: str | None) -> object:
    """Spark hands offsets over as text; those of topics are JSON."""
    try:
        return json.loads(text or "null")
    except ValueError:
        return text


def _number(value: float) -> float:
    """Spark says NaN and infinity where a batch took no time."""
    return round(value, 1) if math.isfinite(value) else 0.0
