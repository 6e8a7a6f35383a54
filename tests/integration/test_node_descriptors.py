"""A node where few files may be open: it takes what it is allowed to, and stays within that."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage_kit.batches import batch

from harness.client import partition_batch, produce_request
from harness.nodes import LiveNode, run_on_node
from harness.processes import running_node

PARTITIONS = 400


@contextmanager
def few_descriptors(spare: int) -> Iterator[int]:
    """Leaves this process, and those it starts, so many more descriptors by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + spare
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        yield few
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_one_request_to_more_partitions_than_descriptors_is_written(tmp_path: Path) -> None:
    """A sync that ran out of descriptors would make its partitions faulty for good."""

    async def scenario(node: LiveNode) -> None:
        await node.client.create("orders", PARTITIONS)
        batches = [partition_batch("orders", batch(b"a"), partition=at) for at in range(PARTITIONS)]
        response = await node.client.broker.Produce(produce_request(*batches))
        assert [ack.error.message for ack in response.partitions if ack.HasField("error")] == []
        assert await node.client.values("orders", PARTITIONS - 1) == [b"a"]

    with few_descriptors(PARTITIONS // 2):
        run_on_node(tmp_path / "data", scenario)


def test_a_node_takes_the_descriptors_it_is_allowed_to_take(tmp_path: Path) -> None:
    with few_descriptors(200) as few, running_node(tmp_path / "data") as node:
        assert resource.prlimit(node.pid, resource.RLIMIT_NOFILE)[0] > few
