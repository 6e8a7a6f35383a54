"""One node: the services in one process, put together here and nowhere else.

A list of steps, each with how to bring it up and how to take it down: the store, the mirror of it,
the controller, the coordinator, the broker, the metrics page. The same constructors serve the
simulator, which passes other adapters; what is chosen here is what runs in the real world.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidelog.errors import StorageError
from tidelog_broker.broker import (
    SYNC_THREADS,
    Broker,
    BrokerPorts,
    Progress,
    listeners_of,
    reachable,
)
from tidelog_broker.storage.names import TOPICS
from tidelog_controller import Controller
from tidelog_group_coordinator import GroupCoordinator
from tidelog_node.metrics_page import MetricsPage
from tidelog_runtime.adapters.descriptors import open_files_within_limit
from tidelog_runtime.adapters.grpc_serving import GrpcServing, ServerLimits, check_bindable
from tidelog_runtime.adapters.kernel_syncs import KernelSyncs
from tidelog_runtime.adapters.system_clock import SystemClock
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.configs.broker import BrokerConfig
from tidelog_runtime.configs.endpoint import Endpoint
from tidelog_runtime.disk import Disk, Lock
from tidelog_runtime.lifecycle import Lifecycle, Step
from tidelog_runtime.metadata_store.embedded import DEFAULT_PATH, EmbeddedMetadataStore
from tidelog_runtime.metrics import ServiceMetrics
from tidelog_runtime.principal import ANONYMOUS
from tidelog_runtime.reserving_disk import ReservingDisk
from tidelog_runtime.serving import Listener

#: Held for as long as the node lives: the metadata store and the logs belong to one process.
NODE_LOCK: Final = "node.lock"


def check_addresses(config: BrokerConfig) -> None:
    """AddressUnavailable where an address can't be had, while nothing was touched.

    Whoever takes one after this is met when it is opened.
    """
    host, port = config.listener.host, config.metrics_port
    metrics = Listener("metrics", host, port, ANONYMOUS, "metrics.port")
    for listener in (*listeners_of(config), metrics):
        check_bindable(listener)


class Node:
    """See the module. `on_failure` is called once when a part fails that nothing restarts."""

    def __init__(
        self, config: BrokerConfig, disk: Disk, on_failure: Callable[[], None] | None = None
    ) -> None:
        config = replace(config, max_open_files=open_files_within_limit(config.max_open_files))
        self.config = config
        #: What failed first that nothing restarts.
        self.failure: BaseException | None = None
        self._on_failure = on_failure
        self._disk = disk = ReservingDisk(disk)
        self._lock: Lock | None = None
        self._progress: Progress | None = None
        self._threads = KernelSyncs(SYNC_THREADS)
        self.store = EmbeddedMetadataStore(disk)
        self.mirror = ClusterMirror(self.store)
        entropy = random.SystemRandom()
        self.controller = Controller(
            self.store,
            self.mirror,
            config,
            entropy,
            address=str(config.listener),
            on_failure=self._fail,
        )
        self.coordinator = GroupCoordinator()
        self.broker = Broker(
            config,
            BrokerPorts(
                disk=disk,
                store=self.store,
                mirror=self.mirror,
                controller=self.controller,
                clock=SystemClock(),
                random=entropy,
                serving=GrpcServing(
                    ServerLimits(config.socket_request_max_bytes, config.max_concurrent_rpcs)
                ),
                on_failure=self._fail,
                threads=self._threads,
            ),
        )
        self.metrics = ServiceMetrics()
        self.metrics.add(self.broker.metrics)
        self._metrics_page = MetricsPage(self.metrics.registry)
        self._lifecycle = Lifecycle(self._steps())

    def _steps(self) -> list[Step]:
        return [
            Step("lock", self._acquire_lock, self._release_lock),
            Step("addresses", self._check_addresses),
            Step("threads", self._start_threads, self._stop_threads),
            Step("metadata store", self._open_store, self.store.close),
            Step("mirror", self.mirror.start, self.mirror.stop),
            Step("controller", self._start_controller, self.controller.stop),
            Step("group coordinator", self.coordinator.start, self.coordinator.stop),
            Step("broker", self._start_broker, self.broker.stop),
            Step("metrics", self._start_metrics, self._metrics_page.stop),
        ]

    async def start(self, progress: Progress | None = None) -> None:
        """Brings everything up; `progress` hears of each log that is recovered."""
        self._progress = progress
        await self._lifecycle.start()

    async def stop(self) -> None:
        """Takes everything down in order: all that was taken is answered, all written synced."""
        await self._lifecycle.stop()

    @property
    def bootstrap(self) -> str:
        """The address to give to clients."""
        return str(Endpoint(reachable(self.config.listener.host), self.broker.port))

    @property
    def metrics_url(self) -> str:
        """Where Prometheus scrapes."""
        return self._metrics_page.url

    def _fail(self, failure: BaseException) -> None:
        self.failure = self.failure or failure
        if self._on_failure is not None:
            self._on_failure()

    async def _acquire_lock(self) -> None:
        self._disk.make_directory("")
        self._lock = self._disk.acquire_lock(NODE_LOCK)

    async def _check_addresses(self) -> None:
        # The lock comes first: who holds the directory says more than who holds a port.
        check_addresses(self.config)

    async def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    async def _open_store(self) -> None:
        try:
            await self.store.open()
            await self._refuse_lost_store()
        except BaseException:
            await self.store.close()
            raise

    async def _refuse_lost_store(self) -> None:
        """Refuses an empty store beside logs, whose topics it ought to know."""
        known = await self.store.range("")
        if not known.items and self._disk.exists(TOPICS) and self._disk.list_directory(TOPICS):
            raise StorageError(
                f"The data directory {self.config.data_dir} holds topics, and its metadata store"
                f" ({DEFAULT_PATH}) is empty or gone",
                hint="Restore that file from a copy, or begin with an empty data directory",
            )

    async def _start_threads(self) -> None:
        self._threads.open()

    async def _stop_threads(self) -> None:
        self._threads.close()

    async def _start_controller(self) -> None:
        await self.controller.start()
        try:
            await self.controller.wait_until_active()
        except BaseException:
            await self.controller.stop()
            raise

    async def _start_broker(self) -> None:
        await self.broker.start(self._progress)

    async def _start_metrics(self) -> None:
        await self._metrics_page.start(self.config.listener.host, self.config.metrics_port)
