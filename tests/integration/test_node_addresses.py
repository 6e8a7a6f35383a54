"""Listeners at other addresses than the usual one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from storage_kit.batches import batch

from harness.nodes import LiveNode, run_on_node
from harness.processes import running_node


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_node_listens_at_an_ipv6_address(tmp_path: Path) -> None:
    async def scenario(node: LiveNode) -> None:
        assert node.node.bootstrap.startswith("[::1]:")
        await node.client.produce("orders", batch(b"a"))
        assert await node.client.values("orders") == [b"a"]

    run_on_node(tmp_path / "data", scenario, listeners="[::1]:0")


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_the_flag_takes_an_ipv6_address_with_brackets_and_without(
    tmp_path: Path, host: str
) -> None:
    with running_node(tmp_path / "data", "--host", host) as node:
        assert node.bootstrap.startswith("[::1]:")
