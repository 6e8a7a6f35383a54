"""What a failed append left behind the last batch of a closed segment, and a power cut kept."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from storage_kit.directories import (
    PARTITION,
    SMALL,
    append,
    commit,
    open_directory,
    open_log,
    read_all,
)

from simulation.disk import SimulatedDisk
from tidelog_broker.storage import names

LARGE = replace(SMALL, segment_bytes=1 << 20)


def test_a_rest_behind_the_last_batch_is_cut_and_nothing_is_damaged() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, LARGE)
    append(log, b"first")
    commit(directory, log)
    rest = disk.open(f"{names.partition_folder(PARTITION)}/{0:020d}.log")
    rest.append([bytes(300)])
    rest.sync()
    log.roll()
    append(log, b"second")
    append(log, b"third")
    commit(directory, log)
    directory.volume.journal.sync()
    for _ in range(2):
        disk = disk.crash()
        log = open_log(open_directory(disk), LARGE)
        assert [header.base_offset for header in read_all(log)] == [0, 1, 2]
        assert not log.damaged_ranges
        assert len(log.read(0, 1 << 20, end=3)) < 100
