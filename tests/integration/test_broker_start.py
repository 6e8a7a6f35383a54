"""What callers get while a broker is on its way up: a word to wait, never a wrong answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import Client, error_of
from harness.nodes import LiveNode, run_on_node
from tidelog.wire.v1 import common_pb2
from tidelog_broker.broker import Broker


def test_a_starting_broker_asks_to_wait_and_denies_no_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart must not make producers believe that their topic is gone."""
    seen: list[common_pb2.Error] = []
    register = Broker._register

    async def look_before_registering(broker: Broker) -> None:
        async with Client(f"127.0.0.1:{broker.port}") as client:
            with pytest.raises(AioRpcError) as raised:
                await client.produce("orders", batch(b"b"))
        seen.append(error_of(raised.value))
        await register(broker)

    async def scenario(node: LiveNode) -> None:
        await node.client.produce("orders", batch(b"a"))
        monkeypatch.setattr(Broker, "_register", look_before_registering)
        await node.restart()
        assert await node.client.values("orders") == [b"a"]

    run_on_node(tmp_path / "data", scenario)
    assert [error.code for error in seen] == [common_pb2.LEADER_NOT_AVAILABLE]
    assert "is starting" in seen[0].message
