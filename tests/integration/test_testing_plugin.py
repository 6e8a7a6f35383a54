"""The pytest plugin in a project of somebody else's: found by itself, light, and strict-proof."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: What the plugin must not import into runs that don't use it.
HEAVY = ("grpc", "google.protobuf", "tidelog_broker", "prometheus_client")

WITHOUT = f"""
import sys

def test_nothing_heavy_is_here():
    assert [name for name in {HEAVY!r} if name in sys.modules] == []
"""

SYNC = """
import pytest
import tidelog

def test_a_record(tidelog_cluster):
    with tidelog.Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"one")
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"one"]

@pytest.mark.tidelog(num_partitions=3)
class TestWithThree:
    def test_three(self, tidelog_cluster):
        with tidelog.Producer(tidelog_cluster.address) as producer:
            assert producer.send("orders", b"one", partition=2).result().partition == 2

    @pytest.mark.tidelog(num_partitions=5)
    def test_the_nearest_marker_wins(self, tidelog_cluster):
        with tidelog.Producer(tidelog_cluster.address) as producer:
            assert producer.send("orders", b"one", partition=4).result().partition == 4
"""

ASYNCHRONOUS = """
import asyncio
import tidelog

def test_a_record(tidelog_cluster):
    async def send():
        async with tidelog.AsyncProducer(tidelog_cluster.address) as producer:
            return await producer.send("orders", b"one")

    assert asyncio.run(send()).offset == 0
"""


@pytest.mark.parametrize(("source", "passed"), [(WITHOUT, 1), (SYNC, 3), (ASYNCHRONOUS, 1)])
def test_in_a_project_of_its_own(tmp_path: Path, source: str, passed: int) -> None:
    (tmp_path / "test_theirs.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{passed} passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_marker_is_explained(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--markers", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "@pytest.mark.tidelog(**config)" in ran.stdout
