"""The container for users' tests: what it runs, and where there is an engine, that it serves."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from support.tree import ROOT
from tidelog.consumer.consumer import Consumer
from tidelog.producer.producer import Producer
from tidelog_node.testing.container import TidelogContainer, node_command

IMAGE = "tidelog-test"


def why_no_engine() -> str:
    """What stands in the way of containers here; nothing where an engine answers."""
    if shutil.which("docker") is None:
        return "there is no docker command here"
    asked = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    return f"no Docker engine answers here: {asked.stderr.strip()}" if asked.returncode else ""


@pytest.fixture
def container() -> Iterator[TidelogContainer]:
    """A node in a container, from an image of this tree."""
    reason = why_no_engine()
    if reason:
        pytest.skip(reason)
    build = ["docker", "build", "-q", "-f", "deploy/docker/Dockerfile", "-t", IMAGE, "."]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    with TidelogContainer(IMAGE, num_partitions=2) as started:
        yield started


def test_a_container_serves(container: TidelogContainer) -> None:
    with Producer(container.address) as producer:
        producer.send("orders", b"one")
    with Consumer(container.address) as consumer:
        consumer.assign("orders", start="earliest", until="end")
        assert [record.value for record in consumer] == [b"one"]
        assert len(consumer.assignment) == 2


def test_its_command_carries_the_configuration() -> None:
    command = node_command({"num_partitions": 3, "flush_policy": "os"})
    assert command == [
        "up",
        "--ephemeral",
        "--host",
        "0.0.0.0",
        "--config",
        "num.partitions=3",
        "--config",
        "flush.policy=os",
    ]
