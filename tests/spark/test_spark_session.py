"""The session that all tests of the connector share: its promises to them hold."""

from __future__ import annotations

import os

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kit.session import JVM_FLAGS
from spark_kit.topics import Topics


def test_two_tasks_run_in_workers_of_this_interpreter(spark: SparkSession) -> None:
    paths = spark.sparkContext.range(2, numSlices=2).map(lambda _: os.environ["PYTHONPATH"])
    assert spark.sparkContext.defaultParallelism == 2
    assert all("tests" in path for path in paths.collect())


def test_a_failed_task_is_tried_three_times(spark: SparkSession) -> None:
    def fail_twice(_: int) -> int:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < 2:
            raise ValueError("not yet")
        return context.attemptNumber()

    assert spark.sparkContext.range(1, numSlices=1).map(fail_twice).collect() == [2]
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM missing")


def test_times_are_in_utc_and_the_jvm_is_a_small_one(spark: SparkSession) -> None:
    assert spark.sql("SELECT unix_timestamp('1970-01-02 00:00:00')").first() == (86_400,)
    assert spark.conf.get("spark.driver.extraJavaOptions") == JVM_FLAGS


def test_topics_are_made_at_the_shared_node(topics: Topics) -> None:
    assert topics.records(topics.create(partitions=3)) == []
