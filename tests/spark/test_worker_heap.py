"""Workers of Spark don't walk what they have imported after every task."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from types import ModuleType
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from tidelog_node.testing import InProcessCluster
from tidelog_spark import reader, sending
from tidelog_spark.clients import close_clients
from tidelog_spark.worker_heap import spare_imports
from tidelog_spark.writer import TidelogWriter


@pytest.fixture
def in_task() -> Iterator[None]:
    """As if this process were a worker with a task."""
    with mock.patch.object(TaskContext, "get", return_value=object()):
        yield
    gc.unfreeze()


class Knot:
    """Garbage as soon as nobody else holds it: only a collection ends it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("in_task")
def test_garbage_is_collected_and_the_rest_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imported_since", ModuleType("imported_since"))
    knot = weakref.ref(Knot())
    spare_imports()
    assert knot() is None
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("in_task")
def test_it_is_done_again_only_where_more_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imported_since", ModuleType("imported_since"))
    spare_imports()
    gc.unfreeze()
    spare_imports()
    assert gc.get_freeze_count() == 0
    monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
    spare_imports()
    assert gc.get_freeze_count() > 0


def test_a_process_that_runs_no_task_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imported_alone", ModuleType("imported_alone"))
    spare_imports()
    assert gc.get_freeze_count() == 0


@pytest.mark.tidelog(num_partitions=1)
def test_tasks_that_write_and_tasks_that_read_end_with_it(
    tidelog_cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(sending, "spare_imports", lambda: calls.append("written"))
    monkeypatch.setattr(reader, "spare_imports", lambda: calls.append("read"))
    options = {"bootstrap.servers": tidelog_cluster.address}
    schema = StructType([StructField("value", StringType())])
    source = reader.batch_reader(options | {"subscribe": "orders"}, schema)
    rows = pa.record_batch({"value": ["one", "two"]})
    TidelogWriter(options | {"topic": "orders"}, schema).write(iter([rows]))
    assert calls == ["written"]
    (task,) = source.partitions()
    assert sum(batch.num_rows for batch in source.read(task)) == 2
    assert calls == ["written", "read"]
    close_clients()
    gc.collect()  # a channel's poller ends when the channel is collected
