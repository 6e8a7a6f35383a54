"""The connector with a mark on every record it writes: which attempt of which task wrote it.

Only the mark and two places to be killed in are added, a task whose rows are all acknowledged and
a batch between write and commit; all the rest is the connector
itself. A duplicate is explained when its copies carry marks of different attempts at one batch.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from tidelog_spark.commit_messages import WrittenRows, task_identity
from tidelog_spark.source import TidelogDataSource
from tidelog_spark.writer import Messages, TidelogStreamWriter

MARK: Final = "attempt"
#: Where a commit waits to be killed, as long as this file is in the folder; and its answer.
HOLD: Final = "hold"
HELD: Final = "held"
#: Before the id of a process that is writing, as the name of a file.
WRITING: Final = "writing-"
#: Where a task that has written everything waits to be killed, and before its process's id.
HOLD_TASKS: Final = "hold-tasks"
WRITTEN: Final = "written-"
_POLL_S: Final = 0.05
#: What Spark calls one start of a query in the words about its jobs.
_RUN: Final = re.compile(r"runId = ([0-9a-f-]+)")


class TracedSource(TidelogDataSource):
    """`format("traced")`: the connector, with `traceFolder` as one more option."""

    @classmethod
    def name(cls) -> str:
        """What `format` is told."""
        return "traced"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The connector's writer, with marks."""
        folder = Path(self.options["traceFolder"])
        options = {
            name: text for name, text in self.options.items() if name.lower() != "tracefolder"
        }
        writer: DataSourceStreamWriter = TracedWriter(options, schema, folder)
        return writer


class TracedWriter(TidelogStreamWriter):
    """Marks every row, and can be stopped between write and commit."""

    def __init__(self, options: dict[str, str], schema: StructType, folder: Path) -> None:
        super().__init__(options, schema)
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Writes the rows with the name of this attempt in a header; says that it is at it."""
        at_work = self._folder / f"{WRITING}{os.getpid()}"
        at_work.touch()
        try:
            rows = super().write(marked(iterator, attempt_name()))
            self._hold(HOLD_TASKS, f"{WRITTEN}{os.getpid()}")
            return rows
        finally:
            at_work.unlink()

    def commit(self, messages: Messages, batchId: int) -> None:
        """Waits here for its end when it is told to: the driver dies between write and commit."""
        self._hold(HOLD, HELD)
        super().commit(messages, batchId)

    def _hold(self, order: str, answer: str) -> None:
        if (self._folder / order).exists():
            (self._folder / answer).touch()
            while (self._folder / order).exists():
                time.sleep(_POLL_S)
            (self._folder / answer).unlink(missing_ok=True)


def attempt_name() -> str:
    """`batch/partition/attempt`, the attempt by a number that no other run has."""
    context = TaskContext.get()
    assert context is not None
    identity = task_identity("", "")
    run = _RUN.search(context.getLocalProperty("spark.job.description") or "")
    assert run is not None
    return f"{identity.batch_id}/{identity.partition}/{run[1]}-{context.taskAttemptId()}"


def marked(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """The rows with a header that names the attempt."""
    for rows in batches:
        column = rows.schema.get_field_index("headers")
        kind = rows.schema.field(column).type
        headers = pa.array([[{"key": MARK, "value": name.encode()}]] * rows.num_rows, kind)
        yield rows.set_column(column, rows.schema.field(column), headers)
