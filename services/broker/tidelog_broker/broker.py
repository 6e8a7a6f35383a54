"""The broker: one object that owns a data directory, its partitions, and the calls on them.

The composition root (`tidelog_node`, later a process of its own, or the simulator) hands in the
ports; `start` and `stop` bring the parts up and down in an order that loses nothing: clients are
let in last, and on the way down everything taken is answered and synced before the clean marker.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotLeader,
    RequestTimedOut,
    StorageError,
    TidelogError,
)
from tidelog.model import BrokerId, Offset, TopicId
from tidelog.wire.v1 import common_pb2, produce_pb2
from tidelog_broker.api.registration import add_admin_service, add_broker_service
from tidelog_broker.api.service import (
    ADMIN_SERVICE,
    BROKER_SERVICE,
    AdminService,
    BrokerService,
    Calls,
)
from tidelog_broker.auto_create import AutoCreate
from tidelog_broker.broker_metrics import BrokerMetrics
from tidelog_broker.in_flight import InFlightBytes
from tidelog_broker.limits import BrokerLimits
from tidelog_broker.partition.assignments import Assignments
from tidelog_broker.partition.replicas import Replicas
from tidelog_broker.producer_ids import ProducerIds
from tidelog_broker.stopping import Stopping
from tidelog_broker.storage.config import FlushPolicy, StorageConfig
from tidelog_broker.storage.data_directory import DataDirectory, RecoveryProgress
from tidelog_broker.storage.group_commit import GroupCommit
from tidelog_broker.storage.log import Log
from tidelog_runtime.broker_registration import register_broker
from tidelog_runtime.clock import WallClock
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import BrokerRegistration
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.configs.broker import BrokerConfig
from tidelog_runtime.control import Controller
from tidelog_runtime.disk import Disk
from tidelog_runtime.lifecycle import Background
from tidelog_runtime.metadata_store import LeaseId, LeaseLost, MetadataStore
from tidelog_runtime.principal import ANONYMOUS, INTERNAL
from tidelog_runtime.serving import Listener, RunningServer, Serving
from tidelog_runtime.threads import Threads

if TYPE_CHECKING:
    from grpc.aio import Server

logger = logging.getLogger(__name__)

MIB: Final = 1024 * 1024
#: The cluster takes a broker for dead this long after its last sign of life.
LEASE_MS: Final = 9_000
LEASE_RENEWALS: Final = 3
FETCH_CREDIT_BYTES_MAX: Final = 256 * MIB
FETCH_PARTITIONS_MAX: Final = 10_000
#: While answers of so many bytes wait to be taken by clients, further ones hold a batch each. On
#: its way an answer is there up to three times.
ANSWERS_BYTES_MAX: Final = 128 * MIB
#: What running calls get to end by themselves once everything they wait for is answered.
STOP_GRACE_S: Final = 2.0
#: How often the free space is looked at, and what was deleted is removed.
SPACE_CHECK_S: Final = 1.0
#: Files that are synced at a time, by the kernel or by threads, which are begun as they are needed.
#: A sync mostly waits for the file system's own commit, and those that wait together share one: a
#: hundred files take 17 ms by 4 threads, 6 by 50.
SYNC_THREADS: Final = 32
#: So many logs are looked at for old segments before callers have their turn again.
RETENTION_LOGS: Final = 16
PORT_MAX: Final = 65_535
PORT_DIGITS_MAX: Final = 5

Progress = Callable[[RecoveryProgress], None]


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """Everything a broker reaches the outside through."""

    disk: Disk
    store: MetadataStore
    mirror: ClusterMirror
    controller: Controller
    clock: WallClock
    random: random.Random
    serving: Serving
    on_failure: Callable[[BaseException], None]
    threads: Threads


class Broker:
    """See the module. `api/` handlers reach everything they need through it."""

    def __init__(self, config: BrokerConfig, ports: BrokerPorts) -> None:
        self.config = config
        self.clock = ports.clock
        self.controller = ports.controller
        self.broker_id = BrokerId(config.node_id)
        self.limits = BrokerLimits(
            request_bytes_max=config.socket_request_max_bytes,
            fetch_bytes_max=config.fetch_max_bytes,
            fetch_credit_bytes_max=FETCH_CREDIT_BYTES_MAX,
            fetch_partitions_max=FETCH_PARTITIONS_MAX,
        )
        self.stopping = Stopping(f"Broker {self.broker_id}")
        self.in_flight = InFlightBytes(config.queued_max_request_bytes)
        self.answers = InFlightBytes(ANSWERS_BYTES_MAX)
        self.replicas = Replicas()
        self.assignments = Assignments(
            config, ports.mirror, self.replicas, self.stopping, ports.clock
        )
        self.auto_create = AutoCreate(
            ports.controller, self.assignments, enabled=config.auto_create_topics_enable
        )
        self.producer_ids = ProducerIds(ports.controller)
        self.metrics = BrokerMetrics(self)
        self._ports = ports
        self._background = Background(ports.on_failure)
        self._directory: DataDirectory | None = None
        self._commits: GroupCommit | None = None
        self._servers: list[RunningServer] = []
        self._lease_id: LeaseId | None = None
        self._knows_partitions = False

    # ------------------------------------------------------------------ what handlers ask

    @property
    def view(self) -> ClusterView:
        """The cluster as this broker's mirror shows it."""
        return self._ports.mirror.view

    @property
    def cluster_id(self) -> str:
        """The name this cluster gave itself when it began."""
        return self.view.meta.cluster_id if self.view.meta is not None else ""

    @property
    def features(self) -> dict[str, int]:
        """The feature levels the cluster has settled on."""
        return dict(self.view.meta.features) if self.view.meta is not None else {}

    @property
    def controller_id(self) -> int:
        """The broker that runs the active controller, as far as clients need to know."""
        return min(self.view.brokers, default=self.broker_id)

    @property
    def directory(self) -> DataDirectory:
        """The open data directory."""
        assert self._directory is not None, "the broker has not been started"
        return self._directory

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._servers[0].port

    @property
    def internal_port(self) -> int:
        """Where the services of the cluster connect."""
        return self._servers[1].port

    @property
    def running_calls(self) -> int:
        """The calls and streams that all listeners serve now."""
        return sum(server.running_calls for server in self._servers)

    @property
    def refused_calls(self) -> int:
        """How many found no room at a listener, since the start."""
        return sum(server.refused_calls for server in self._servers)

    def check_open(self) -> None:
        """Refuses calls while the broker stops, and while it doesn't know its partitions yet."""
        self.stopping.check()
        if not self._knows_partitions:
            raise LeaderNotAvailable(
                f"Broker {self.broker_id} is starting", hint="Ask again in a moment"
            )

    def endpoints(self, dialled_address: str) -> list[common_pb2.BrokerEndpoint]:
        """Where clients reach each broker.

        A broker without a configured address is told as what the caller dialled: that worked.
        """
        found = []
        for broker_id in sorted(self.view.brokers):
            registration = self.view.brokers[broker_id]
            host, port = registration.host, registration.port
            if broker_id == self.broker_id and self.config.advertised_listener is None:
                host, port = dialled(dialled_address) or (host, port)
            found.append(
                common_pb2.BrokerEndpoint(
                    broker_id=broker_id, host=host, port=port, rack=registration.rack
                )
            )
        return found

    def add_leader_hint(
        self,
        hint: produce_pb2.LeaderHint,
        topic: str,
        topic_id: bytes,
        number: int,
        error: TidelogError,
    ) -> None:
        """Tells a caller who came to the wrong broker which one is right, if that is known."""
        if not isinstance(error, NotLeader | FencedLeaderEpoch | LeaderNotAvailable):
            return
        view = self.view
        known = view.topic_by_id(TopicId(topic_id)) if topic_id else view.topic(topic)
        state = view.partition(known.topic_id, number) if known is not None else None
        if state is None:
            return
        hint.leader_id, hint.leader_epoch = state.leader, state.leader_epoch
        registration = view.brokers.get(state.leader)
        if registration is not None:
            hint.endpoint.broker_id = registration.broker_id
            hint.endpoint.host, hint.endpoint.port = registration.host, registration.port

    # ------------------------------------------------------------------ up

    async def start(self, progress: Progress | None = None) -> None:
        """Opens the data directory, recovers, registers, and lets callers in."""
        try:
            await self._open_storage(progress)
            await self._open_listeners()
            await self._register()
            self.assignments.begin(self.directory, self._group_commit)
            self._knows_partitions = True
            self._background.spawn("assignments", self.assignments.follow())
            self._background.spawn("checkpoints", self._checkpoint_forever())
            self._background.spawn("disk-space", self._watch_space_forever())
            self._background.spawn("retention", self._retain_forever())
            for server in self._servers:
                await server.set_ready(True)
        except BaseException:
            await self.abort()
            raise

    async def _open_storage(self, progress: Progress | None) -> None:
        ports = self._ports
        self._directory = DataDirectory.open(
            ports.disk,
            storage_config(self.config),
            new_storage_uuid=ports.random.randbytes(16),
            now_ms=self.clock.now_ms(),
            progress=progress,
        )
        self._commits = GroupCommit(
            self._directory,
            threads=ports.threads,
            on_durable=self._on_durable,
            on_fault=self._on_fault,
        )
        self._background.spawn("group-commit", self._commits.run())

    @property
    def _group_commit(self) -> GroupCommit:
        assert self._commits is not None
        return self._commits

    async def _open_listeners(self) -> None:
        for listener in listeners_of(self.config):
            calls = Calls(self, listener.principal, self.metrics.calls)

            def register(server: Server, calls: Calls = calls) -> None:
                add_broker_service(BrokerService(calls), server)
                add_admin_service(AdminService(calls), server)

            server = await self._ports.serving(listener, register, (BROKER_SERVICE, ADMIN_SERVICE))
            self._servers.append(server)

    async def _register(self) -> None:
        store = self._ports.store
        advertised = self.config.advertised_listener
        listener = self.config.listener
        registration = BrokerRegistration(
            broker_id=self.broker_id,
            host=advertised.host if advertised else reachable(listener.host),
            port=advertised.port if advertised else self.port,
            internal_host=reachable(listener.host),
            internal_port=self.internal_port,
            flush_policy=self.config.flush_policy,
            storage_uuid=self.directory.storage_uuid,
        )
        lease_id = await store.grant_lease(LEASE_MS)
        self._lease_id = lease_id
        epoch = await register_broker(store, registration, lease_id)
        await self._ports.mirror.wait_for(epoch)
        self._background.spawn("lease", self._keep_lease_forever(registration))

    # ------------------------------------------------------------------ while it runs

    def _on_durable(self, log: Log, end: int) -> None:
        partition = self.replicas.get(log.partition_id)
        if partition is not None:
            partition.on_durable(Offset(end))

    def _on_fault(self, log: Log, error: OSError) -> None:
        logger.error("a sync failed: the partition takes no more writes", exc_info=error)
        partition = self.replicas.get(log.partition_id)
        if partition is not None:
            partition.fail_for_disk(str(error), "synced")

    async def _keep_lease_forever(self, registration: BrokerRegistration) -> None:
        store = self._ports.store
        while True:
            await asyncio.sleep(LEASE_MS / 1000 / LEASE_RENEWALS)
            assert self._lease_id is not None
            try:
                await store.keep_lease(self._lease_id)
            except LeaseLost:
                logger.warning("the broker's lease ran out: it registers anew")
                lease_id = await store.grant_lease(LEASE_MS)
                self._lease_id = lease_id
                await register_broker(store, registration, lease_id)

    async def _checkpoint_forever(self) -> None:
        interval_s = self.config.replica_high_watermark_checkpoint_interval_ms / 1000
        while True:
            await asyncio.sleep(interval_s)
            await self._group_commit.write_watermarks()

    async def _watch_space_forever(self) -> None:
        """Keeps the reserve: what deletes and metadata need when the disk is otherwise full.

        Ends the broker when the data directory has gone.
        What was deleted gives its space back here, step by step and off the event loop.
        """
        while True:
            await asyncio.sleep(SPACE_CHECK_S)
            try:
                self.directory.check_place()
                self.directory.can_append(self.clock.now_ms())
                await self._purge_deleted()
            except OSError as error:
                logger.error("the space of the disk can't be looked after: %s", error)

    async def _purge_deleted(self) -> None:
        for step in self.directory.purge_steps(self.clock.now_ms()):
            (error,) = await self._ports.threads.run([step])
            if error is not None:
                logger.error("a deleted file is left until the next start: %s", error)

    async def _retain_forever(self) -> None:
        interval_s = self.config.log_retention_check_interval_ms / 1000
        loop = asyncio.get_running_loop()
        ran_at = loop.time()
        while True:
            await asyncio.sleep(interval_s)
            elapsed_ms = int((loop.time() - ran_at) * 1000)
            ran_at += elapsed_ms / 1000
            logs = self.directory.logs()
            for first in range(0, len(logs), RETENTION_LOGS):
                some = logs[first : first + RETENTION_LOGS]
                for log in some:
                    log.expire_producers(elapsed_ms)
                self._retain(some)
                # Thousands of logs take seconds: callers and leases have their turn between.
                await asyncio.sleep(0)

    def _retain(self, logs: Sequence[Log]) -> None:
        sound = [log for log in logs if log.fault is None]
        try:
            self.directory.run_retention(self.clock.now_ms(), logs)
        except StorageError as error:
            logger.error("retention could not run, trying again later: %s", error)
        for log in sound:
            if log.fault is not None:
                self._on_fault(log, OSError(errno.EIO, log.fault))

    # ------------------------------------------------------------------ down

    async def stop(self) -> None:
        """Answers what was taken, syncs, writes the clean marker and leaves the cluster."""
        for server in self._servers:
            await server.set_ready(False)
        self.stopping.set()
        if self._commits is not None:
            await self._commits.drain()
        for partition in self.replicas:
            partition.fail(RequestTimedOut("The broker stopped before the batch was committed"))
        await self._close_servers(STOP_GRACE_S)
        await self._end_background()
        await self._leave()

    async def abort(self) -> None:
        """Takes down what a failed start has brought up."""
        await self._close_servers(0)
        await self._end_background()
        await self._leave()

    async def _end_background(self) -> None:
        if self._commits is not None:
            # Else nobody would hear how its syncs have ended.
            await self._commits.round_ended()
        await self._background.cancel()
        # A thread does not end with the task that waited for it, and may be at the same files.
        await self._ports.threads.idle()
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    async def _close_servers(self, grace_s: float) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            await server.stop(grace_s)

    async def _leave(self) -> None:
        if self._lease_id is not None:
            lease_id, self._lease_id = self._lease_id, None
            await self._ports.store.revoke_lease(lease_id)


def listeners_of(config: BrokerConfig) -> tuple[Listener, Listener]:
    """Where a broker serves: its clients, then the services of its cluster."""
    host = config.listener.host
    return (
        Listener("client", host, config.listener.port, ANONYMOUS, "listeners"),
        Listener("internal", host, config.internal_port, INTERNAL, "internal.port"),
    )


def storage_config(config: BrokerConfig) -> StorageConfig:
    """What the data directory needs to know of the broker's configuration."""
    return StorageConfig(
        flush_policy=FlushPolicy(config.flush_policy),
        flush_ms=config.flush_ms,
        max_open_files=config.max_open_files,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        producer_ids_max=config.max_producer_ids_per_partition,
    )


def reachable(host: str) -> str:
    """A host that callers can dial, for a listener that is open on all addresses."""
    return "localhost" if host in ("0.0.0.0", "::", "") else host


def dialled(address: str) -> tuple[str, int] | None:
    """Host and port of what a client says it dialled; None where it makes no sense."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit():
        return None
    if len(port) > PORT_DIGITS_MAX or int(port) > PORT_MAX:
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)
