"""Writers without Spark: what they carry to a task, what a task writes, how it fails."""

from __future__ import annotations

import gc
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from tidelog.errors import InvalidRequest, TidelogError
from tidelog.records.batch import LooseBatch
from tidelog.records.columns import loose_columns
from tidelog_node.testing import InProcessCluster
from tidelog_spark.clients import close_clients
from tidelog_spark.commit_messages import NO_BATCH, TaskIdentity, WrittenRows, records_told
from tidelog_spark.sending import PORTION_BYTES
from tidelog_spark.writer import TidelogStreamWriter, TidelogWriter, batch_writer

MIB = 1024 * 1024
TEXT = StructType([StructField("key", StringType()), StructField("value", StringType())])


@pytest.fixture(autouse=True)
def _clients_end_with_the_test() -> Iterator[None]:
    yield
    close_clients()
    gc.collect()  # a channel's poller ends when the channel is collected


def rows(**columns: list[Any] | pa.Array) -> pa.RecordBatch:
    """Some rows as Spark hands them over."""
    return pa.record_batch(
        {
            name: pa.array(column, pa.string()) if isinstance(column, list) else column
            for name, column in columns.items()
        }
    )


def options(cluster: InProcessCluster, **more: str) -> dict[str, str]:
    """Options of a sink at this cluster."""
    return {"kafka.bootstrap.servers": cluster.address, "topic": "orders", **more}


@pytest.mark.tidelog(num_partitions=1)
def test_a_writer_that_was_carried_writes_what_it_is_given(
    tidelog_cluster: InProcessCluster,
) -> None:
    writer = TidelogWriter(options(tidelog_cluster, sinkId="left"), TEXT)
    carried: TidelogWriter = pickle.loads(pickle.dumps(writer))
    batches = [rows(key=["a", None], value=["1", "22"]), rows(key=[], value=[]).slice(0, 0)]
    written = carried.write(iter([*batches, rows(key=["c"], value=[None])]))
    assert (written.records, written.bytes) == (3, 5)
    assert (written.partition, written.attempt, written.batch_id) == (0, 0, NO_BATCH)
    assert written.sink_id.endswith("/left")
    assert pickle.loads(pickle.dumps(written)) == written
    again = pickle.loads(pickle.dumps(writer)).write(iter([]))
    assert again.sink_id == written.sink_id
    found = [(record.key, record.value) for record in tidelog_cluster.records("orders")]
    assert found == [(b"a", b"1"), (None, b"22"), (b"c", None)]


@pytest.mark.tidelog(num_partitions=1)
def test_many_small_batches_become_few_large_ones(tidelog_cluster: InProcessCluster) -> None:
    writer = TidelogWriter(options(tidelog_cluster), TEXT)
    small = rows(key=[None] * 100, value=["x" * 1_000] * 100)
    count = 2 * PORTION_BYTES // small.nbytes + 3
    assert writer.write(small for _ in range(count)).records == count * 100
    assert len(tidelog_cluster.records("orders")) == count * 100


@pytest.mark.tidelog(num_partitions=2)
def test_rows_that_keys_divide_leave_few_batches_half_empty(
    tidelog_cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def noted(*columns: Any, **settings: Any) -> Iterator[LooseBatch]:
        for batch in loose_columns(*columns, **settings):
            sizes.append(batch.size)
            yield batch

    monkeypatch.setattr("tidelog.producer.columns.loose_columns", noted)
    writer = TidelogWriter(options(tidelog_cluster), TEXT)
    keys = [f"customer-{number}" for number in range(10_000)]
    of_spark = rows(key=keys, value=["x" * 100] * len(keys))
    assert writer.write(of_spark for _ in range(20)).records == 200_000
    full = sum(sizes) / MIB
    assert len(sizes) < 1.3 * full, f"{len(sizes)} batches hold what {full:.1f} full ones would"


@pytest.mark.tidelog(num_partitions=2)
def test_a_failed_task_says_what_may_be_there_and_keeps_no_producer(
    tidelog_cluster: InProcessCluster,
) -> None:
    schema = StructType([*TEXT.fields, StructField("partition", IntegerType())])
    writer = TidelogWriter(options(tidelog_cluster), schema)
    wrong = rows(key=["a"], value=["b"], partition=pa.array([9], pa.int32()))
    with pytest.raises(TidelogError, match=r"task 0, attempt 0.*no partition 9.*be there twice"):
        writer.write(iter([wrong]))
    right = rows(key=["a"], value=["b"], partition=pa.array([1], pa.int32()))
    assert writer.write(iter([right])).records == 1


@pytest.mark.tidelog(num_partitions=1)
def test_an_input_that_fails_is_no_fault_of_ours(tidelog_cluster: InProcessCluster) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(key=["a"], value=["x" * PORTION_BYTES])
        raise ValueError("upstream")

    with pytest.raises(ValueError, match="upstream"):
        TidelogWriter(options(tidelog_cluster), TEXT).write(broken())


def test_impossible_times_are_refused_and_missing_ones_are_now(
    tidelog_cluster: InProcessCluster,
) -> None:
    schema = StructType([*TEXT.fields, StructField("timestamp", TimestampType())])
    writer = TidelogWriter(options(tidelog_cluster), schema)
    kind = pa.timestamp("us", "UTC")
    fitting = rows(key=["a"] * 2, value=["b"] * 2, timestamp=pa.array([1_999, None], kind))
    writer.write(iter([fitting]))
    first, second = tidelog_cluster.records("orders")
    assert first.timestamp == 1
    assert second.timestamp > 1_700_000_000_000
    before = rows(key=["a"], value=["b"], timestamp=pa.array([-5_000], kind))
    with pytest.raises(TidelogError, match="timestamp -5"):
        writer.write(iter([before]))


def test_overwriting_is_refused(tidelog_cluster: InProcessCluster) -> None:
    with pytest.raises(InvalidRequest, match='mode\\("append"\\)'):
        batch_writer(options(tidelog_cluster), TEXT, True)
    assert isinstance(batch_writer(options(tidelog_cluster), TEXT, False), TidelogWriter)


def test_a_failed_write_says_what_is_there(
    tidelog_cluster: InProcessCluster, caplog: pytest.LogCaptureFixture
) -> None:
    told = WrittenRows("query/default", 7, 0, 1, records=12, bytes=100)
    assert records_told([told, None, told]) == 24
    with caplog.at_level(logging.WARNING, logger="tidelog.spark"):
        TidelogWriter(options(tidelog_cluster), TEXT).abort([told, None])
        TidelogStreamWriter(options(tidelog_cluster), TEXT).abort([None], 7)
    assert "12 records of the tasks that had ended stand in the topic" in caplog.text
    assert "Batch 7 has failed" in caplog.text


def test_an_attempt_is_told_apart() -> None:
    assert str(TaskIdentity("query/default", 7, 3, 1)) == "task 3 of batch 7, attempt 1"
