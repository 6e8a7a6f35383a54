"""The mirror and its view: equal to the store whatever happens, and exact about what changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from simulation.disk import SimulatedDisk
from simulation.loop import SimulationLoop
from simulation.trace import Trace
from tidelog.errors import InvalidConfig, InvalidRequest
from tidelog.model import TopicId
from tidelog_runtime.broker_registration import register_broker
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import (
    META,
    BrokerRegistration,
    IdBlock,
    Meta,
    PartitionState,
    TopicState,
    decode_id_block,
    decode_meta,
    decode_partition,
    decode_registration,
    decode_topic,
    live_broker_key,
    partition_key,
    topic_key,
)
from tidelog_runtime.cluster_view import CHANGES_MAX, ClusterView
from tidelog_runtime.metadata_store import Committed, Delete, EventBatch, Item, Operation, Put
from tidelog_runtime.metadata_store.embedded import EmbeddedMetadataStore

FIRST, SECOND = TopicId(b"1" * 16), TopicId(b"2" * 16)
STATE = PartitionState((1, 2), (1,), leader=1, leader_epoch=7, eligible=(2,))
Scenario = Callable[[EmbeddedMetadataStore, ClusterMirror], Awaitable[None]]


def run(scenario: Scenario, *, relist_after_s: float = 300) -> None:
    async def main() -> None:
        store = EmbeddedMetadataStore(SimulatedDisk(Random(1)), history_events_max=20)
        await store.open()
        mirror = ClusterMirror(store, relist_after_s=relist_after_s)
        await mirror.start()
        try:
            await scenario(store, mirror)
        finally:
            await mirror.stop()
            await store.close()

    with asyncio.Runner(loop_factory=lambda: SimulationLoop(Random(0), Trace())) as runner:
        runner.run(main())


async def commit(store: EmbeddedMetadataStore, *operations: Operation) -> int:
    outcome = await store.commit([], operations)
    assert isinstance(outcome, Committed)
    return outcome.revision


def topic(name: str, topic_id: TopicId, partitions: int = 1) -> Put:
    return Put(topic_key(name), TopicState(name, topic_id, partitions).encode())


def partition(topic_id: TopicId, number: int) -> Put:
    return Put(partition_key(topic_id, number), STATE.encode())


def broker(broker_id: int, *, policy: str = "commit", storage: bytes = b"") -> BrokerRegistration:
    return BrokerRegistration(
        broker_id, "host", 9_094, "inside", 9_096, policy, storage or b"%16d" % broker_id, "rack"
    )


def test_values_read_back_as_they_were_written() -> None:
    def item(value: bytes) -> Item:
        return Item("k", value, 3, 5)

    meta = Meta("id", {"level": 2})
    assert decode_meta(item(meta.encode())) == meta
    registration = broker(4)
    decoded = decode_registration(item(registration.encode()))
    assert decoded.broker_epoch == 5
    assert decoded.encode() == registration.encode()
    written = TopicState("t", FIRST, 3, internal=True, configs={"a": "b"}, revision=5)
    assert decode_topic(item(written.encode())) == written
    state = PartitionState((1, 2), (1,), 1, 7, (2,), partition_epoch=5)
    assert decode_partition(item(state.encode())) == state
    assert decode_id_block(item(IdBlock(2**62).encode())) == IdBlock(2**62, 5)


def test_a_topic_is_seen_with_its_partitions_and_not_before() -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        prepared = await commit(store, partition(FIRST, 0), partition(FIRST, 1))
        view = await mirror.wait_for(prepared)
        assert view.partition(FIRST, 0) is None
        assert list(view.partitions(FIRST)) == []
        view = await mirror.wait_for(await commit(store, topic("a", FIRST, 2)))
        assert [number for number, _ in view.partitions(FIRST)] == [0, 1]
        state = view.partition(FIRST, 1)
        assert state is not None
        assert (state.replicas, state.partition_epoch) == ((1, 2), prepared)
        assert view.partition(FIRST, 2) is None
        assert view.partition(FIRST, -1) is None

    run(scenario)


def test_a_topic_deleted_and_created_again_is_another() -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        before = await commit(store, topic("a", FIRST), partition(FIRST, 0))
        view = await mirror.wait_for(before)
        revision = await commit(
            store,
            topic("a", SECOND),
            partition(SECOND, 0),
            Delete(partition_key(FIRST, 0)),
        )
        await mirror.wait_for(revision)
        found = view.topic("a")
        assert found is not None
        assert (found.topic_id, found.revision) == (SECOND, revision)
        assert view.topic_by_id(FIRST) is None
        changes = view.changes_since(before)
        assert changes is not None
        assert (changes.topics, changes.deleted_topics) == ((SECOND,), (FIRST,))
        assert changes.revision == revision
        assert not changes.brokers

    run(scenario)


def test_changes_of_brokers_are_told() -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        before = await commit(store, topic("a", FIRST))
        view = await mirror.wait_for(before)
        lease = await store.grant_lease(1_000)
        epoch = await register_broker(store, broker(3), lease)
        await mirror.wait_for(epoch)
        assert view.brokers[3].broker_epoch == epoch
        assert view.broker_states[3].storage_uuid == broker(3).storage_uuid
        changes = view.changes_since(before)
        assert changes is not None
        assert (changes.brokers, changes.topics) == (True, ())
        await mirror.wait_for(epoch + 1)  # the lease runs out
        assert view.brokers == {}
        assert list(view.broker_states) == [3]

    run(scenario)


@pytest.mark.parametrize("relist_after_s", [300, 0.001])
def test_a_mirror_that_fell_behind_reads_anew(relist_after_s: float) -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        first = await commit(store, topic("a", FIRST), topic("b", SECOND))
        view = await mirror.wait_for(first)
        # Far more at once than the store keeps: the watch cannot be told all of it.
        await asyncio.gather(
            commit(store, Delete(topic_key("a"))),
            *(
                commit(store, topic(f"t{number}", TopicId(b"%16d" % number)))
                for number in range(99)
            ),
        )
        revision = await commit(store, Put(META, Meta("x").encode()))
        await mirror.wait_for(revision)
        fresh = ClusterView()
        fresh.replace(await store.range(""))
        assert list(view.topics) == list(fresh.topics)
        assert view.meta == Meta("x")
        changes = view.changes_since(first)
        assert changes is not None
        assert changes.deleted_topics == (FIRST,)
        assert len(changes.topics) == 99

    run(scenario, relist_after_s=relist_after_s)


def test_changes_too_long_ago_are_not_told_by_halves() -> None:
    view = ClusterView()
    for revision in range(1, CHANGES_MAX + 11):
        topic_id = FIRST if revision % 2 else SECOND
        item = Item(partition_key(topic_id, 0), STATE.encode(), 1, revision)
        view.apply(EventBatch(revision, (item,)))
    assert view.changes_since(9) is None
    changes = view.changes_since(10)
    assert changes is not None
    assert len(changes.deleted_topics) == 2


def test_a_value_that_makes_no_sense_takes_nothing_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        await commit(store, topic("a", FIRST), partition(FIRST, 0))
        revision = await commit(
            store,
            Put(topic_key("a"), b"\xff\xff"),
            Put("brokers/live/x", b""),
            Put("partitions/zz/0", b""),
            topic("b", SECOND),
        )
        view = await mirror.wait_for(revision)
        assert [found.name for found in view.topics] == ["a", "b"]

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert len(caplog.records) == 3
    assert "ignoring 'topics/a'" in caplog.text


def test_an_unforeseen_fault_ends_no_mirror(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_over = ClusterView.apply

    def fail_once(view: ClusterView, batch: EventBatch) -> None:
        monkeypatch.setattr(ClusterView, "apply", take_over)
        raise KeyError("unforeseen")

    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        monkeypatch.setattr(ClusterView, "apply", fail_once)
        view = await mirror.wait_for(await commit(store, topic("a", FIRST)))
        assert view.topic("a") is not None
        view = await mirror.wait_for(await commit(store, topic("b", SECOND)))
        assert view.topic("b") is not None

    with caplog.at_level(logging.ERROR):
        run(scenario)
    (told,) = caplog.records
    assert "reading it anew" in told.message
    assert told.exc_info is not None


def test_a_restarted_broker_overwrites_its_registration() -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        old = await register_broker(store, broker(1), await store.grant_lease(1_000_000))
        new = await register_broker(store, broker(1), await store.grant_lease(1_000_000))
        assert new > old
        await mirror.wait_for(new)
        assert mirror.view.brokers[1].broker_epoch == new

    run(scenario)


def test_registrations_that_do_not_fit_are_refused() -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        lease = await store.grant_lease(1_000_000)
        await register_broker(store, broker(1), lease)
        with pytest.raises(InvalidConfig, match=r"os of broker 2 is not the cluster's.*commit"):
            await register_broker(store, broker(2, policy="os"), lease)
        with pytest.raises(InvalidRequest, match="running already, at host:9094"):
            await register_broker(store, broker(1, storage=b"other"), lease)
        await commit(store, Delete(live_broker_key(1)))
        with pytest.raises(InvalidRequest, match="not the one that the cluster knows"):
            await register_broker(store, broker(1, storage=b"other"), lease)
        await register_broker(store, broker(2, policy="os"), lease)

    run(scenario)


def test_of_two_that_come_at_once_one_goes_again() -> None:
    async def scenario(store: EmbeddedMetadataStore, mirror: ClusterMirror) -> None:
        lease = await store.grant_lease(1_000_000)
        outcomes = await asyncio.gather(
            register_broker(store, broker(1, policy="os"), lease),
            register_broker(store, broker(2, policy="commit"), lease),
            return_exceptions=True,
        )
        assert sorted(isinstance(outcome, InvalidConfig) for outcome in outcomes) == [False, True]
        assert len((await store.range("brokers/live/")).items) == 1

    run(scenario)
