"""The controller against a real store: what a client asks for, and what stands there afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from simulation.loop import SimulationLoop
from simulation.trace import Trace
from tidelog.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    NotController,
    NotEnoughReplicas,
    TidelogError,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopic,
    UnknownTopicId,
)
from tidelog.model import TopicId
from tidelog_controller import Controller
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.broker_registration import register_broker
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import (
    CONTROLLER,
    BrokerRegistration,
    PartitionState,
    partition_key,
    topic_key,
)
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.control import (
    AlterOperation,
    ConfigAlteration,
    NewTopic,
    PartitionIncrease,
    TopicAlteration,
    TopicOutcome,
)
from tidelog_runtime.metadata_store import Delete, Put
from tidelog_runtime.metadata_store.embedded import EmbeddedMetadataStore
from tidelog_runtime.principal import ANONYMOUS, INTERNAL


def registration(broker_id: int) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id, "localhost", 9_000 + broker_id, "localhost", 1, "commit", b"%16d" % broker_id
    )


@dataclass(slots=True)
class Cluster:
    store: EmbeddedMetadataStore
    mirror: ClusterMirror
    controller: Controller

    @property
    def view(self) -> ClusterView:
        return self.mirror.view

    async def create(self, name: str, partitions: int = 1, **configs: str) -> TopicOutcome:
        topic = NewTopic(name, partitions, 1, configs=configs)
        (outcome,) = await self.controller.create_topics([topic], principal=ANONYMOUS)
        return outcome

    async def refused(self, topic: NewTopic) -> TidelogError:
        (outcome,) = await self.controller.create_topics([topic], principal=ANONYMOUS)
        assert outcome.error is not None
        assert self.view.topic(topic.name) is None or "already" in str(outcome.error)
        return outcome.error


@asynccontextmanager
async def cluster(folder: Path, *, brokers: int = 3, **config: str) -> AsyncIterator[Cluster]:
    store = EmbeddedMetadataStore(LocalDisk(folder))
    await store.open()
    mirror = ClusterMirror(store)
    await mirror.start()
    lease = await store.grant_lease(3_600_000)
    for broker_id in range(1, brokers + 1):
        await register_broker(store, registration(broker_id), lease)
    controller = Controller(
        store, mirror, default_broker_config(**config), Random(5), address="here:1"
    )
    await controller.start()
    await controller.wait_until_active()
    try:
        yield Cluster(store, mirror, controller)
    finally:
        await controller.stop()
        await mirror.stop()
        await store.close()


def run(scenario: Awaitable[None]) -> None:
    async def main() -> None:
        await scenario

    with asyncio.Runner(loop_factory=lambda: SimulationLoop(Random(0), Trace())) as runner:
        runner.run(main())


Scenario = Callable[[Cluster], Awaitable[None]]


def with_cluster(folder: Path, scenario: Scenario, *, brokers: int = 3, **config: str) -> None:
    async def main() -> None:
        async with cluster(folder, brokers=brokers, **config) as present:
            await scenario(present)

    run(main())


def test_a_topic_is_created_with_its_partitions(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        request = NewTopic("orders", 6, 2, configs={"retention.ms": "7 d"})
        (outcome,) = await cluster.controller.create_topics([request], principal=ANONYMOUS)
        topic = cluster.view.topic("orders")
        assert topic is not None
        assert outcome == TopicOutcome(
            "orders", None, topic.topic_id, 6, 2, {"retention.ms": "604800000"}
        )
        assert len(topic.topic_id) == 16
        partitions = dict(cluster.view.partitions(topic.topic_id))
        assert list(partitions) == list(range(6))
        for state in partitions.values():
            assert state.in_sync == state.replicas
            assert len(state.replicas) == 2
            assert (state.leader, state.leader_epoch) == (state.replicas[0], 0)
            assert state.partition_epoch == topic.revision

    with_cluster(tmp_path, scenario)


def test_defaults_are_the_clusters(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        (zero, minus) = await cluster.controller.create_topics(
            [NewTopic("a"), NewTopic("b", -1, -1)], principal=ANONYMOUS
        )
        assert (zero.partitions, zero.replication_factor) == (4, 3)
        assert (minus.partitions, minus.replication_factor) == (4, 3)

    with_cluster(tmp_path, scenario, num_partitions="4", default_replication_factor="3")


def test_a_large_topic_appears_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        outcome = await cluster.create("large", 500)
        assert outcome.error is None
        assert len(list(cluster.view.partitions(outcome.topic_id))) == 500

    with_cluster(tmp_path, scenario)


def test_refusals_of_a_creation(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("taken.name")
        cases: list[tuple[NewTopic, type[TidelogError], str]] = [
            (NewTopic("taken.name", 1, 1), TopicAlreadyExists, "exists already"),
            (NewTopic("taken_name", 1, 1), InvalidTopic, "collides with 'taken.name'"),
            (NewTopic("a b", 1, 1), InvalidTopic, "not allowed"),
            (NewTopic("__mine", 1, 1), InvalidTopic, "closed to"),
            (NewTopic("a", -2, 1), InvalidPartitions, "-2 partitions"),
            (NewTopic("a", 10_001, 1), InvalidPartitions, "in one call"),
            (NewTopic("a", 1, 4), NotEnoughReplicas, "3 live"),
            (NewTopic("a", 1, 0, {0: [1]}), InvalidRequest, "not both"),
            (NewTopic("a", 0, 0, {0: [9]}), NotEnoughReplicas, r"do not live: \[9\]"),
            (NewTopic("a", 1, 1, configs={"retention.mss": "1"}), InvalidConfig, "Did you mean"),
            (NewTopic("a", 1, 1, configs={"cleanup.policy": "compact"}), InvalidConfig, "later"),
            (
                NewTopic("a", 1, 1, configs={"max.message.bytes": "120 MiB"}),
                InvalidConfig,
                r"socket\.request\.max\.bytes is 104857600",
            ),
        ]
        before = (await cluster.store.range("")).items
        for request, kind, words in cases:
            error = await cluster.refused(request)
            with pytest.raises(kind, match=words):
                raise error
        assert (await cluster.store.range("")).items == before

    with_cluster(tmp_path, scenario)


def test_some_of_a_request_may_fail(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        topics = [
            NewTopic("a", 1, 1),
            NewTopic("a", 2, 1),
            NewTopic("?", 1, 1),
            NewTopic("b", 1, 1),
        ]
        outcomes = await cluster.controller.create_topics(topics, principal=ANONYMOUS)
        assert [type(outcome.error) for outcome in outcomes] == [
            InvalidRequest,
            InvalidRequest,
            InvalidTopic,
            type(None),
        ]
        assert [topic.name for topic in cluster.view.topics] == ["b"]

    with_cluster(tmp_path, scenario)


def test_validation_alone_changes_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.store.range("")
        (outcome,) = await cluster.controller.create_topics(
            [NewTopic("a", 3, 2)], principal=ANONYMOUS, validate_only=True
        )
        assert outcome.error is None
        assert (outcome.partitions, outcome.replication_factor) == (3, 2)
        assert await cluster.store.range("") == before

    with_cluster(tmp_path, scenario)


def test_internal_topics_are_the_services_own(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        controller = cluster.controller
        await controller.create_topics([NewTopic("__offsets", 1, 1)], principal=INTERNAL)
        topic = cluster.view.topic("__offsets")
        assert topic is not None
        assert topic.internal
        (deletion,) = await controller.delete_topics(["__offsets"], principal=ANONYMOUS)
        assert isinstance(deletion.error, InvalidTopic)
        (unknown,) = await controller.delete_topics(["_offsets"], principal=ANONYMOUS)
        assert isinstance(unknown.error, UnknownTopic)
        assert "__offsets" not in str(unknown.error)

    with_cluster(tmp_path, scenario)


def test_partitions_are_added_and_never_removed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        created = await cluster.create("a", 2)
        before = dict(cluster.view.partitions(created.topic_id))
        for total in (1, 2):
            (outcome,) = await cluster.controller.create_partitions(
                [PartitionIncrease("a", total)], principal=ANONYMOUS
            )
            assert isinstance(outcome.error, InvalidPartitions)
        (outcome,) = await cluster.controller.create_partitions(
            [PartitionIncrease("a", 4, {2: [3], 3: [1]})], principal=ANONYMOUS
        )
        assert (outcome.error, outcome.partitions) == (None, 4)
        after = dict(cluster.view.partitions(created.topic_id))
        assert {number: after[number] for number in before} == before
        assert (after[2].replicas, after[3].replicas) == ((3,), (1,))
        (large,) = await cluster.controller.create_partitions(
            [PartitionIncrease("a", 300)], principal=ANONYMOUS
        )
        assert large.error is None
        assert len(list(cluster.view.partitions(created.topic_id))) == 300

    with_cluster(tmp_path, scenario)


def test_an_increase_keeps_the_number_of_replicas(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("a", 1)
        (outcome,) = await cluster.controller.create_partitions(
            [PartitionIncrease("a", 2, {1: [1, 2]})], principal=ANONYMOUS
        )
        assert isinstance(outcome.error, InvalidPartitions)

    with_cluster(tmp_path, scenario)


def test_deletion_by_name_and_by_id(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.create("orders", 300)
        second = await cluster.create("invoices")
        gone, unknown, by_id, no_id = await cluster.controller.delete_topics(
            ["orders", "invoicse"], [second.topic_id, TopicId(b"x" * 16)], principal=ANONYMOUS
        )
        assert (gone.error, gone.topic_id) == (None, first.topic_id)
        assert isinstance(unknown.error, UnknownTopic)
        assert "Did you mean 'invoices'?" in str(unknown.error)
        assert (by_id.error, by_id.name) == (None, "invoices")
        assert isinstance(no_id.error, UnknownTopicId)
        for prefix in ("topics/", "partitions/"):
            assert (await cluster.store.range(prefix)).items == ()
        again = await cluster.create("orders")
        assert again.topic_id != first.topic_id

    with_cluster(tmp_path, scenario)


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("a")
        (outcome,) = await cluster.controller.delete_topics(["a"], principal=ANONYMOUS)
        assert isinstance(outcome.error, TopicDeletionDisabled)
        assert cluster.view.topic("a") is not None

    with_cluster(tmp_path, scenario, delete_topic_enable="false")


def test_configs_are_altered_one_key_at_a_time(tmp_path: Path) -> None:
    async def alter(
        cluster: Cluster, key: str, operation: AlterOperation, value: str = ""
    ) -> TopicOutcome:
        alteration = TopicAlteration("a", [ConfigAlteration(key, operation, value)])
        (outcome,) = await cluster.controller.alter_configs([alteration], principal=ANONYMOUS)
        return outcome

    async def scenario(cluster: Cluster) -> None:
        await cluster.create("a", 1, **{"retention.ms": "1 h"})
        added = await alter(cluster, "segment.ms", AlterOperation.SET, "2 h")
        assert added.configs == {"retention.ms": "3600000", "segment.ms": "7200000"}
        removed = await alter(cluster, "retention.ms", AlterOperation.DELETE)
        assert removed.configs == {"segment.ms": "7200000"}
        topic = cluster.view.topic("a")
        assert topic is not None
        assert topic.configs == {"segment.ms": "7200000"}
        appended = await alter(cluster, "cleanup.policy", AlterOperation.APPEND, "delete")
        assert appended.configs["cleanup.policy"] == "delete"
        before = await cluster.store.range("")
        for key, operation, value, words in (
            ("segment.ms", AlterOperation.APPEND, "1", "no list"),
            ("segment.ms", AlterOperation.SET, "soon", "Invalid value 'soon'"),
            ("cleanup.policy", AlterOperation.APPEND, "compact", "later version"),
            ("cleanup.policy", AlterOperation.SUBTRACT, "delete", "Invalid value ''"),
            ("segment.mss", AlterOperation.DELETE, "", "Did you mean"),
        ):
            outcome = await alter(cluster, key, operation, value)
            assert isinstance(outcome.error, InvalidConfig)
            assert words in str(outcome.error)
        twice = TopicAlteration("a", [ConfigAlteration("segment.ms", AlterOperation.DELETE)] * 2)
        (outcome,) = await cluster.controller.alter_configs([twice], principal=ANONYMOUS)
        assert isinstance(outcome.error, InvalidRequest)
        assert await cluster.store.range("") == before

    with_cluster(tmp_path, scenario)


def test_producer_ids_are_given_out_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        firsts = await asyncio.gather(
            *(cluster.controller.allocate_producer_ids(1_000) for _ in range(10))
        )
        assert sorted(firsts) == [1_000 * number for number in range(10)]
        for count in (0, -1, 1_000_001):
            with pytest.raises(InvalidRequest):
                await cluster.controller.allocate_producer_ids(count)

    with_cluster(tmp_path, scenario)


def test_a_view_that_lags_leads_to_a_new_decision(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("a")
        topic = cluster.view.topic("a")
        assert topic is not None
        changed = replace(topic, configs={"segment.ms": "1"})
        # The mirror has not run yet when the controller decides: its first commit conflicts.
        await cluster.store.commit([], [Put(topic_key("a"), changed.encode())])
        alteration = TopicAlteration(
            "a", [ConfigAlteration("retention.ms", AlterOperation.SET, "5")]
        )
        (outcome,) = await cluster.controller.alter_configs([alteration], principal=ANONYMOUS)
        assert outcome.configs == {"segment.ms": "1", "retention.ms": "5"}

    with_cluster(tmp_path, scenario)


def test_a_controller_that_was_replaced_writes_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.store.commit([], [Delete(CONTROLLER)])
        await cluster.store.commit([], [Put(CONTROLLER, b"another:1")])
        with pytest.raises(NotController):
            await cluster.create("a")
        assert (await cluster.store.range("topics/")).items == ()
        await cluster.store.commit([], [Delete(CONTROLLER)])
        await cluster.controller.wait_until_active()

    with_cluster(tmp_path, scenario)


def test_another_controller_takes_over(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        second = Controller(
            cluster.store, cluster.mirror, default_broker_config(), Random(9), address="there:1"
        )
        await second.start()
        with pytest.raises(NotController):
            await second.allocate_producer_ids(1)
        created = await cluster.create("a", 3)
        await cluster.controller.stop()
        with pytest.raises(NotController):
            await cluster.create("b")
        await second.wait_until_active()
        assert not cluster.controller.is_active
        (outcome,) = await second.delete_topics(["a"], principal=ANONYMOUS)
        assert outcome.topic_id == created.topic_id
        await second.stop()

    with_cluster(tmp_path, scenario)


def test_a_takeover_sweeps_up_and_keeps_the_cluster_id(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert cluster.view.meta is not None
        cluster_id = cluster.view.meta.cluster_id
        assert len(cluster_id) == 22
        created = await cluster.create("a", 2)
        state = PartitionState((1,), (1,), 1, 0).encode()
        stray = TopicId(b"s" * 16)
        await cluster.controller.stop()
        await cluster.store.commit(
            [],
            [
                Put(partition_key(stray, 0), state),
                Put(partition_key(stray, 1), state),
                Put(partition_key(created.topic_id, 2), state),
            ],
        )
        assert cluster.view.topic_by_id(stray) is None
        second = Controller(
            cluster.store, cluster.mirror, default_broker_config(), Random(9), address="there:1"
        )
        await second.start()
        await second.wait_until_active()
        assert [item.key for item in (await cluster.store.range("partitions/")).items] == [
            partition_key(created.topic_id, 0),
            partition_key(created.topic_id, 1),
        ]
        assert cluster.view.meta.cluster_id == cluster_id
        await second.stop()

    with_cluster(tmp_path, scenario)
