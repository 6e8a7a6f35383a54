"""A node that can't end in order, because its disk has stalled, still obeys who insists."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc

from faults.stalling_node import STALL
from harness.client import Client
from harness.processes import node_process
from support.eventually import eventually
from tidelog.records.builder import BatchBuilder

ENTRY = ("-m", "faults.stalling_node")


def batch(value: bytes) -> bytes:
    """A batch of one record."""
    builder = BatchBuilder()
    builder.append(value, None, [], 1_700_000_000_000)
    return builder.build()


async def _values(address: str) -> list[bytes | None]:
    async with Client(address) as client:
        return await client.values("orders")


def test_a_second_signal_ends_a_node_whose_disk_has_stalled(tmp_path: Path) -> None:
    async def produce_and_insist(address: str) -> None:
        async with Client(address) as client:
            assert not (await client.produce("orders", batch(b"acknowledged"))).HasField("error")
            (tmp_path / STALL).touch()
            waiting = asyncio.create_task(client.produce("orders", batch(b"under way")))
            # Again and again: how far the first signal has come can't be seen from outside.
            await asyncio.to_thread(eventually, told_and_gone, waiting_for="the node to give up")
            await asyncio.wait([waiting])
            assert isinstance(waiting.exception(), grpc.aio.AioRpcError)

    def told_and_gone() -> bool:
        if not node.has_ended:
            node.terminate()
        return node.has_ended

    with node_process(tmp_path / "data", entry=ENTRY) as node:
        node.wait_until_ready()
        asyncio.run(produce_and_insist(node.bootstrap))
        assert node.exit_code() == 1
        assert "told again while it stops" in node.log

    (tmp_path / STALL).unlink()
    with node_process(tmp_path / "data", entry=ENTRY) as node:
        node.wait_until_ready()
        assert asyncio.run(_values(node.bootstrap))[0] == b"acknowledged"
