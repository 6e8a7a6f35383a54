"""Follows the cluster view: opens the partitions this broker holds, leads them, deletes them.

The mirror says what the controller decided; here it becomes logs and leaders. A topic whose key
is gone is deleted from the disk if this broker saw it go, or is told that it was deleted; what
nobody speaks of is kept and reported, since missing metadata is no reason to delete data.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tidelog.errors import StorageError, TidelogError
from tidelog.model import BrokerId, LeaderEpoch, Offset, PartitionId, TopicId
from tidelog_broker.partition.core import PartitionCore
from tidelog_broker.partition.partition import DirtyLogs, Partition, PartitionLimits
from tidelog_broker.partition.replicas import Replicas
from tidelog_broker.stopping import Stopping
from tidelog_broker.storage.config import LogConfig
from tidelog_broker.storage.data_directory import DataDirectory
from tidelog_runtime.clock import WallClock
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import NO_LEADER, PartitionState, TopicState
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.configs.broker import BrokerConfig
from tidelog_runtime.configs.topic import TopicConfig

logger = logging.getLogger(__name__)

#: How long an admin call or a first produce waits until this broker has taken up a decision.
APPLY_LIMIT_MS: Final = 30_000
#: How long until a partition that could not be opened (a full disk) is tried again.
REOPEN_AFTER_S: Final = 5.0


def log_config(config: TopicConfig) -> LogConfig:
    """What the log of a topic needs to know of its configs."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        file_delete_delay_ms=config.file_delete_delay_ms,
        max_message_bytes=config.max_message_bytes,
    )


def limits_of(config: TopicConfig) -> PartitionLimits:
    """What the leader of a topic's partition checks."""
    return PartitionLimits(
        max_message_bytes=config.max_message_bytes,
        log_append_time=config.stamps_append_time,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
    )


class Settings:
    """What a topic's configs mean for its partitions, which share it: one that takes a batch finds
    it in the processor's cache when others have just looked.
    """

    __slots__ = ("limits", "log", "min_in_sync")

    def __init__(self, config: TopicConfig) -> None:
        self.log = log_config(config)
        self.limits = limits_of(config)
        self.min_in_sync = config.min_insync_replicas


