"""A partition that is deleted while its sync is under way: nothing has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from storage_kit.directories import NOW_MS, PARTITION, append, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog_broker.storage import GroupCommit, Log
from tidelog_runtime.threads import BlockingCall, attempt


def test_deleting_a_partition_during_its_sync_is_no_fault() -> None:
    directory = open_directory(SimulatedDisk(Random(1)))
    log = open_log(directory)
    faults: list[tuple[Log, OSError]] = []

    class DeleteThenRun:
        async def run(self, calls: Sequence[BlockingCall], /) -> list[OSError | None]:
            if directory.holds(log):
                directory.delete_topic(PARTITION.topic_id, now_ms=NOW_MS)
            return [attempt(call) for call in calls]

    async def main() -> None:
        commit = GroupCommit(
            directory,
            threads=DeleteThenRun(),
            on_durable=lambda _log, _end: None,
            on_fault=lambda log, error: faults.append((log, error)),
        )
        append(log)
        commit.mark_dirty(log)
        await commit.drain()

    asyncio.run(main())
    assert not directory.holds(log)
    assert faults == []
