"""A node whose metadata store is gone doesn't begin a new cluster on top of the old logs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidelog.errors import StorageError
from tidelog_node.node import Node
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.control import NewTopic
from tidelog_runtime.principal import ANONYMOUS


def test_topics_without_a_metadata_store_are_refused_in_words(tmp_path: Path) -> None:
    config = default_broker_config(
        data_dir=str(tmp_path), listeners="127.0.0.1:0", internal_port="0", metrics_port="0"
    )

    async def main() -> None:
        node = Node(config, LocalDisk(tmp_path))
        await node.start()
        await node.controller.create_topics([NewTopic("orders")], principal=ANONYMOUS)
        await node.broker.assignments.wait_current()
        await node.stop()
        (tmp_path / "metadata" / "store.log").unlink()
        with pytest.raises(StorageError, match="metadata store"):
            await Node(config, LocalDisk(tmp_path)).start()

    asyncio.run(main())
