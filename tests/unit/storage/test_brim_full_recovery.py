"""Recovery where others filled the disk to its last byte: it costs evidence, and no partition."""

from __future__ import annotations

from random import Random

from storage_kit.directories import (
    NOW_MS,
    TOPIC_ID,
    append,
    commit,
    open_directory,
    open_log,
    read_all,
)

from simulation.disk import SimulatedDisk
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, Log, StorageConfig
from tidelog_runtime.reserving_disk import ReservingDisk

PARTITIONS = [PartitionId(TOPIC_ID, number) for number in range(60)]
#: Enough for what each start has to write, and too little for what it would like to.
RESERVED = 12_000
CAPACITY = 64 * RESERVED
#: What others have there.
FILLER = "filler"


def opened(disk: SimulatedDisk) -> tuple[DataDirectory, list[Log]]:
    """All partitions, as a start opens them."""
    directory = open_directory(ReservingDisk(disk, RESERVED), StorageConfig())
    return directory, [open_log(directory, partition_id=one) for one in PARTITIONS]


def test_every_partition_is_opened_again_and_again() -> None:
    disk = SimulatedDisk(Random(1), capacity_bytes=CAPACITY)
    directory, logs = opened(disk)
    for log in logs:
        append(log, b"kept")
    commit(directory, *logs)
    for _ in range(3):
        disk = disk.kill()
        disk.open(FILLER, create=True).append([bytes(disk.free_bytes())])
        directory, logs = opened(disk)
        assert all(len(read_all(log)) == 1 for log in logs)
        assert directory.volume.space.full
    directory.delete_topic(TOPIC_ID, now_ms=NOW_MS)
    disk.remove(FILLER)
    assert directory.can_append(NOW_MS)
