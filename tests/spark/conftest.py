"""What the tests of the connector are given: a session for all, a node for all, topics of theirs.

Both are started by the first test that asks: tests of plain functions cost nothing. Without Java
the tests that need Spark are skipped, and say what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from harness.processes import ProcessNode, running_node
from spark_kit.session import JavaMissing, spark_session
from spark_kit.standalone import StandaloneCluster, standalone_cluster
from spark_kit.topics import Topics


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of the run."""
    try:
        with spark_session(tmp_path_factory.mktemp("spark")) as session:
            yield session
    except JavaMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A Spark cluster of processes, for tests whose executors die or know nothing of Tidelog."""
    try:
        with standalone_cluster(tmp_path_factory.mktemp("standalone")) as cluster:
            yield cluster
    except JavaMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessNode]:
    """A node in a process of its own, for all tests; those that harm theirs start another one."""
    data_dir = tmp_path_factory.mktemp("spark-node") / "data"
    with running_node(data_dir, "--config", "flush.policy=os") as node:
        yield node


@pytest.fixture
def topics(spark_node: ProcessNode) -> Topics:
    """Makes topics at the shared node and reads what stands in them."""
    return Topics(spark_node.bootstrap)
