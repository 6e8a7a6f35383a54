"""What a log knew of its producers, it knows after retention and a kill or a power cut.

Whatever else failed: without the segments only a snapshot tells of them.
"""

from __future__ import annotations

import errno
from random import Random

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.directories import append, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import StorageError
from tidelog_broker.storage import FlushPolicy, StorageConfig
from tidelog_broker.storage.log import Log
from tidelog_broker.storage.producer_state import Duplicate

UNSYNCED = StorageConfig(flush_policy=FlushPolicy.OS, free_bytes_min=0)


def filled(disk: SimulatedDisk) -> Log:
    """Ten batches of a producer, each in a segment of its own."""
    log = open_log(open_directory(disk, UNSYNCED))
    for sequence in range(10):
        append(log, b"one", producer=(7, 0, sequence))
        log.roll()
    log.high_watermark = log.log_end
    return log


def is_known(log: Log, sequence: int) -> bool:
    """Whether this batch is found to be a repeated one."""
    header = header_of(batch(b"one", producer=(7, 0, sequence)))
    return isinstance(log.check_producer(header), Duplicate)


def test_ahead_of_what_the_journal_knows_to_be_durable() -> None:
    disk = SimulatedDisk(Random(1))
    log = filled(disk)
    log.advance_log_start(8, now_ms=1)
    again = open_log(open_directory(disk.kill(), UNSYNCED))
    assert (again.log_start, again.log_end) == (8, 10)
    assert all(is_known(again, sequence) for sequence in range(5, 10))


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_after_a_power_cut(kept: int) -> None:
    for seed in range(40):
        disk = SimulatedDisk(Random(seed))
        log = filled(disk)
        log.sync()
        log.advance_log_start(log.log_end - kept, now_ms=1)
        again = open_log(open_directory(disk.crash(), UNSYNCED))
        assert again.log_end == 10
        assert all(is_known(again, sequence) for sequence in range(5, 10)), seed


def test_a_producer_that_nobody_knows_costs_no_sync() -> None:
    disk = SimulatedDisk(Random(1))
    log = open_log(open_directory(disk, UNSYNCED))
    append(log, b"one")
    log.roll()
    log.high_watermark = log.log_end
    disk.fail("open", errno.EIO, path_part=".snapshot")
    log.advance_log_start(1, now_ms=1)
    assert len(log.body().segments) == 1


def test_a_folder_that_fails_makes_the_log_faulty() -> None:
    disk = SimulatedDisk(Random(1))
    log = filled(disk)
    segments = len(log.body().segments)
    disk.fail("sync_directory")
    with pytest.raises(StorageError):
        log.advance_log_start(8, now_ms=1)
    assert log.fault is not None
    assert len(log.body().segments) == segments


@pytest.mark.parametrize("operation", ["open", "sync_directory"])
def test_segments_stay_until_a_snapshot_can_be_synced(operation: str) -> None:
    disk = SimulatedDisk(Random(1))
    log = filled(disk)
    segments = len(log.body().segments)
    disk.fail(operation, errno.EMFILE, path_part="" if operation != "open" else ".snapshot")
    log.advance_log_start(8, now_ms=1)
    assert (log.log_start, log.fault) == (8, None)
    assert len(log.body().segments) == segments
    log.advance_log_start(9, now_ms=1)
    assert len(log.body().segments) == 2


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_segments_stay_until_a_snapshot_can_be_written(number: int) -> None:
    disk = SimulatedDisk(Random(1))
    log = filled(disk)
    append(log, b"one", producer=(7, 0, 10))
    disk.fail("open", number, path_part=".snapshot", times=2)
    log.roll()  # the caches are left out
    log.high_watermark = log.log_end
    segments = len(log.body().segments)
    log.advance_log_start(11, now_ms=1)
    assert (log.log_start, log.fault) == (11, None)
    assert len(log.body().segments) == segments
    append(log, b"one", producer=(7, 0, 11))
    log.high_watermark = log.log_end
    log.advance_log_start(12, now_ms=1)
    assert len(log.body().segments) == 1
    again = open_log(open_directory(disk.kill(), UNSYNCED))
    assert is_known(again, 10)
    assert is_known(again, 11)


def test_a_full_disk_gets_its_space_back_all_the_same() -> None:
    disk = SimulatedDisk(Random(1))
    log = filled(disk)
    append(log, b"one", producer=(7, 0, 10))
    disk.fail("open", errno.ENOSPC, path_part=".snapshot", times=2)
    log.roll()
    log.high_watermark = log.log_end
    log.advance_log_start(11, now_ms=1)
    assert len(log.body().segments) == 1
