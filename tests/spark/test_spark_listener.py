"""The progress of a query as numbers: lag over the partitions, told and shown."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from tidelog_spark.listener import SourceProgress, TidelogProgressListener, progress_of


def source(end: Any, latest: Any) -> SimpleNamespace:
    """One source of a progress, as far as it is looked at."""
    return SimpleNamespace(
        endOffset=json.dumps(end),
        latestOffset=None if latest is None else json.dumps(latest),
        numInputRows=7,
        processedRowsPerSecond=3.5,
    )


def progress(*sources: SimpleNamespace, name: str | None = "counts") -> SimpleNamespace:
    """A progress."""
    durations = {"triggerExecution": 120}
    return SimpleNamespace(
        name=name, id="4711", batchId=3, sources=list(sources), durationMs=durations
    )


END = {"#ids": {"orders": "x"}, "orders": {"0": 5, "1": 9}}
LATEST = {"#ids": {"orders": "x"}, "orders": {"0": 8, "1": 9, "2": 3}}
EXPECTED = SourceProgress("counts", 3, ("orders",), 7, 3.5, 120, 0, 3, 2.0, 6)


def test_lag_is_what_lies_between_the_end_of_the_batch_and_of_the_logs() -> None:
    assert progress_of("counts", progress(source(END, LATEST))) == [EXPECTED]


def test_other_sources_are_passed_over() -> None:
    kafkas = {"orders": {"0": 5}}
    others = source(kafkas, kafkas), source(17, 18), source(END, None), source("x", "x")
    assert progress_of("counts", progress(*others)) == []
    broken = source({"#ids": {}, "orders": 5}, LATEST)
    assert progress_of("counts", progress(broken)) == []


def test_the_listener_tells_and_shows() -> None:
    told: list[SourceProgress] = []
    registry = CollectorRegistry()
    listener = TidelogProgressListener(told.append, registry=registry)
    event: Any = SimpleNamespace(progress=progress(source(END, LATEST)))
    listener.onQueryProgress(event)
    assert told == [EXPECTED]
    assert listener.latest == {"counts": EXPECTED}
    shown = generate_latest(registry).decode()
    assert 'tidelog_spark_lag_offsets{query="counts",topics="orders"} 6.0' in shown
    assert 'tidelog_spark_lag_max_offsets{query="counts",topics="orders"} 3.0' in shown


def test_a_query_without_a_name_goes_by_its_id() -> None:
    listener = TidelogProgressListener()
    event: Any = SimpleNamespace(progress=progress(source(END, LATEST), name=None))
    listener.onQueryProgress(event)
    assert list(listener.latest) == ["4711"]
