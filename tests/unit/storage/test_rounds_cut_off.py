"""A round of the group commit that does not get to its end, and what must not end one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Sequence
from random import Random

import pytest
from storage_kit.directories import TOPIC_ID, append, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, GroupCommit, Log, StorageConfig, names
from tidelog_runtime.threads import BlockingCall, attempt

SMALL_JOURNAL = StorageConfig(free_bytes_min=0, journal_bytes=400)


class Threads:
    """Runs calls at once, but for a first round that is not to end."""

    def __init__(self, fault: BaseException | None = None) -> None:
        self._fault = fault
        self.never: asyncio.Event | None = None

    async def run(self, calls: Sequence[BlockingCall], /) -> list[OSError | None]:
        if self.never is not None:
            never, self.never = self.never, None
            if self._fault is not None:
                raise self._fault
            await never.wait()
        await asyncio.sleep(0)
        return [attempt(call) for call in calls]


class Committed:
    """A log under group commit, and how far it was acknowledged."""

    def __init__(
        self, disk: SimulatedDisk, threads: Threads, config: StorageConfig, partitions: int = 1
    ) -> None:
        self.directory: DataDirectory = open_directory(disk, config)
        self.logs = [
            open_log(self.directory, partition_id=PartitionId(TOPIC_ID, number))
            for number in range(partitions)
        ]
        self.log = self.logs[0]
        self.acknowledged = 0
        self.faults: list[Log] = []
        self.commit = GroupCommit(
            self.directory,
            threads=threads,
            on_durable=lambda _, end: setattr(self, "acknowledged", end),
            on_fault=lambda log, _: self.faults.append(log),
        )

    def append(self) -> None:
        append(self.log)
        self.commit.mark_dirty(self.log)


@pytest.mark.parametrize("fault", [None, MemoryError()], ids=["cancelled", "fault of the program"])
def test_what_a_round_that_was_cut_off_has_begun_is_never_acknowledged(
    fault: BaseException | None,
) -> None:
    async def scenario(disk: SimulatedDisk) -> None:
        threads = Threads(fault)
        broker = Committed(disk, threads, StorageConfig(free_bytes_min=0))
        broker.append()
        await broker.commit.drain()
        threads.never = asyncio.Event()
        broker.append()
        draining = asyncio.create_task(broker.commit.drain())
        for _ in range(9):
            await asyncio.sleep(0)
        draining.cancel()
        with contextlib.suppress(asyncio.CancelledError, MemoryError):
            await draining
        assert broker.faults == [broker.log]
        with pytest.raises(StorageError, match="a round was cut off"):
            broker.append()
        await broker.commit.drain()
        assert broker.acknowledged == 1
        broker.directory.close()

    disk = SimulatedDisk(Random(1))
    asyncio.run(scenario(disk))
    after = open_directory(disk.crash())
    log = open_log(after)
    assert (after.was_clean, log.damaged_ranges) == (False, [])
    assert log.log_end >= 1


def test_a_journal_whose_sync_is_unheard_of_takes_no_more() -> None:
    async def scenario() -> None:
        threads = Threads(MemoryError())
        broker = Committed(SimulatedDisk(Random(1)), threads, StorageConfig(free_bytes_min=0))
        threads.never = asyncio.Event()
        broker.append()
        with pytest.raises(MemoryError):
            await broker.commit.drain()
        assert "nobody knows how its syncs ended" in (broker.directory.volume.space.fault or "")

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT], ids=errno.errorcode.get)
def test_a_journal_that_can_not_be_removed_ends_nothing(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(disk: SimulatedDisk) -> list[str]:
        broker = Committed(disk, Threads(), SMALL_JOURNAL)
        disk.fail("remove", number, path_part="journal-", times=1)
        for _ in range(60):
            broker.append()
            await broker.commit.drain()
        assert (broker.acknowledged, broker.directory.volume.space.fault) == (60, None)
        broker.directory.close()
        return [name for name in disk.list_directory("") if name.startswith("journal-")]

    disk = SimulatedDisk(Random(1))
    first, *renewed = asyncio.run(scenario(disk))
    assert first == names.journal(1)
    assert renewed > [names.journal(3)], "the journal is renewed as before"
    assert [record.message for record in caplog.records if first in record.message]
    disk = disk.crash()
    open_directory(disk)
    assert not disk.exists(first)


def test_a_journal_that_begins_above_its_limit_is_not_renewed_for_ever() -> None:
    async def scenario() -> None:
        broker = Committed(SimulatedDisk(Random(1)), Threads(), SMALL_JOURNAL, partitions=50)
        async with asyncio.timeout(60):
            broker.append()
            await broker.commit.drain()
        assert broker.acknowledged == 1

    asyncio.run(scenario())
