"""A node in this process, on free ports, for the length of one test.

`on_node` makes a test of a coroutine that is given a `LiveNode`; `run_on_node` is the same for
tests with parameters. The node's log is an oracle: an ERROR that the test does not announce fails
it, whatever the answers on the wire were.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from harness.client import Client
from tidelog_node.node import Node
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.disk import Disk

FREE_PORTS: Final = {"listeners": "127.0.0.1:0", "internal_port": "0", "metrics_port": "0"}
#: Turns a test that would hang into one that fails; says nothing about speed.
HANG_S: Final = 180.0

MakeDisk = Callable[[str], Disk]


class ErrorLog(logging.Handler):
    """What was logged as an error while a node ran."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the event with what it was caused by."""
        cause = f": {record.exc_info[1]!r}" if record.exc_info else ""
        self.lines.append(f"{record.name}: {record.getMessage()}{cause}")

    def unexpected(self, expected: tuple[str, ...]) -> list[str]:
        """The lines that no expected pattern is found in."""
        return [line for line in self.lines if not any(re.search(word, line) for word in expected)]


class LiveNode:
    """A running node, a client of its public listener and one of its internal one."""

    def __init__(self, data_dir: Path, config: dict[str, str], make_disk: MakeDisk) -> None:
        self.data_dir = data_dir
        self.config = config
        self._make_disk = make_disk
        self.disk: Disk
        self.node: Node
        self.client: Client
        self.internal: Client

    async def __aenter__(self) -> LiveNode:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts a node on the data directory."""
        settings = FREE_PORTS | self.config
        self.disk = self._make_disk(str(self.data_dir))
        config = default_broker_config(data_dir=str(self.data_dir), **settings)
        self.node = Node(config, self.disk)
        await self.node.start()
        self.client = Client(self.node.bootstrap)
        self.internal = Client(f"127.0.0.1:{self.node.broker.internal_port}")

    async def stop(self) -> None:
        """Stops it cleanly."""
        await self.client.channel.close()
        await self.internal.channel.close()
        await self.node.stop()

    async def restart(self, **config: str) -> None:
        """Stops and starts it, with some configs changed."""
        await self.stop()
        self.config = self.config | config
        await self.start()


Scenario = Callable[[LiveNode], Coroutine[Any, Any, None]]


def run_on_node(
    data_dir: Path,
    scenario: Scenario,
    *,
    make_disk: MakeDisk = LocalDisk,
    expected_errors: tuple[str, ...] = (),
    **config: str,
) -> None:
    """Runs a scenario on a node of its own; config by snake_case names."""

    async def main() -> None:
        async with asyncio.timeout(HANG_S), LiveNode(data_dir, config, make_disk) as node:
            await scenario(node)

    errors = ErrorLog()
    root = logging.getLogger()
    root.addHandler(errors)
    try:
        asyncio.run(main())
    finally:
        root.removeHandler(errors)
        # A caught error keeps its call, and so grpc's poller thread, until it is collected.
        gc.collect()
    assert errors.unexpected(expected_errors) == []


def on_node(
    *,
    make_disk: MakeDisk = LocalDisk,
    expected_errors: tuple[str, ...] = (),
    **config: str,
) -> Callable[[Scenario], Callable[[Path], None]]:
    """Makes a test of a scenario."""

    def decorate(scenario: Scenario) -> Callable[[Path], None]:
        def test(tmp_path: Path) -> None:
            run_on_node(
                tmp_path / "data",
                scenario,
                make_disk=make_disk,
                expected_errors=expected_errors,
                **config,
            )

        test.__name__ = scenario.__name__
        test.__doc__ = scenario.__doc__
        return test

    return decorate
