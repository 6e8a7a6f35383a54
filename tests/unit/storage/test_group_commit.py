"""One sync serves all partitions, and nothing is reported durable before it is."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random

from storage_kit.directories import TOPIC_ID, append, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import FlushPolicy, GroupCommit, Log, StorageConfig
from tidelog_runtime.threads import BlockingCall, attempt


class Broker:
    """A data directory under group commit, with a gate before the threads."""

    def __init__(
        self, policy: FlushPolicy = FlushPolicy.COMMIT, *, whole_volume: bool = False, logs: int = 3
    ) -> None:
        self.disk = SimulatedDisk(Random(1), whole_volume=whole_volume)
        config = StorageConfig(flush_policy=policy, free_bytes_min=0, flush_ms=5)
        self.directory = open_directory(self.disk, config)
        self.logs = [
            open_log(self.directory, partition_id=PartitionId(TOPIC_ID, number))
            for number in range(logs)
        ]
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()
        self.durable: list[tuple[Log, int]] = []
        self.faults: list[Log] = []
        self.commit = GroupCommit(
            self.directory,
            threads=self,
            on_durable=lambda log, end: self.durable.append((log, end)),
            on_fault=lambda log, _: self.faults.append(log),
        )

    async def run(self, calls: Sequence[BlockingCall], /) -> list[OSError | None]:
        self.waiting.set()
        await self.gate.wait()
        return [attempt(call) for call in calls]

    def append(self, log: Log) -> None:
        append(log)
        self.commit.mark_dirty(log)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - yields to the loop, waits for no time
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.commit.run())
        yield
        await self.commit.drain()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self.directory.close()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario on a loop of its own."""

    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_what_is_appended_during_a_sync_joins_the_next_one() -> None:
    async def scenario() -> None:
        broker = Broker()
        first, second, third = broker.logs
        async with broker.running():
            broker.gate.clear()
            broker.append(first)
            broker.append(first)
            broker.append(second)
            await broker.waiting.wait()
            broker.append(first)
            broker.append(third)
            assert broker.durable == []
            broker.gate.set()
            await broker.until(lambda: len(broker.durable) == 4)
            assert broker.durable == [(first, 2), (second, 1), (first, 3), (third, 1)]
            assert [log.durable_end for log in broker.logs] == [3, 1, 1]
            assert [log.acknowledgeable_end for log in broker.logs] == [3, 1, 1]

    run(scenario)


def test_draining_waits_for_a_round_that_is_under_way() -> None:
    async def scenario() -> None:
        broker = Broker()
        async with broker.running():
            broker.gate.clear()
            broker.append(broker.logs[0])
            await broker.waiting.wait()
            draining = asyncio.create_task(broker.commit.drain())
            for _ in range(5):
                await asyncio.sleep(0)
            assert not draining.done()
            broker.gate.set()
            await draining
            assert broker.durable == [(broker.logs[0], 1)]

    run(scenario)


def test_ends_are_journalled_soon_after_the_last_commit() -> None:
    async def scenario() -> None:
        broker = Broker()
        async with broker.running():
            broker.append(broker.logs[0])
            ends = broker.directory.volume.journal.state.ends
            await broker.until(lambda: ends[broker.logs[0].partition_id] == 1)
            await broker.until(lambda: not broker.directory.volume.journal.dirty)

    run(scenario)


def test_a_failed_sync_acknowledges_nothing_of_that_log_alone() -> None:
    async def scenario() -> None:
        broker = Broker()
        bad, good, _ = broker.logs
        async with broker.running():
            broker.disk.fail("sync", errno.EIO, path_part=f"{TOPIC_ID.hex()}/0/")
            broker.append(bad)
            broker.append(good)
            await broker.until(lambda: bool(broker.durable))
            assert broker.durable == [(good, 1)]
            assert broker.faults == [bad]
            assert bad.fault is not None
            assert bad.durable_end == 0

    run(scenario)


def test_a_failed_journal_acknowledges_nothing_at_all() -> None:
    async def scenario() -> None:
        broker = Broker()
        async with broker.running():
            broker.disk.fail("sync", errno.EIO, path_part="journal")
            broker.append(broker.logs[0])
            await broker.until(lambda: bool(broker.faults))
            assert broker.durable == []
            assert not broker.directory.can_append(0)

    run(scenario)


