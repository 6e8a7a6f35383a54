"""The real node inside a test's own process: started in a moment, stopped, restarted, cut off.

The pytest fixture `tidelog_cluster` hands one out; programs may make their own. It runs on an
event loop in a thread of its own, so that synchronous and asyncio tests use it alike. Its address
stays the same through restarts, and its data stay until it is closed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

from tidelog.engine.loop_thread import LoopThread
from tidelog.errors import TidelogError
from tidelog.records.record import Record
from tidelog_node.node import Node
from tidelog_node.testing.log_reading import read_topic
from tidelog_node.testing.relay import Relay
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.configs.endpoint import parse_endpoint

#: What a test wants unless it says otherwise: free ports, and no wait for the disk. A restart
#: stops the node cleanly, so nothing is lost by that.
DEFAULTS: Final = {
    "listeners": "127.0.0.1:0",
    "internal_port": "0",
    "metrics_port": "0",
    "flush_policy": "os",
}


class InProcessCluster:
    """A one-node cluster for tests. Broker configuration by snake_case names: `num_partitions=3`.

    A context manager: entering starts it, leaving closes it.
    """

    def __init__(self, data_dir: Path | str | None = None, **config: str | int) -> None:
        self._temporary = None if data_dir else tempfile.TemporaryDirectory(prefix="tidelog-test-")
        self.data_dir = Path(data_dir or self._temporary_name())
        self._config = DEFAULTS | {name: str(value) for name, value in config.items()}
        self._thread: LoopThread | None = None
        self._relay: Relay | None = None
        self._node: Node | None = None

    def __enter__(self) -> InProcessCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Starts the node on its data; does nothing while it runs."""
        if self._thread is None:
            self._thread = LoopThread("tidelog-test-cluster")
        if self._node is None:
            self._thread.call(self._start())

    def stop(self) -> None:
        """Stops the node cleanly: its data and its address stay, for `start`."""
        if self._thread is not None and self._node is not None:
            self._thread.call(self._stop())

    def restart(self) -> None:
        """Stops and starts it: connections end, the data and the address stay."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops everything and forgets the data it made a place for."""
        if self._thread is not None:
            self.stop()
            self._thread.call(self._stop_relay())
            self._thread.stop()
            self._thread = None
        if self._temporary is not None:
            self._temporary.cleanup()

    # ------------------------------------------------------------------ use

    @property
    def address(self) -> str:
        """What to give to clients: "127.0.0.1:port", the same for as long as this lives."""
        return self._started_relay().address

    @property
    def is_running(self) -> bool:
        """Whether the node runs."""
        return self._node is not None

    @property
    def metrics_url(self) -> str:
        """Where Prometheus would scrape; another one after each start."""
        return self._running_node().metrics_url

    @property
    def internal_address(self) -> str:
        """Where the cluster's own services would come; another one after each start."""
        return f"127.0.0.1:{self._running_node().broker.internal_port}"

    def cut_network(self, *, silently: bool = False) -> None:
        """Cuts clients off: their connections are reset, and new ones too.

        Silently, nothing is reset: bytes are held back, as when a cable was pulled, and clients
        have to notice by themselves.
        """
        relay = self._started_relay()
        self._running_thread().call(relay.cut(silently=silently))

    def heal_network(self) -> None:
        """Lets clients through again."""
        self._running_thread().loop.call_soon_threadsafe(self._started_relay().heal)

    @property
    def is_holding_back(self) -> bool:
        """Whether a silent cut has something to hold back by now: bytes, or a new connection."""
        return self._started_relay().is_holding_back

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """What stands in the topic, read past clients and network: all committed records.

        Partition after partition, each in the order of its offsets. Raises UnknownTopic.
        """
        reading = read_topic(self._running_node().bootstrap, topic, partition)
        try:
            return self._running_thread().call(reading)
        except TidelogError as error:
            # Whoever keeps the error would keep the channel alive through the frames below.
            raise error.with_traceback(None) from None

    # ------------------------------------------------------------------ on the loop

    async def _start(self) -> None:
        if self._relay is None:
            relay = Relay()
            await relay.start()
            self._relay = relay
        config = default_broker_config(data_dir=str(self.data_dir), **self._config)
        node = Node(config, LocalDisk(config.data_dir))
        await node.start()
        self._node = node
        listener = parse_endpoint(node.bootstrap, key="listeners", where="of the test's node")
        self._relay.target = (listener.host, listener.port)

    async def _stop(self) -> None:
        node, self._node = self._node, None
        relay = self._started_relay()
        relay.target = None
        if node is not None:
            await node.stop()
        await relay.drop_connections()

    async def _stop_relay(self) -> None:
        if self._relay is not None:
            await self._relay.stop()

    def _temporary_name(self) -> str:
        assert self._temporary is not None
        return self._temporary.name

    def _running_node(self) -> Node:
        if self._node is None:
            raise RuntimeError("The cluster does not run: call start(), or use it in `with`")
        return self._node

    def _running_thread(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("The cluster was not started: call start(), or use it in `with`")
        return self._thread

    def _started_relay(self) -> Relay:
        if self._relay is None:
            raise RuntimeError("The cluster was not started: call start(), or use it in `with`")
        return self._relay
