"""A node at rest: how soon it is ready, how much memory it holds, with 100 partitions on disk."""

from __future__ import annotations

import asyncio
import tempfile
import time
from typing import Final

import grpc

from bench.measuring import Row, row
from bench.servers import Server, broker
from tidelog.wire.v1 import admin_pb2, admin_pb2_grpc

PARTITIONS: Final = 100
#: What a service does right after its start (first timers, first scrapes) is over by then.
SETTLE_S: Final = 2.0


async def create_topic(server: Server) -> None:
    """Puts the partitions on the disk."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        topic = admin_pb2.NewTopic(name="at-rest", partitions=PARTITIONS)
        answer = await admin_pb2_grpc.AdminStub(channel).CreateTopics(
            admin_pb2.CreateTopicsRequest(topics=[topic])
        )
        assert not answer.topics[0].HasField("error"), answer.topics[0].error


def run(repeat: int) -> list[Row]:
    """The rows of this bench."""
    ready_s, pss_mb = [], []
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as data_dir:
        with broker(data_dir) as server:
            asyncio.run(create_topic(server))
        for _ in range(repeat):
            started = time.perf_counter()
            with broker(data_dir) as server:
                ready_s.append(time.perf_counter() - started)
                time.sleep(SETTLE_S)
                pss_mb.append(server.pss_bytes() / 1e6)
    return [
        row(f"start to ready, {PARTITIONS} partitions on disk", "s", ready_s),
        row(f"memory at rest, {PARTITIONS} partitions", "MB PSS", pss_mb),
    ]