def test_one_call_syncs_a_volume_of_our_own() -> None:
    async def scenario() -> None:
        broker = Broker(whole_volume=True, logs=20)
        async with broker.running():
            before = broker.disk.operations["sync"]
            for log in broker.logs:
                broker.append(log)
            await broker.until(lambda: len(broker.durable) == 20)
            assert broker.disk.operations["sync_volume"] == 1
            assert broker.disk.operations["sync"] == before
            survived = broker.disk.possible_state(Random(2))
            survived.observe = None
            directory = open_directory(survived)
            ends = [
                open_log(directory, partition_id=PartitionId(TOPIC_ID, number)).log_end
                for number in range(20)
            ]
            assert ends == [1] * 20

    run(scenario)


def test_without_commit_an_append_may_be_acknowledged_at_once() -> None:
    async def scenario() -> None:
        for policy in (FlushPolicy.INTERVAL, FlushPolicy.OS):
            broker = Broker(policy)
            async with broker.running():
                log = broker.logs[0]
                syncs = broker.disk.operations["sync"]
                broker.append(log)
                broker.append(log)
                assert (log.durable_end, log.acknowledgeable_end) == (0, 2)
                assert broker.disk.operations["sync"] == syncs
                if policy is FlushPolicy.INTERVAL:
                    await broker.until(lambda log=log: log.durable_end == 2)  # type: ignore[misc]
                assert broker.durable == []  # that is for those who wait

    run(scenario)


def test_the_os_policy_syncs_segments_that_are_full() -> None:
    async def scenario() -> None:
        broker = Broker(FlushPolicy.OS)
        async with broker.running():
            log = broker.logs[0]
            for _ in range(40):
                broker.append(log)
            active = log.body().active
            assert active is not None
            await broker.until(lambda: log.durable_end == active.base_offset)
            assert 0 < log.durable_end < 40

    run(scenario)


def test_watermarks_are_written_off_the_loop() -> None:
    async def scenario() -> None:
        broker = Broker()
        async with broker.running():
            log = broker.logs[0]
            broker.append(log)
            await broker.until(lambda: log.durable_end == 1)
            log.high_watermark = 1
            await broker.commit.write_watermarks()
            after = open_directory(broker.disk.possible_state(Random(3)))
            assert open_log(after, partition_id=log.partition_id).high_watermark == 1

    run(scenario)


def test_a_checkpoint_waits_for_its_next_turn_where_no_file_can_be_opened() -> None:
    broker = Broker()

    async def scenario() -> None:
        async with broker.running():
            broker.disk.fail("open", errno.EMFILE, path_part="watermarks")
            await broker.commit.write_watermarks()
            await broker.commit.write_watermarks()

    run(scenario)
    assert broker.disk.exists("watermarks")


def test_after_the_journal_failed_not_even_what_was_appended_meanwhile_is_acknowledged() -> None:
    async def scenario() -> None:
        broker = Broker()
        first, second, _ = broker.logs
        async with broker.running():
            broker.disk.fail("sync", errno.EIO, path_part="journal")
            broker.gate.clear()
            broker.append(first)
            await broker.waiting.wait()
            broker.append(second)
            broker.gate.set()
            await broker.until(lambda: len(broker.faults) == 2)
            assert broker.faults == [first, second]
            assert broker.durable == []

    run(scenario)


def test_a_journal_that_fails_elsewhere_while_a_round_is_under_way_counts_too() -> None:
    async def scenario() -> None:
        broker = Broker()
        first, second, _ = broker.logs
        async with broker.running():
            broker.append(second)
            await broker.until(lambda: second.durable_end == 1)
            second.high_watermark = 1
            broker.durable.clear()
            broker.gate.clear()
            broker.waiting.clear()
            broker.append(first)
            await broker.waiting.wait()
            broker.disk.fail("sync", errno.EIO, path_part="journal")
            with contextlib.suppress(StorageError):
                second.advance_log_start(1, now_ms=1)
            broker.gate.set()
            await broker.until(lambda: bool(broker.faults))
            assert broker.faults == [first]
            assert broker.durable == []

    run(scenario)


def test_who_ends_it_between_two_rounds_leaves_no_sync_unheard_of() -> None:
    async def scenario() -> None:
        broker = Broker(logs=1)
        broker.gate.clear()
        (log,) = broker.logs
        broker.append(log)
        rounds = asyncio.create_task(broker.commit.run())
        await broker.waiting.wait()
        ended = asyncio.create_task(broker.commit.round_ended())
        await asyncio.sleep(0)
        assert not ended.done()
        broker.gate.set()
        await ended
        rounds.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await rounds
        assert broker.durable == [(log, log.log_end)]
        journal = broker.directory.volume.journal
        journal.sync()
        assert journal.mark.position == journal._file.size
        broker.directory.close()

    run(scenario)
