"""The embedded store when the disk fails, when callers give up, and when the process ends."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from random import Random

import pytest

from simulation.disk import SimulatedDisk
from simulation.loop import SimulationLoop
from simulation.trace import Trace
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.metadata_store import (
    Absent,
    Committed,
    CompactedError,
    Deleted,
    LeaseLost,
    Put,
    StoreCorrupt,
    StoreOutcomeUnknown,
    StoreUnavailable,
)
from tidelog_runtime.metadata_store.embedded import DEFAULT_PATH, EmbeddedMetadataStore
from tidelog_runtime.metadata_store.log_file import Growth, StoreLog
from tidelog_runtime.metadata_store.session import open_session

Scenario = Callable[[SimulatedDisk], Awaitable[None]]


def run(scenario: Scenario, *, seed: int = 1) -> SimulatedDisk:
    async def main() -> SimulatedDisk:
        disk = SimulatedDisk(Random(seed))
        await scenario(disk)
        return disk

    with asyncio.Runner(loop_factory=lambda: SimulationLoop(Random(0), Trace())) as runner:
        return runner.run(main())


async def opened(disk: SimulatedDisk, growth: Growth | None = None) -> EmbeddedMetadataStore:
    store = EmbeddedMetadataStore(disk, growth=growth)
    await store.open()
    return store


async def put(store: EmbeddedMetadataStore, key: str, value: bytes = b"") -> int:
    outcome = await store.commit([], [Put(key, value)])
    assert isinstance(outcome, Committed)
    return outcome.revision


def test_a_full_disk_refuses_and_recovers_by_itself() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        await put(store, "a")
        disk.set_capacity(0)
        with pytest.raises(StoreUnavailable) as refusal:
            await put(store, "b")
        assert refusal.value.retriable
        assert await store.get("b") is None
        disk.set_capacity(1 << 20)
        await put(store, "c")
        assert [item.key for item in (await store.range("")).items] == ["a", "c"]
        await store.close()

    run(scenario)


def test_a_sync_that_fails_is_never_tried_again() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        revision = await put(store, "a")
        watch = store.watch("", revision + 1)
        watching = asyncio.ensure_future(anext(watch))
        disk.fail("sync", errno.EIO, path_part="store.log")
        with pytest.raises(StoreOutcomeUnknown) as verdict:
            await put(store, "b")
        assert verdict.value.outcome_unknown
        assert await store.get("b") is None
        assert await store.get("a") is not None
        with pytest.raises(StoreUnavailable, match="restart the node"):
            await put(store, "c")
        with pytest.raises(StoreUnavailable):
            await store.grant_lease(1_000)
        with pytest.raises(StoreUnavailable):
            await watching
        await store.close()

    run(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_what_recovery_shows_stays(seed: int) -> None:
    """Also after a sync that failed: then the page cache shows what no sync will ever write."""

    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        await put(store, "a")
        disk.fail("sync", errno.EIO, path_part="store.log")
        with pytest.raises(StoreOutcomeUnknown):
            await put(store, "b", b"x" * 3_000)
        await store.close()
        after = disk.kill()
        recovered = StoreLog(after, DEFAULT_PATH, Growth()).recover()
        cut = after.possible_state(Random(seed))
        again = StoreLog(cut, DEFAULT_PATH, Growth()).recover()
        assert (again.revision, again.items) == (recovered.revision, recovered.items)

    run(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(20))
def test_a_full_disk_keeps_nobody_from_starting(seed: int) -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        for key in "abc":
            await put(store, key)
        after = disk.crash()
        await store.close()
        after.set_capacity(0)
        store = await opened(after)
        assert [item.key for item in (await store.range("")).items] == ["a", "b", "c"]
        with pytest.raises(StoreUnavailable):
            await put(store, "d")
        after.set_capacity(1 << 20)
        await put(store, "d")
        await store.close()
        cut = StoreLog(after.crash(), DEFAULT_PATH, Growth()).recover()
        assert sorted(cut.items) == ["a", "b", "c", "d"]

    run(scenario, seed=seed)


def test_concurrent_transactions_share_a_sync() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        before = disk.operations["sync"]
        await asyncio.gather(*(put(store, f"k{number}") for number in range(100)))
        assert disk.operations["sync"] - before <= 3
        await store.close()

    run(scenario)


def test_a_caller_that_gives_up_does_not_undo() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        appended = asyncio.Event()
        disk.observe = lambda operation, path: appended.set()
        task = asyncio.create_task(put(store, "a"))
        await appended.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        outcome = await store.commit([Absent("a")], [Put("b", b"")])
        assert not isinstance(outcome, Committed)
        await store.close()

    run(scenario)


def test_the_file_stays_small() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk, Growth(floor_bytes=2_000, factor=2))
        for number in range(300):
            await put(store, "a", b"%d" % number)
        await store.close()
        assert len(disk.read_bytes(DEFAULT_PATH)) < 2_500
        store = await opened(disk)
        item = await store.get("a")
        assert item is not None
        assert (item.value, item.mod_revision) == (b"299", 300)
        await store.close()

    run(scenario)


@pytest.mark.parametrize("operation", ["append", "sync", "rename"])
def test_a_snapshot_that_cannot_be_written_waits(operation: str) -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk, Growth(floor_bytes=2_000, factor=2))
        path = ".tmp" if operation != "rename" else ""
        disk.fail(operation, errno.ENOSPC, path_part=path, times=1)
        for number in range(100):
            await put(store, "a", b"%d" % number)
        assert not disk.exists(DEFAULT_PATH + ".tmp")
        assert len(disk.read_bytes(DEFAULT_PATH)) < 4_500
        await store.close()
        cut = disk.crash()
        assert StoreLog(cut, DEFAULT_PATH, Growth()).recover().items["a"].value == b"99"

    run(scenario)


def test_a_snapshot_whose_name_may_not_stay_stops_the_store() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk, Growth(floor_bytes=300, factor=2))
        disk.fail("sync_directory", errno.EIO)
        answered = 0
        with suppress(StoreUnavailable):
            while answered < 100:
                await put(store, "a", b"%d" % answered)
                answered += 1
        with pytest.raises(StoreUnavailable, match="cannot go on"):
            await put(store, "b")
        await store.close()
        for seed in range(20):
            cut = disk.possible_state(Random(seed))
            item = StoreLog(cut, DEFAULT_PATH, Growth()).recover().items["a"]
            assert item.value == b"%d" % (answered - 1)

    run(scenario)


def test_leases_end_with_the_process() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        lease = await store.grant_lease(1_000_000)
        await store.commit([], [Put("leased", b"", lease), Put("kept", b"")])
        await store.close()
        store = await opened(disk)
        assert [item.key for item in (await store.range("")).items] == ["kept"]
        with pytest.raises(LeaseLost):
            await store.keep_lease(lease)
        await store.close()

    run(scenario)


def test_a_lease_ends_although_the_disk_was_full() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        lease = await store.grant_lease(1_000)
        outcome = await store.commit([], [Put("leased", b"", lease)])
        disk.fail("append", errno.ENOSPC, times=3)
        async with aclosing(store.watch("leased", outcome.revision + 1)) as batches:
            assert (await anext(batches)).events == (Deleted("leased", outcome.revision + 1),)
        await store.close()

    run(scenario)


def test_a_watch_of_an_older_process_reads_anew() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = await opened(disk)
        revision = await put(store, "a")
        await store.close()
        store = await opened(disk)
        async with aclosing(store.watch("", revision)) as batches:
            with pytest.raises(CompactedError):
                await anext(batches)
        async with aclosing(store.watch("", revision + 1)) as batches:
            assert await put(store, "b") == (await anext(batches)).revision
        await store.close()

    run(scenario)


@pytest.mark.parametrize("content", [b"", b"TIDEMETA", b"something else altogether, and longer"])
def test_a_file_that_is_none_of_ours(content: bytes) -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        disk.make_directory("metadata")
        disk.replace(DEFAULT_PATH, content)
        store = EmbeddedMetadataStore(disk)
        with pytest.raises(StoreCorrupt, match=r"damaged at byte 0.*backup"):
            await store.open()
        await store.close()
        assert disk.read_bytes(DEFAULT_PATH) == content

    run(scenario)


def test_nothing_is_served_before_opening_and_after_closing() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        store = EmbeddedMetadataStore(disk)
        with pytest.raises(StoreUnavailable, match="not open"):
            await put(store, "a")
        await store.open()
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable):
            await put(store, "a")

    run(scenario)


def test_a_session_ends_itself_where_the_store_does_not_answer() -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        loop = asyncio.get_running_loop()
        store = await opened(disk)
        session = await open_session(store, ttl_ms=9_000)
        granted = loop.time()
        disk.fail("sync", errno.EIO, path_part="store.log")
        with pytest.raises(StoreOutcomeUnknown):
            await put(store, "a")
        await session.lost.wait()
        assert loop.time() - granted <= 9.0
        with pytest.raises(StoreUnavailable):
            await session.close()
        await store.close()

    run(scenario)


def test_an_opening_that_is_given_up_ends_after_its_thread(tmp_path: Path) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    written: list[str] = []

    class SlowDisk(LocalDisk):
        def replace(self, path: str, content: bytes) -> None:
            begun.set()
            may_go_on.wait()
            super().replace(path, content)
            written.append(path)

    async def main() -> None:
        opening = asyncio.create_task(EmbeddedMetadataStore(SlowDisk(tmp_path)).open())
        await asyncio.to_thread(begun.wait)
        opening.cancel()
        # More turns of the loop than a cancelled task needs to end.
        for _ in range(10):
            await asyncio.sleep(0)
        assert not opening.done()
        may_go_on.set()
        await asyncio.wait([opening])
        assert opening.cancelled()
        assert written == [DEFAULT_PATH]

    asyncio.run(main())
