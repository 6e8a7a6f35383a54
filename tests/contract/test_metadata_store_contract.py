"""What every metadata store promises, whichever it is: one suite, put through each implementation.

A new implementation adds itself to `IMPLEMENTATIONS`: a name and an async context manager that
gives an empty store. Leases may end in real time here: tests wait for events, never for clocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from simulation.loop import SimulationLoop
from simulation.trace import Trace
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.metadata_store import (
    OPERATIONS_MAX,
    Absent,
    Committed,
    CompactedError,
    Compare,
    Conflict,
    CreateRevisionIs,
    Delete,
    Deleted,
    DeletePrefix,
    EventBatch,
    Item,
    LeaseLost,
    MetadataStore,
    ModRevisionIs,
    Put,
)
from tidelog_runtime.metadata_store.election import campaign, observe, resign
from tidelog_runtime.metadata_store.embedded import EmbeddedMetadataStore
from tidelog_runtime.metadata_store.interface import TRANSACTION_BYTES_MAX, LeaseId
from tidelog_runtime.metadata_store.session import open_session

Factory = Callable[[Path], AbstractAsyncContextManager[MetadataStore]]
Scenario = Callable[[MetadataStore], Awaitable[None]]
#: Long enough that no machine is so slow that a lease meant to stay runs out.
LONG_MS = 600_000
#: What each store is told to keep of its history, so that compaction can be reached.
HISTORY_EVENTS = 50


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[MetadataStore]:
    store = EmbeddedMetadataStore(LocalDisk(folder), history_events_max=HISTORY_EVENTS)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def virtual_time() -> asyncio.AbstractEventLoop:
    return SimulationLoop(Random(0), Trace())


@dataclass(frozen=True, slots=True)
class Implementation:
    factory: Factory
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None


#: What touches nothing but the event loop and the disk runs on virtual time.
IMPLEMENTATIONS = {"embedded": Implementation(embedded, virtual_time)}
Run = Callable[[Scenario], None]


@pytest.fixture(params=sorted(IMPLEMENTATIONS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a scenario against a fresh store of each implementation."""
    implementation = IMPLEMENTATIONS[request.param]

    def run_scenario(scenario: Scenario) -> None:
        async def main() -> None:
            async with implementation.factory(tmp_path) as store:
                await scenario(store)

        with asyncio.Runner(loop_factory=implementation.loop_factory) as runner:
            runner.run(main())

    return run_scenario


async def committed(outcome: Awaitable[Committed | Conflict]) -> int:
    verdict = await outcome
    assert isinstance(verdict, Committed)
    return verdict.revision


async def put(store: MetadataStore, key: str, value: bytes = b"x") -> int:
    return await committed(store.commit([], [Put(key, value)]))


async def next_batch(batches: AsyncGenerator[EventBatch, None]) -> EventBatch:
    return await anext(batches)


