"""A process for the power-cut test: appends under group commit and says what was acknowledged.

Run as `python -m faults.power_cut_writer <data directory> <flush policy>`; it writes one line for
each acknowledgement, and goes on until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing

from storage_kit.batches import batch, header_of
from storage_kit.directories import TOPIC_ID

from faults.volatile_disk import VolatileDisk
from tidelog.model import PartitionId
from tidelog_broker.storage import (
    DataDirectory,
    FlushPolicy,
    GroupCommit,
    Log,
    LogConfig,
    StorageConfig,
)
from tidelog_runtime.adapters.sync_threads import SyncThreads

CONFIG = LogConfig(segment_bytes=20_000)
PARTITIONS = 3


async def write(root: str, policy: FlushPolicy) -> None:
    """Keep each partition busy, for ever."""
    loop = asyncio.get_running_loop()
    storage = StorageConfig(
        flush_policy=policy, flush_ms=60_000, free_bytes_min=0, snapshot_interval_bytes=7000
    )
    directory = DataDirectory.open(
        VolatileDisk(root), storage, new_storage_uuid=b"power cut writer", now_ms=1
    )

    def acknowledge(log: Log, end: int) -> None:
        print(log.partition_id.partition, end, flush=True)
        loop.call_soon(append, log)

    def append(log: Log) -> None:
        content = batch(b"value %d" % log.log_end, b"and one more")
        log.append(content, header_of(content), leader_epoch=0, now_ms=1)
        commit.mark_dirty(log)
        if policy is not FlushPolicy.COMMIT:
            # As a partition does: nobody waits for the sync.
            loop.call_soon(acknowledge, log, log.acknowledgeable_end)

    def fault(log: Log, error: OSError) -> None:
        raise RuntimeError(f"{log}: {error}")

    with closing(SyncThreads(2)) as threads:
        commit = GroupCommit(
            directory,
            threads=threads,
            on_durable=acknowledge,
            on_fault=fault,
        )
        for number in range(PARTITIONS):
            append(directory.open_partition(PartitionId(TOPIC_ID, number), "cut", CONFIG, now_ms=1))
        await commit.run()


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], FlushPolicy(sys.argv[2])))
