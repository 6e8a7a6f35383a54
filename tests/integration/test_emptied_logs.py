"""A log of which every record was deleted: whoever has read it to its end still agrees with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from storage_kit.batches import batch

from harness.client import Client
from harness.processes import running_node
from tidelog import Admin, TopicPartition
from tidelog.wire.v1 import fetch_pb2, offsets_pb2

SENT = 3


async def fill_and_empty(bootstrap: str) -> None:
    async with Client(bootstrap) as client:
        await client.create("orders")
        for _ in range(SENT):  # more than a stop leaves out of its caches
            await client.produce("orders", batch(bytes(200_000)))
    with Admin(bootstrap) as admin:
        orders = TopicPartition("orders", 0)
        assert admin.delete_records({orders: "latest"}) == {orders: SENT}


async def check_agreement(bootstrap: str) -> None:
    """As between brokers: the last epoch that was read, and where."""
    async with Client(bootstrap) as client:
        request = fetch_pb2.FetchRequest()
        request.partitions.add(topic="orders", partition=0, fetch_offset=SENT, last_fetched_epoch=0)
        (answer,) = (await client.broker.Fetch(request)).partitions
        assert not answer.HasField("diverging_epoch")
        assert not answer.HasField("error")
        asked = offsets_pb2.OffsetForLeaderEpochRequest()
        for epoch in (0, 7):
            asked.partitions.add(topic="orders", partition=0, leader_epoch=epoch)
        answers = (await client.broker.OffsetForLeaderEpoch(asked)).partitions
        assert [(told.leader_epoch, told.end_offset) for told in answers] == [(0, SENT)] * 2


@pytest.mark.parametrize("loses_caches", [False, True])
def test_who_has_read_all_of_it_is_not_sent_back(tmp_path: Path, loses_caches: bool) -> None:
    """What told of epochs stood in the batches that are gone, and in a cache that may be."""
    data_dir = tmp_path / "data"
    with running_node(data_dir) as node:
        asyncio.run(fill_and_empty(node.bootstrap))
        asyncio.run(check_agreement(node.bootstrap))
        node.terminate()
        assert node.exit_code() == 0
    with running_node(data_dir) as node:
        asyncio.run(check_agreement(node.bootstrap))
        node.kill()
    if loses_caches:
        (cache,) = data_dir.glob("topics/*/0/leader-epochs")
        cache.unlink()
    for _ in range(2):
        with running_node(data_dir) as node:
            asyncio.run(check_agreement(node.bootstrap))
            node.kill()