def test_a_key_knows_when_it_was_created_and_last_written(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        assert await store.get("a") is None
        first = await put(store, "a", b"1")
        assert await store.get("a") == Item("a", b"1", first, first)
        second = await put(store, "a", b"2")
        assert second > first
        assert await store.get("a") == Item("a", b"2", first, second)
        await store.commit([], [Delete("a")])
        assert await store.get("a") is None
        third = await put(store, "a", b"")
        assert await store.get("a") == Item("a", b"", third, third)

    run(scenario)


def test_a_range_is_sorted_and_keeps_to_its_prefix(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        for key in ("b/2", "b/10", "a", "b", "c", "b0"):
            last = await put(store, key)
        found = await store.range("b/")
        assert [item.key for item in found.items] == ["b/10", "b/2"]
        assert found.revision == last
        assert [item.key for item in (await store.range("")).items] == sorted(
            ["b/2", "b/10", "a", "b", "c", "b0"]
        )

    run(scenario)


def test_a_transaction_is_all_or_nothing(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        created = await committed(
            store.commit([Absent("a"), Absent("b")], [Put("a", b"1"), Put("b", b"1")])
        )
        modified = await put(store, "a", b"2")
        assert (await store.range("")).revision == modified
        for wrong in (
            Absent("a"),
            ModRevisionIs("a", created),
            ModRevisionIs("zzz", created),
            CreateRevisionIs("a", modified),
            CreateRevisionIs("zzz", created),
        ):
            compares: list[Compare] = [ModRevisionIs("b", created), wrong]
            outcome = await store.commit(compares, [Put("c", b""), Delete("b")])
            assert isinstance(outcome, Conflict), wrong
        assert (await store.range("")).revision == modified
        right: list[Compare] = [
            Absent("c"),
            ModRevisionIs("a", modified),
            CreateRevisionIs("a", created),
        ]
        last = await committed(store.commit(right, [Put("c", b""), Delete("b"), Put("a", b"3")]))
        items = (await store.range("")).items
        assert items == (Item("a", b"3", created, last), Item("c", b"", last, last))

    run(scenario)


def test_nothing_changed_uses_no_revision(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        revision = await put(store, "a")
        for operations in ([], [Delete("b")], [DeletePrefix("b")]):
            assert await committed(store.commit([Absent("b")], operations)) == revision
        assert await put(store, "a") == revision + 1

    run(scenario)


def test_a_prefix_is_deleted_as_one(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        for number in range(3):
            await store.commit([], [Put(f"p/{number}/{n}", b"") for n in range(OPERATIONS_MAX)])
        keep = await put(store, "p0")
        revision = await committed(store.commit([], [DeletePrefix("p/"), Put("q", b"")]))
        assert [item.key for item in (await store.range("")).items] == ["p0", "q"]
        async with aclosing(store.watch("p/", keep + 1)) as batches:
            batch = await next_batch(batches)
        assert batch.revision == revision
        assert len(batch.events) == 3 * OPERATIONS_MAX
        assert all(isinstance(event, Deleted) for event in batch.events)

    run(scenario)


def test_limits_of_a_transaction(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        most = [Put(f"k{number}", b"") for number in range(OPERATIONS_MAX)]
        await committed(store.commit([Absent(operation.key) for operation in most], most))
        for compares, operations in (
            ([], [*most, Put("more", b"")]),
            ([Absent("z")] * (OPERATIONS_MAX + 1), []),
            ([], [Put("a", b"1"), Put("a", b"2")]),
            ([], [Put("a", b"1"), Delete("a")]),
            ([], [DeletePrefix("a"), Put("ab", b"")]),
            ([], [Put("a", b"x" * (TRANSACTION_BYTES_MAX + 1))]),
        ):
            with pytest.raises(ValueError, match=r"transaction|DeletePrefix"):
                await store.commit(compares, operations)  # type: ignore[arg-type]
        assert len((await store.range("")).items) == OPERATIONS_MAX

    run(scenario)


def test_only_one_of_many_wins_a_race(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        outcomes = await asyncio.gather(
            *(store.commit([Absent("a")], [Put("a", b"%d" % n)]) for n in range(20))
        )
        winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Committed)]
        assert len(winners) == 1
        item = await store.get("a")
        assert item is not None
        assert item.value == b"%d" % winners[0]

    run(scenario)


def test_a_watch_shows_every_change_in_order(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        start = (await store.range("")).revision
        async with aclosing(store.watch("w/", start + 1)) as batches:
            first = await put(store, "w/a", b"1")
            await put(store, "elsewhere")
            second = await committed(
                store.commit([], [Put("w/b", b"2"), Delete("w/a"), Put("other", b"")])
            )
            third = await put(store, "w/b", b"3")
            seen = [await next_batch(batches) for _ in range(3)]
        assert seen == [
            EventBatch(first, (Item("w/a", b"1", first, first),)),
            EventBatch(second, (Item("w/b", b"2", second, second), Deleted("w/a", second))),
            EventBatch(third, (Item("w/b", b"3", second, third),)),
        ]

    run(scenario)


def test_a_watch_may_begin_in_the_past_and_in_the_future(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        first = await put(store, "a")
        second = await put(store, "a")
        async with aclosing(store.watch("a", second)) as batches:
            assert (await next_batch(batches)).revision == second
        async with aclosing(store.watch("a", first)) as batches:
            assert [(await next_batch(batches)).revision for _ in range(2)] == [first, second]
        async with aclosing(store.watch("a", second + 2)) as batches:
            await put(store, "a")
            fourth = await put(store, "a")
            assert (await next_batch(batches)).revision == fourth

    run(scenario)


def test_a_slow_reader_misses_nothing_or_is_told(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        first = await put(store, "a")
        async with aclosing(store.watch("a", first)) as batches:
            assert (await next_batch(batches)).revision == first
            revisions = [await put(store, "a") for _ in range(HISTORY_EVENTS - 1)]
            assert [(await next_batch(batches)).revision for _ in revisions] == revisions
            for _ in range(3 * HISTORY_EVENTS):
                await put(store, "a")
            with pytest.raises(CompactedError) as told:
                await next_batch(batches)
        assert told.value.compacted_revision >= revisions[-1]
        latest = await store.range("a")
        async with aclosing(store.watch("a", latest.revision + 1)) as batches:
            revision = await put(store, "a")
            assert (await next_batch(batches)).revision == revision

    run(scenario)


def test_a_lease_takes_its_keys_along(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        lease = await store.grant_lease(LONG_MS)
        await store.commit([], [Put("l/a", b"", lease), Put("l/b", b"", lease), Put("l/c", b"")])
        after = await committed(store.commit([], [Put("l/b", b"stays now")]))
        await store.revoke_lease(lease)
        assert [item.key for item in (await store.range("l/")).items] == ["l/b", "l/c"]
        async with aclosing(store.watch("l/", after + 1)) as batches:
            batch = await next_batch(batches)
        assert [event.key for event in batch.events] == ["l/a"]
        await store.revoke_lease(lease)
        with pytest.raises(LeaseLost):
            await store.keep_lease(lease)
        with pytest.raises(LeaseLost):
            await store.commit([], [Put("l/d", b"", lease)])
        assert await store.get("l/d") is None

    run(scenario)


def test_a_lease_that_nobody_keeps_runs_out(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        lease = await store.grant_lease(1_000)
        revision = await committed(store.commit([], [Put("l", b"", lease)]))
        async with aclosing(store.watch("l", revision + 1)) as batches:
            batch = await next_batch(batches)
        assert batch.events == (Deleted("l", batch.revision),)
        with pytest.raises(LeaseLost):
            await store.keep_lease(lease)

    run(scenario)


def test_a_lease_that_never_was_is_lost(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        with pytest.raises(LeaseLost):
            await store.commit([], [Put("a", b"", LeaseId(987_654_321))])
        with pytest.raises(LeaseLost):
            await store.keep_lease(LeaseId(987_654_321))

    run(scenario)


def test_elections_hand_over_with_growing_tokens(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        leases = [await store.grant_lease(LONG_MS) for _ in range(3)]
        first = await campaign(store, "ctl", b"0", leases[0])
        assert await campaign(store, "ctl", b"0", leases[0]) == first
        waiting = [
            asyncio.create_task(campaign(store, "ctl", b"%d" % n, leases[n])) for n in (1, 2)
        ]
        await committed(store.commit([first.fence], [Put("work", b"")]))
        await store.revoke_lease(leases[0])
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        second = done.pop().result()
        assert second.create_revision > first.create_revision
        assert isinstance(await store.commit([first.fence], [Put("work", b"")]), Conflict)
        assert not await resign(store, first)
        assert await resign(store, second)
        last = {task.result().create_revision for task in waiting if await task}
        assert max(last) > second.create_revision

    run(scenario)


def test_a_candidate_whose_lease_ended_is_told(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        lease = await store.grant_lease(LONG_MS)
        await store.revoke_lease(lease)
        with pytest.raises(LeaseLost):
            await campaign(store, "ctl", b"", lease)

    run(scenario)


def test_observers_see_each_leader(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        async with aclosing(observe(store, "ctl")) as leaders:
            assert await anext(leaders) is None
            lease = await store.grant_lease(LONG_MS)
            leadership = await campaign(store, "ctl", b"me", lease)
            leader = await anext(leaders)
            assert leader is not None
            assert (leader.value, leader.create_revision) == (b"me", leadership.create_revision)
            await store.revoke_lease(lease)
            assert await anext(leaders) is None

    run(scenario)


def test_a_session_keeps_its_lease_and_gives_it_back(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        session = await open_session(store, ttl_ms=1_000)
        await store.commit([], [Put("mine", b"", session.lease_id)])
        other = await store.grant_lease(3_000)
        revision = await committed(store.commit([], [Put("other", b"", other)]))
        async with aclosing(store.watch("other", revision + 1)) as batches:
            await next_batch(batches)  # three lives of the session's lease later
        assert await store.get("mine") is not None
        assert not session.lost.is_set()
        await session.close()
        assert session.lost.is_set()
        assert await store.get("mine") is None

    run(scenario)


def test_a_session_notices_that_its_lease_is_gone(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        session = await open_session(store, ttl_ms=1_000)
        await store.revoke_lease(session.lease_id)
        await session.lost.wait()
        await session.close()

    run(scenario)