class Assignments:
    """Keeps `Replicas` in step with the view."""

    def __init__(
        self,
        config: BrokerConfig,
        mirror: ClusterMirror,
        replicas: Replicas,
        stopping: Stopping,
        clock: WallClock,
    ) -> None:
        self._config = config
        self._broker_id = BrokerId(config.node_id)
        self._mirror = mirror
        self._replicas = replicas
        self._stopping = stopping
        self._clock = clock
        self._directory: DataDirectory | None = None
        self._dirty_logs: DirtyLogs | None = None
        #: Deleted topics whose files could not be deleted yet.
        self._undeleted: dict[TopicId, None] = {}
        self._applied_revision = -1
        self._applied = asyncio.Event()
        stopping.listen(self._wake)

    @property
    def view(self) -> ClusterView:
        """The cluster as the mirror shows it."""
        return self._mirror.view

    # ------------------------------------------------------------------ following

    def begin(self, directory: DataDirectory, dirty_logs: DirtyLogs) -> None:
        """Takes up everything that stands in the view now."""
        self._directory, self._dirty_logs = directory, dirty_logs
        for topic in self.view.topics:
            self._take_up(topic)
        self._sort_out_strays(directory)
        self._mark_applied()

    async def follow(self) -> None:
        """Takes up every change, until cancelled."""
        while True:
            unfinished = self._replicas.topics_to_reopen or self._undeleted
            limit_s = REOPEN_AFTER_S if unfinished else None
            try:
                async with asyncio.timeout(limit_s):
                    await self._mirror.wait_for(self._applied_revision + 1)
            except TimeoutError:
                self._try_again()
                continue
            self._apply_changes()
            self._mark_applied()

    def _try_again(self) -> None:
        for topic_id in list(self._undeleted):
            self._delete_files(topic_id)
        for topic_id in self._replicas.topics_to_reopen:
            topic = self.view.topic_by_id(topic_id)
            if topic is not None:
                self._take_up(topic)

    def _apply_changes(self) -> None:
        changes = self.view.changes_since(self._applied_revision)
        if changes is None:
            self._apply_everything()
            return
        for topic_id in changes.deleted_topics:
            self._delete(topic_id)
        for topic_id in changes.topics:
            topic = self.view.topic_by_id(topic_id)
            if topic is not None:
                self._take_up(topic)

    def _apply_everything(self) -> None:
        """The mirror has read anew: what this broker holds and the view lacks was deleted."""
        for topic_id in self._replicas.known_topic_ids:
            if self.view.topic_by_id(topic_id) is None:
                self._delete(topic_id)
        for topic in self.view.topics:
            self._take_up(topic)

    def _mark_applied(self) -> None:
        self._applied_revision = self.view.revision
        self._wake()

    def _wake(self) -> None:
        self._applied.set()
        self._applied = asyncio.Event()

    # ------------------------------------------------------------------ one topic

    def _take_up(self, topic: TopicState) -> None:
        try:
            config = self._config.topic_config(dict(topic.configs))
        except TidelogError as error:
            logger.error("a topic's configs can't be read: %s", error, extra=_about(topic))
            config = self._config.topic_config({})
        self._replicas.know_topic(topic.name, topic.topic_id, topic.partitions)
        settings = Settings(config)
        for number, state in self.view.partitions(topic.topic_id):
            if self._broker_id in state.replicas:
                self._take_up_partition(topic, number, state, settings)

    def _take_up_partition(
        self, topic: TopicState, number: int, state: PartitionState, settings: Settings
    ) -> None:
        partition_id = PartitionId(topic.topic_id, number)
        partition = self._replicas.get(partition_id)
        if partition is None:
            try:
                partition = self._open(topic, partition_id, settings)
            except TidelogError as error:
                logger.error("a partition can't be opened: %s", error, extra=_about(topic, number))
                self._replicas.add_failure(partition_id, error)
                return
            self._replicas.add(partition)
        log = partition.log
        log.config = settings.log
        partition.limits = settings.limits
        # A topic can't need more replicas than it has.
        partition.core.set_min_in_sync(min(settings.min_in_sync, len(state.replicas)))
        if log.fault is not None:
            return
        partition.core.apply_leadership(
            None if state.leader == NO_LEADER else BrokerId(state.leader),
            LeaderEpoch(state.leader_epoch),
            tuple(BrokerId(replica) for replica in state.in_sync),
            Offset(log.acknowledgeable_end),
        )
        partition.on_durable(Offset(log.acknowledgeable_end))

    def _open(self, topic: TopicState, partition_id: PartitionId, settings: Settings) -> Partition:
        assert self._directory is not None, "begin() comes first"
        assert self._dirty_logs is not None
        log = self._directory.open_partition(
            partition_id, topic.name, settings.log, now_ms=self._clock.now_ms()
        )
        core = PartitionCore(
            f"{topic.name}-{partition_id.partition}", self._broker_id, Offset(log.high_watermark)
        )
        return Partition(log, core, settings.limits, self._dirty_logs)

    def _delete(self, topic_id: TopicId) -> None:
        assert self._directory is not None
        for partition in self._replicas:
            if partition.topic_id == topic_id:
                partition.delete()
                self._replicas.remove(partition)
        self._replicas.forget_topic(topic_id, set(self.view.topic_names))
        self._delete_files(topic_id)

    def _delete_files(self, topic_id: TopicId) -> None:
        assert self._directory is not None
        try:
            self._directory.delete_topic(topic_id, now_ms=self._clock.now_ms())
            self._undeleted.pop(topic_id, None)
        except StorageError as error:
            self._undeleted[topic_id] = None
            logger.error(
                "a deleted topic's files are left for now: %s",
                error,
                extra={"fields": {"topic_id": topic_id.hex()}},
            )

    def _sort_out_strays(self, directory: DataDirectory) -> None:
        """Deletes what was deleted while this broker was away, and keeps what nobody speaks of."""
        stored = dict.fromkeys(found.topic_id for found in directory.stored_partitions())
        for topic_id in stored:
            if self.view.topic_by_id(topic_id) is not None:
                continue
            if topic_id in self.view.deleted_topics:
                self._delete_files(topic_id)
                continue
            logger.warning(
                "a topic on the disk is none of the cluster's: it is kept",
                extra={
                    "fields": {
                        "topic": directory.topic_name(topic_id),
                        "topic_id": topic_id.hex(),
                    }
                },
            )

    # ------------------------------------------------------------------ waiting

    async def wait_beyond(self, revision: int) -> bool:
        """Waits for a change after this revision; False when the broker stops first."""
        while self._applied_revision <= revision and not self._stopping.is_set:
            await self._applied.wait()
        return not self._stopping.is_set

    async def wait_current(self, timeout_ms: int = 0) -> bool:
        """Waits until what is decided now is taken up here; False if that takes too long."""
        revision = await self._mirror.latest_revision()
        try:
            async with asyncio.timeout((timeout_ms if timeout_ms > 0 else APPLY_LIMIT_MS) / 1000):
                return await self.wait_beyond(revision - 1)
        except TimeoutError:
            return False


def _about(topic: TopicState, number: int | None = None) -> dict[str, dict[str, object]]:
    fields: dict[str, object] = {"topic": topic.name}
    if number is not None:
        fields["partition"] = number
    return {"fields": fields}
