"""One node (metadata store, mirror, controller, broker) on the ports of a simulated world.

What `tidelog_node.node` puts together for the real world, put together from the same parts. The
node runs in a process of its own on the host "node"; a kill, a power cut or a failure of its own
ends that process, and `start` begins another on what the disk still holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from unittest import mock

from simulation.process import Process, ProcessState
from simulation.serving import SimulatedServing
from simulation.threads import SimulatedThreads
from simulation.world import World
from tidelog_broker import broker as broker_module
from tidelog_broker.broker import Broker, BrokerPorts
from tidelog_broker.storage.config import StorageConfig
from tidelog_controller import Controller
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.configs.broker import BrokerConfig, default_broker_config
from tidelog_runtime.lifecycle import Lifecycle, Step
from tidelog_runtime.metadata_store.embedded import EmbeddedMetadataStore
from tidelog_runtime.reserving_disk import ReservingDisk

HOST = "node"
PORT = 9094
ADDRESS = f"{HOST}:{PORT}"
#: Of a disk whose whole state is copied at each power cut.
RESERVE_BYTES = 2048
#: What a supervisor lets pass before it starts a process that ended.
RESTART_AFTER_S = 0.5


class NodeProcess:
    """The services of one process, from its start to its end."""

    def __init__(self, cluster: Cluster) -> None:
        world, disk = cluster.world, ReservingDisk(cluster.disk, RESERVE_BYTES)
        #: What failed that nothing restarts.
        self.failure: BaseException | None = None
        #: Whether it has begun to serve.
        self.is_up = False
        self._over = asyncio.Event()
        self.store = EmbeddedMetadataStore(disk)
        self.mirror = ClusterMirror(self.store)
        entropy = world.stream("node/entropy")
        self.controller = Controller(
            self.store,
            self.mirror,
            cluster.config,
            entropy,
            address=ADDRESS,
            on_failure=self._fail,
        )
        self.broker = Broker(
            cluster.config,
            BrokerPorts(
                disk=disk,
                store=self.store,
                mirror=self.mirror,
                controller=self.controller,
                clock=cluster.clock,
                random=entropy,
                serving=SimulatedServing(world.network.host(HOST)),
                on_failure=self._fail,
                threads=SimulatedThreads(),
            ),
        )
        self._lifecycle = Lifecycle(
            [
                Step("metadata store", self.store.open, self.store.close),
                Step("mirror", self.mirror.start, self.mirror.stop),
                Step("controller", self._start_controller, self.controller.stop),
                Step("broker", self.broker.start, self.broker.stop),
            ]
        )

    async def run(self) -> None:
        """Serve until told to stop, or until a part fails that nothing restarts."""
        await self._lifecycle.start()
        self.is_up = True
        await self._over.wait()
        await self._lifecycle.stop()

    async def _start_controller(self) -> None:
        await self.controller.start()
        await self.controller.wait_until_active()

    def stop(self) -> None:
        """Have `run` end in order."""
        self._over.set()

    def _fail(self, failure: BaseException) -> None:
        self.failure = self.failure or failure
        self._over.set()


class Cluster:
    """The one node, its disk and its clock, and what may happen to them."""

    def __init__(self, world: World, *, whole_volume: bool = False, **config: str) -> None:
        self.world = world
        self.config: BrokerConfig = default_broker_config(
            listeners=f"0.0.0.0:{PORT}", internal_port="0", metrics_port="0", **config
        )
        self.disk = world.disk(HOST, whole_volume=whole_volume)
        self.clock = world.wall_clock(HOST)
        #: How processes ended that nobody told to: while they served, and before they did.
        self.failures: list[str] = []
        self.failed_starts: list[str] = []
        self._process: Process | None = None
        self._main: asyncio.Task[None] | None = None
        self._node: NodeProcess | None = None
        self._supervised = False
        self._restart: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process, paused ones included."""
        return self._process is not None

    def start(self) -> None:
        """Start a process on what the disk holds; it is started again when it ends by itself."""
        assert self._process is None, "the node runs already"
        self._end()
        process = self._process = self.world.process(HOST)
        node = self._node = process.call(lambda: NodeProcess(self))
        self._supervised = True
        self._main = process.spawn(node.run(), name="node-main")
        self._main.add_done_callback(self._on_end)

    def kill(self) -> None:
        """SIGKILL: the page cache survives."""
        self._end()
        self.disk = self.disk.kill()

    def cut_power(self) -> None:
        """The power goes, and with it all that was not synced; `power_on` comes before `start`."""
        self.world.network.darken(HOST)
        self._end()
        self.disk = self.disk.crash()

    def power_on(self) -> None:
        """Power is back; nothing runs yet."""
        self.world.network.relight(HOST)

    async def stop(self) -> None:
        """SIGTERM: the process ends in its own order."""
        self._supervised = False
        main, node = self._main, self._node
        if node is None or main is None:
            return
        node.stop()
        await asyncio.wait([main])
        self._note_failure(main, node)
        self._end()
        self.disk = self.disk.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self._process is not None and self._process.state is ProcessState.PAUSED:
            self._process.resume()

    def _end(self) -> None:
        self._supervised = False
        if self._restart is not None:
            self._restart.cancel()
        process, self._process, self._node = self._process, None, None
        if self._main is not None and self._main.done() and not self._main.cancelled():
            # It ended in the instant in which it is killed: nobody is left to hear why.
            self._main.exception()
        if process is not None:
            process.kill()

    def _note_failure(self, main: asyncio.Task[None], node: NodeProcess) -> None:
        error = node.failure or (None if main.cancelled() else main.exception())
        if error is not None:
            text = f"t={self.world.now()}: {error!r}"
            (self.failures if node.is_up else self.failed_starts).append(text)
            self.world.trace.record(f"the node's process ended: {error!r}")

    def _on_end(self, main: asyncio.Task[None]) -> None:
        if not self._supervised or main is not self._main:
            return
        assert self._node is not None
        self._note_failure(main, self._node)
        self._end()
        self.disk = self.disk.kill()
        self._restart = self.world.loop.call_later(RESTART_AFTER_S, self.start)


@contextlib.contextmanager
def storage_changed(change: Callable[[StorageConfig], StorageConfig]) -> Iterator[None]:
    """Let brokers keep smaller files than their configuration can ask for: more happens sooner."""
    original = broker_module.storage_config
    with mock.patch.object(
        broker_module, "storage_config", lambda config: change(original(config))
    ):
        yield


class ErrorLog(logging.Handler):
    """What Tidelog's own loggers say at ERROR while a scenario runs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line with what it was caused by."""
        cause = f": {record.exc_info[1]!r}" if record.exc_info else ""
        self.lines.append(f"{record.name}: {record.getMessage()}{cause}")

    @contextlib.contextmanager
    def listening(self) -> Iterator[ErrorLog]:
        """Take the place of what would show the lines."""
        names = ("tidelog", "tidelog_broker", "tidelog_controller", "tidelog_runtime")
        loggers = [logging.getLogger(name) for name in names]
        before = [logger.propagate for logger in loggers]
        for logger in loggers:
            logger.addHandler(self)
            logger.propagate = False
        try:
            yield self
        finally:
            for logger, propagate in zip(loggers, before, strict=True):
                logger.removeHandler(self)
                logger.propagate = propagate
