"""DataFrames into topics, once or as a stream: at least once, in the order of each task's rows.

`source` makes a writer for each write, and Spark carries it to its tasks. Invariant: whatever is
wrong with options or columns is said when it is made, before any task runs; a task's commit message
means that all its rows are acknowledged.
"""

from __future__ import annotations

import importlib
import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from tidelog.errors import InvalidRequest
from tidelog_spark.commit_messages import WrittenRows, records_told, task_identity
from tidelog_spark.sink_columns import sink_columns
from tidelog_spark.sink_options import sink_options
from tidelog_spark.worker_socket import Carried

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger("tidelog.spark")

Messages = list[WriterCommitMessage | None]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> TidelogWriter:
    """The writer of one `df.write`."""
    if overwrite:
        raise InvalidRequest(
            "The mode 'overwrite' is not possible: records of a topic are never replaced",
            hint='Use .mode("append"); to begin anew, delete the topic or its records first',
        )
    return TidelogWriter(options, schema)


class RowWriter(Carried):
    """What both writers do: check first, then write the rows of a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = sink_options(options)
        self._columns = sink_columns(schema, self._options.topic)
        #: Names this write among all others, where no query does.
        self._job_id = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Runs on an executor: writes the rows of a task."""
        # Arrow, NumPy and gRPC are for those alone that write.
        sending = importlib.import_module("tidelog_spark.sending")
        identity = task_identity(self._job_id, self._options.sink_id)
        written: WrittenRows = sending.write_rows(iterator, self._options, self._columns, identity)
        return written


class TidelogWriter(RowWriter, DataSourceArrowWriter):
    """`df.write.format("tidelog")`."""

    def commit(self, messages: Messages) -> None:
        """Nothing is left to do: all rows were acknowledged when their tasks ended."""

    def abort(self, messages: Messages) -> None:
        """Says what stands in the topic although the write failed."""
        logger.warning(
            "The write has failed. %d records of the tasks that had ended stand in the topic, and"
            " those of the others in part: writing again writes them once more",
            records_told(messages),
        )


class TidelogStreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """`df.writeStream.format("tidelog")`."""

    def commit(self, messages: Messages, batchId: int) -> None:
        """Nothing is left to do: all rows were acknowledged when their tasks ended."""

    def abort(self, messages: Messages, batchId: int) -> None:
        """Says what stands in the topic although the batch failed."""
        logger.warning(
            "Batch %d has failed. %d records of the tasks that had ended stand in the topic, and"
            " those of the others in part: the query, when restarted, writes the batch once more",
            batchId,
            records_told(messages),
        )
