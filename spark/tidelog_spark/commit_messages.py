"""What a task that has written tells the driver, and how tasks are told apart.

`writer` makes one message per task. Invariant: sink, batch, partition and attempt together name one
attempt for good: a batch that is run again has the same sink and batch, also after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

#: What Spark's streaming engine tells tasks of the query they belong to.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
#: The batch of a write that belongs to no stream.
NO_BATCH: Final = -1


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One attempt at one partition of one batch of one sink."""

    #: The query (of a batch job: the job), and the sink in it.
    sink_id: str
    #: Of a stream; NO_BATCH otherwise.
    batch_id: int
    partition: int
    attempt: int

    def __str__(self) -> str:
        batch = "" if self.batch_id == NO_BATCH else f" of batch {self.batch_id}"
        return f"task {self.partition}{batch}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class WrittenRows(WriterCommitMessage):
    """What one attempt has written: every record of it is acknowledged."""

    sink_id: str
    batch_id: int
    partition: int
    attempt: int
    records: int
    #: Of keys and values.
    bytes: int


def task_identity(job_id: str, sink_id: str) -> TaskIdentity:
    """Who runs here; `job_id` names what a query does not."""
    context = TaskContext.get()
    if context is None:
        return TaskIdentity(f"{job_id}/{sink_id}", NO_BATCH, 0, 0)
    batch = context.getLocalProperty(_BATCH_ID)
    query = context.getLocalProperty(_QUERY_ID)
    return TaskIdentity(
        f"{query or job_id}/{sink_id}",
        NO_BATCH if batch is None else int(batch),
        context.partitionId(),
        context.attemptNumber(),
    )


def records_told(messages: Iterable[WriterCommitMessage | None]) -> int:
    """How many records the tasks that ended well have written; None stands for the others."""
    return sum(told.records for told in messages if isinstance(told, WrittenRows))
