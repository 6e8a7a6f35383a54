"""Streams written to topics: batch after batch, through retries and restarts, nothing lost.

A task or a batch that is run again writes its rows again: each test says exactly which may be
there twice, and why.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from spark_kit.topics import Topics

_FIRST_TIME_S: Final = 1_700_000_000


def numbers(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the lines of all files in a folder, a file a batch."""
    folder.mkdir(exist_ok=True)
    return spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))


def put(folder: Path, name: str, lines: range) -> None:
    """Adds a file, wholly or not at all; Spark takes the one of the lowest number first."""
    folder.mkdir(exist_ok=True)
    draft = folder / f".{name}"
    draft.write_text("".join(f"{line}\n" for line in lines))
    os.utime(draft, (_FIRST_TIME_S + int(name),) * 2)
    draft.rename(folder / name)


def run(frame: DataFrame, topics: Topics, topic: str, checkpoint: Path) -> None:
    """Writes what there is, batch after batch, and ends."""
    writer = frame.writeStream.format("tidelog").trigger(availableNow=True)
    writer = writer.option("kafka.bootstrap.servers", topics.bootstrap).option("topic", topic)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()


def test_batches_follow_each_other_also_after_a_restart(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=1)
    lines = numbers(spark, tmp_path / "lines")
    for first in (0, 20):
        put(tmp_path / "lines", f"{first}", range(first, first + 10))
        put(tmp_path / "lines", f"{first + 10}", range(first + 10, first + 20))
        run(lines, topics, topic, tmp_path / "checkpoint")
    assert topics.values(topic) == [str(line) for line in range(40)]


def test_a_batch_whose_commit_was_lost_is_written_again_and_nothing_else(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """The driver died between the sink's commit and its own note of it."""
    topic = topics.create(partitions=1)
    lines = numbers(spark, tmp_path / "lines")
    for batch in range(3):
        put(tmp_path / "lines", str(batch), range(batch * 10, batch * 10 + 10))
        run(lines, topics, topic, tmp_path / "checkpoint")
    for kept in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        kept.unlink()
    put(tmp_path / "lines", "3", range(30, 40))
    run(lines, topics, topic, tmp_path / "checkpoint")
    expected = [*range(30), *range(20, 30), *range(30, 40)]
    assert topics.values(topic) == [str(line) for line in expected]


def test_a_task_that_failed_is_run_again_with_all_its_rows(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=1)
    flag = tmp_path / "fail once"
    flag.touch()

    def fail_once(line: str) -> str:
        if line == "25000":
            try:
                flag.unlink()
            except FileNotFoundError:
                return line
            raise ValueError("once")
        return line

    failing = udf(fail_once, "string", useArrow=False)
    put(tmp_path / "lines", "0", range(30_000))
    lines = numbers(spark, tmp_path / "lines").select(failing("value").alias("value"))
    run(lines, topics, topic, tmp_path / "checkpoint")
    written = Counter(topics.values(topic))
    assert sorted(written) == sorted(str(line) for line in range(30_000))
    assert not flag.exists()
    # What the failed attempt had handed over before its input broke may be there twice.
    twice = {int(line) for line, count in written.items() if count == 2}
    assert twice <= set(range(25_000))
    assert set(written.values()) <= {1, 2}


def test_complete_mode_writes_each_result_as_a_whole(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=1)
    lines = numbers(spark, tmp_path / "lines")
    counted = lines.groupBy().count().selectExpr("CAST(count AS STRING) AS value")
    for batch in range(2):
        put(tmp_path / "lines", str(batch), range(10))
        writer = counted.writeStream.format("tidelog").outputMode("complete")
        writer = writer.option("kafka.bootstrap.servers", topics.bootstrap).option("topic", topic)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert topics.values(topic) == ["10", "20"]


def test_a_batch_that_cannot_be_written_ends_the_query_in_words(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=1)
    put(tmp_path / "lines", "0", range(10))
    lines = numbers(spark, tmp_path / "lines").selectExpr("value", "1 AS partition")
    with pytest.raises(StreamingQueryException, match="has no partition 1: it has 1"):
        run(lines, topics, topic, tmp_path / "checkpoint")
