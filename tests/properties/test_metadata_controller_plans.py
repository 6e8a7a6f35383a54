"""Whatever clients ask for, and wherever a controller dies: the metadata stays whole.

The controller's core runs on the rules of a transaction alone, without store or event loop. Some
plans are broken off between two of their transactions, as a crash would; the next controller's
sweep must leave every topic with exactly its partitions, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import Refused, RetriableError
from tidelog_controller.core.configs import plan_alteration
from tidelog_controller.core.names import existing_topic
from tidelog_controller.core.orphans import plan_sweep
from tidelog_controller.core.plan import Plan, Transaction
from tidelog_controller.core.topics import plan_creation, plan_deletion, plan_increase
from tidelog_runtime.cluster_state import (
    PARTITIONS,
    BrokerRegistration,
    live_broker_key,
    partition_key,
)
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.control import (
    AlterOperation,
    ConfigAlteration,
    NewTopic,
    PartitionIncrease,
    TopicAlteration,
)
from tidelog_runtime.metadata_store import EventBatch, Put
from tidelog_runtime.metadata_store.interface import check_transaction
from tidelog_runtime.metadata_store.state import KeyValueState, Stage
from tidelog_runtime.principal import ANONYMOUS

CONFIG = default_broker_config(num_partitions="2")
BROKERS = 4
Decision = Callable[[ClusterView, Random], Plan]


@dataclass(slots=True)
class Metadata:
    """The store's rules and the mirror's view, without either of them."""

    state: KeyValueState = field(default_factory=KeyValueState)
    view: ClusterView = field(default_factory=ClusterView)

    def commit(self, transaction: Transaction) -> None:
        check_transaction(transaction.compares, transaction.operations)
        stage = Stage(self.state)
        outcome = stage.transact(transaction.compares, transaction.operations)
        assert isinstance(outcome, EventBatch), "nobody else writes"
        self.state.publish(stage.batches)
        for batch in stage.batches:
            self.view.apply(batch)


#: Mostly what is accepted, so that there is something to go wrong.
NAMES = st.sampled_from(["a", "b"] * 6 + ["a.b", "a_b"] * 2 + ["__internal", "", "a b"])
COUNTS = st.sampled_from([1, 2, 3, 5, 8, 119, 120, 121, 300] * 3 + [-2, 0, 10_001])
ASSIGNMENTS = st.dictionaries(
    st.integers(0, 6), st.lists(st.integers(1, BROKERS + 1), max_size=4), max_size=4
)
CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "segment.bytes", "cleanup.policy", "nonsense"]),
    st.sampled_from(["1 h", "2 MiB", "delete", "compact", "-1"]),
    max_size=2,
)


def creations() -> st.SearchStrategy[Decision]:
    def decide(request: NewTopic) -> Decision:
        return lambda view, random: plan_creation(request, view, CONFIG, random, ANONYMOUS)

    factors = st.sampled_from([1, 2, 3, BROKERS, -1, 0, BROKERS + 1])
    by_numbers = st.builds(NewTopic, NAMES, COUNTS, factors)
    with_all = st.builds(NewTopic, NAMES, COUNTS, factors, ASSIGNMENTS, CONFIGS)
    return st.one_of(by_numbers, with_all).map(decide)


def increases() -> st.SearchStrategy[Decision]:
    def decide(request: PartitionIncrease) -> Decision:
        return lambda view, random: plan_increase(request, view, random, ANONYMOUS)

    return st.builds(PartitionIncrease, NAMES, COUNTS).map(decide)


def deletions() -> st.SearchStrategy[Decision]:
    def decide(name: str) -> Decision:
        return lambda view, random: plan_deletion(
            existing_topic(name, view), view, CONFIG, ANONYMOUS
        )

    return NAMES.map(decide)


def alterations() -> st.SearchStrategy[Decision]:
    def decide(request: TopicAlteration) -> Decision:
        return lambda view, random: plan_alteration(request, view, CONFIG, ANONYMOUS)

    keys = st.sampled_from(["retention.ms", "segment.ms", "cleanup.policy", "retention.mss"])
    operations = st.sampled_from([AlterOperation.SET] * 3 + list(AlterOperation))
    one = st.builds(ConfigAlteration, keys, operations, st.sampled_from(["1", "2", "delete"]))
    return st.builds(TopicAlteration, NAMES, st.lists(one, max_size=3)).map(decide)


STEPS = st.tuples(
    st.one_of(creations(), creations(), increases(), increases(), deletions(), alterations()),
    st.sampled_from([0, 1, 2, 9, 9, 9]),
)


@given(steps=st.lists(STEPS, min_size=4, max_size=20), seed=st.integers(0, 1_000))
@settings(max_examples=250)
def test_metadata_stays_whole(steps: list[tuple[Decision, int]], seed: int) -> None:
    metadata, random = Metadata(), Random(seed)
    for broker_id in range(1, BROKERS + 1):
        registration = BrokerRegistration(broker_id, "h", 1, "h", 1, "commit", b"")
        metadata.commit(Transaction((), (Put(live_broker_key(broker_id), registration.encode()),)))
    for transaction in plan_creation(
        NewTopic("a", 1, 1), metadata.view, CONFIG, random, ANONYMOUS
    ).transactions:
        metadata.commit(transaction)
    for decide, dies_before in steps:
        try:
            plan = decide(metadata.view, random)
        except (Refused, RetriableError):
            continue
        for transaction in plan.transactions[:dies_before]:
            metadata.commit(transaction)
        if dies_before < len(plan.transactions):
            for transaction in plan_sweep(metadata.view):
                metadata.commit(transaction)
        check(metadata)


def check(metadata: Metadata) -> None:
    view = metadata.view
    stored = {key for key in metadata.state.items if key.startswith(PARTITIONS)}
    shown = {
        partition_key(topic.topic_id, number)
        for topic in view.topics
        for number in range(topic.partitions)
    }
    assert stored == shown
    for topic in view.topics:
        CONFIG.topic_config(topic.configs)
        sizes = set()
        for _, state in view.partitions(topic.topic_id):
            assert state.leader == state.replicas[0]
            assert state.in_sync == state.replicas
            assert len(set(state.replicas)) == len(state.replicas)
            assert set(state.replicas) <= set(view.brokers)
            sizes.add(len(state.replicas))
        assert len(sizes) == 1
    folded = [topic.name.replace(".", "_") for topic in view.topics]
    assert len(set(folded)) == len(folded)
