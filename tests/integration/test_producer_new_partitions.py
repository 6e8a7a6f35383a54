"""Partitions that were added a moment ago take records at once, whoever names them."""

from __future__ import annotations

import asyncio

import pytest

from tidelog import Admin, AsyncProducer, Producer
from tidelog.errors import InvalidPartitions, InvalidRecord
from tidelog_node.testing import InProcessCluster


def grow(cluster: InProcessCluster, partitions: int) -> None:
    """Adds partitions to the topic that the producer knows."""
    with Admin(cluster.address) as admin:
        admin.create_partitions("grown", partitions)


def test_a_partition_that_is_newer_than_what_is_known(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address) as producer:
        assert producer.send("grown", b"1").result().partition == 0
        grow(tidelog_cluster, 2)
        assert producer.send("grown", b"2", partition=1).result().partition == 1
        grow(tidelog_cluster, 3)
        assert producer.send_many("grown", [b"3"], partition=2).result()[0].partition == 2
        grow(tidelog_cluster, 4)
        assert producer.send_columns("grown", value=[b"4"], partition=3).result()[0].partition == 3
        grow(tidelog_cluster, 5)
        sent = producer.send_columns("grown", value=[b"5", b"6"], partition=[None, 4])
        assert sent.result()[1].partition == 4
        with pytest.raises(InvalidPartitions, match=r"no partition 5: it has 5\b"):
            producer.send("grown", b"7", partition=5)


def test_asyncio_may_wait_for_the_answer_where_it_awaits(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def run() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            await producer.send("grown", b"1")
            await asyncio.to_thread(grow, tidelog_cluster, 2)
            assert (await producer.send("grown", b"2", partition=1)).partition == 1
            await asyncio.to_thread(grow, tidelog_cluster, 3)
            many = await producer.send_many("grown", [b"3"], partition=2)
            assert (await many)[0].partition == 2
            await asyncio.to_thread(grow, tidelog_cluster, 4)
            columns = await producer.send_columns("grown", value=[b"4"], partition=[3])
            assert (await columns)[0].partition == 3
            await asyncio.to_thread(grow, tidelog_cluster, 5)
            with pytest.raises(InvalidPartitions, match="has no partition 4"):
                producer.send_nowait("grown", b"5", partition=4)
            while True:  # it can't wait, and has what is known asked for
                try:
                    receipt = await producer.send_nowait("grown", b"5", partition=4)
                except InvalidPartitions:
                    await asyncio.sleep(0)
                else:
                    assert receipt.partition == 4
                    return

    asyncio.run(run())


def test_what_is_no_column_of_partitions_is_said(tidelog_cluster: InProcessCluster) -> None:
    with (
        Producer(tidelog_cluster.address) as producer,
        pytest.raises(InvalidRecord, match=r"\['x'\] is no column of partitions"),
    ):
        producer.send_columns("grown", value=[b"1"], partition=["x"])
