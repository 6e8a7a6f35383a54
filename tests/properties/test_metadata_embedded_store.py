"""The embedded store against a model that is too simple to be wrong, over crashes at every moment.

Each life of the store runs groups of concurrent transactions. After every change of the disk we
keep one state that a power cut might leave there, and how much had been answered. Each of them
must recover to what the model was after some number of transactions, none answered missing. One
of them is the disk of the next life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.disk import SimulatedDisk
from simulation.loop import Schedule, SimulationLoop
from simulation.trace import Trace
from tidelog_runtime.metadata_store import (
    Absent,
    Committed,
    Compare,
    Conflict,
    CreateRevisionIs,
    Delete,
    Deleted,
    DeletePrefix,
    EventBatch,
    Item,
    ModRevisionIs,
    Operation,
    Put,
)
from tidelog_runtime.metadata_store.embedded import DEFAULT_PATH, EmbeddedMetadataStore
from tidelog_runtime.metadata_store.errors import CompactedError, StoreCorrupt
from tidelog_runtime.metadata_store.history import History
from tidelog_runtime.metadata_store.log_file import Growth, StoreLog

KEYS = ("a", "a/1", "a/2", "b", "b/1")
#: So small that the file is replaced by a snapshot every few transactions.
GROWTH = Growth(floor_bytes=400, factor=2)


@dataclass(frozen=True, slots=True)
class Transaction:
    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


@dataclass(slots=True)
class Model:
    """Keys in a dictionary."""

    revision: int = 0
    items: dict[str, Item] = field(default_factory=dict)

    def transact(self, transaction: Transaction) -> Committed | Conflict:
        if not all(self.holds(compare) for compare in transaction.compares):
            return Conflict(self.revision)
        next_revision, before = self.revision + 1, dict(self.items)
        for operation in transaction.operations:
            if isinstance(operation, Put):
                old = before.get(operation.key)
                created = old.create_revision if old else next_revision
                self.items[operation.key] = Item(
                    operation.key, operation.value, created, next_revision
                )
            elif isinstance(operation, Delete):
                self.items.pop(operation.key, None)
            else:
                for key in [key for key in self.items if key.startswith(operation.prefix)]:
                    del self.items[key]
        self.revision += self.items != before
        return Committed(self.revision)

    def holds(self, compare: Compare) -> bool:
        item = self.items.get(compare.key)
        if isinstance(compare, Absent):
            return item is None
        if item is None:
            return False
        known = item.mod_revision if isinstance(compare, ModRevisionIs) else item.create_revision
        return known == compare.revision

    def snapshot(self) -> tuple[int, tuple[Item, ...]]:
        return self.revision, tuple(self.items[key] for key in sorted(self.items))


def compares() -> st.SearchStrategy[Compare]:
    keys, revisions = st.sampled_from(KEYS), st.integers(1, 12)
    return st.one_of(
        st.builds(Absent, keys),
        st.builds(ModRevisionIs, keys, revisions),
        st.builds(CreateRevisionIs, keys, revisions),
    )


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
    values = st.binary(max_size=40)
    operations: list[Operation] = [
        Put(key, draw(values)) if draw(st.integers(0, 3)) else Delete(key) for key in keys
    ]
    if not any(key.startswith("a/") for key in keys) and draw(st.integers(0, 5)) == 0:
        operations.append(DeletePrefix("a/"))
    return Transaction(tuple(draw(st.lists(compares(), max_size=1))), tuple(operations))


LIVES = st.lists(
    st.lists(st.lists(transactions(), min_size=1, max_size=4), max_size=6), min_size=1, max_size=3
)


@dataclass(slots=True)
class Life:
    """One life of the store, watched."""

    disk: SimulatedDisk
    model: Model
    random: Random
    answered: int = 0
    states: list[tuple[SimulatedDisk, int]] = field(default_factory=list)
    after: list[Model] = field(default_factory=list)

    def observe(self, operation: str, path: str) -> None:
        self.states.append((self.disk.possible_state(self.random), self.answered))

    async def commit(self, store: EmbeddedMetadataStore, transaction: Transaction) -> object:
        outcome = await store.commit(transaction.compares, transaction.operations)
        self.answered += 1
        return outcome

    async def live(self, groups: Sequence[Sequence[Transaction]]) -> None:
        self.after = [Model(self.model.revision, dict(self.model.items))]
        store = EmbeddedMetadataStore(self.disk, growth=GROWTH)
        self.disk.observe = self.observe
        await store.open()
        for group in groups:
            expected = []
            for transaction in group:
                expected.append(self.model.transact(transaction))
                self.after.append(Model(self.model.revision, dict(self.model.items)))
            tasks = [asyncio.create_task(self.commit(store, each)) for each in group]
            outcomes = await in_order(tasks)
            if len(group) == 1:
                assert outcomes == expected
            found = await store.range("")
            assert (found.revision, found.items) == self.model.snapshot()
        await store.close()
        self.disk.observe = None

    def check_states(self) -> Iterator[tuple[SimulatedDisk, Model]]:
        """Every state recovers to a prefix that holds all that was answered."""
        for disk, answered in self.states:
            found = StoreLog(disk, DEFAULT_PATH, GROWTH).recover()
            recovered = (found.revision, found.with_prefix(""))
            fitting = [each for each in self.after[answered:] if each.snapshot() == recovered]
            assert fitting, f"{recovered} after {answered} answers"
            yield disk, fitting[0]


async def in_order(tasks: Sequence[asyncio.Task[object]]) -> list[object]:
    return [await task for task in tasks]


@given(lives=LIVES, seed=st.integers(0, 1_000_000))
@settings(max_examples=50)
def test_whatever_was_answered_survives(
    lives: Sequence[Sequence[Sequence[Transaction]]], seed: int
) -> None:
    random = Random(seed)
    disk, model = SimulatedDisk(random), Model()
    for groups in lives:
        life = Life(disk, model, random)
        with asyncio.Runner(loop_factory=in_submitted_order) as runner:
            runner.run(life.live(groups))
        survivors = list(life.check_states())
        if survivors:
            disk, model = random.choice(survivors)


def in_submitted_order() -> asyncio.AbstractEventLoop:
    """Tasks run in the order in which they were made, so that the model knows who came first."""
    return SimulationLoop(Random(0), Trace(), Schedule(shuffle=False, defer_chance=0))


@given(groups=st.lists(transactions(), min_size=1, max_size=12), seed=st.integers(0, 1_000_000))
@settings(max_examples=10)
def test_a_flipped_bit_is_noticed_or_does_no_harm(groups: Sequence[Transaction], seed: int) -> None:
    life = Life(SimulatedDisk(Random(seed)), Model(), Random(seed))
    with asyncio.Runner(loop_factory=in_submitted_order) as runner:
        runner.run(life.live([[transaction] for transaction in groups]))
    whole = life.model.snapshot()
    length = len(life.disk.read_bytes(DEFAULT_PATH))
    for bit in range(seed % 8, 8 * length, 8):
        life.disk.flip_bit(DEFAULT_PATH, bit=bit)
        damaged = SimulatedDisk(Random(0))
        damaged.make_directory("metadata")
        damaged.replace(DEFAULT_PATH, life.disk.read_bytes(DEFAULT_PATH))
        life.disk.flip_bit(DEFAULT_PATH, bit=bit)
        with suppress(StoreCorrupt):
            found = StoreLog(damaged, DEFAULT_PATH, GROWTH).recover()
            assert (found.revision, found.with_prefix("")) == whole, f"bit {bit} of {8 * length}"


@given(
    sizes=st.lists(st.integers(1, 5), max_size=30),
    events_max=st.integers(1, 20),
    start=st.integers(1, 40),
)
def test_history_gives_all_or_says_that_it_cannot(
    sizes: Sequence[int], events_max: int, start: int
) -> None:
    history = History(0, events_max=events_max)
    batches = []
    for revision, size in enumerate(sizes, start=1):
        events = tuple(Deleted(f"{number % 2}", revision) for number in range(size))
        batches.append(EventBatch(revision, events))
        history.add(batches[-1])
    if start <= history.compacted_revision:
        assert sum(sizes) > events_max
        with pytest.raises(CompactedError):
            history.since(start, "")
        return
    wanted = [batch for batch in batches if batch.revision >= start]
    assert history.since(start, "") == wanted
    assert [batch.revision for batch in history.since(start, "1")] == [
        batch.revision for batch in wanted if len(batch.events) > 1
    ]
