"""What a log knew of its producers, it knows after retention and a kill or a power cut.

Whatever else failed: without the segments only a snapshot tells of them.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.directories import SMALL, append, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import StorageError
from tidelog_broker.storage import FlushPolicy, StorageConfig
from tidelog_broker.storage.log import Log
from tidelog_broker.storage.producer_state import Duplicate

UNSYNCED = StorageConfig(flush_policy=FlushPolicy.OS, free_bytes_min=0)
SYNCED = StorageConfig(flush_policy=FlushPolicy.COMMIT, free_bytes_min=0)
#: Segments are as long as the tests want them.
LONG = replace(SMALL, segment_bytes=1 << 20)


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


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_a_snapshot_that_was_left_out_is_made_from_the_log(number: int) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk, SYNCED)
    log = open_log(directory, LONG)
    append(log, b"one", producer=(7, 0, 0))
    disk.fail("open", number, path_part=".snapshot")
    log.roll()
    directory.can_append(now_ms=1 << 40)  # there is space again
    append(log, b"other")
    commit(directory, log)
    directory.close()  # so little was appended that no snapshot is written
    log = open_log(open_directory(disk, SYNCED), LONG)
    log.high_watermark = log.log_end
    log.advance_log_start(1, now_ms=1)
    assert len(log.body().segments) == 1
    assert is_known(log, 0)


@pytest.mark.parametrize("policy", FlushPolicy)
def test_it_is_made_for_where_the_log_begins_and_no_later_place(policy: FlushPolicy) -> None:
    config = replace(SYNCED, flush_policy=policy, snapshot_interval_bytes=200)
    disk = SimulatedDisk(Random(1))
    log = open_log(open_directory(disk, config), LONG)
    append(log, b"one", producer=(7, 0, 0))
    log.roll()
    append(log, b"a")
    disk = disk.kill()  # the journal knows no end yet, so that the snapshot is not believed
    log = open_log(open_directory(disk, config), LONG)
    for _ in range(12):
        append(log, b"b" * 50)
    log.sync()
    log.high_watermark = log.log_end
    log.advance_log_start(1, now_ms=1)
    again = open_log(open_directory(disk.kill(), config), LONG)
    assert (again.log_start, again.log_end) == (1, 14)
    assert is_known(again, 0)


def test_one_that_a_power_cut_has_torn_is_made_anew() -> None:
    config = replace(SYNCED, snapshot_interval_bytes=200)
    for seed in range(100):
        disk = SimulatedDisk(Random(seed))
        directory = open_directory(disk, config)
        log = open_log(directory, LONG)
        append(log, b"one", producer=(7, 0, 0))
        log.roll()
        for count in (4, 8):
            for _ in range(count):
                append(log, b"b" * 50)
            commit(directory, log)
            directory.volume.journal.sync()
            if count == 8:
                log.advance_log_start(1, now_ms=1)
            disk = disk.crash()
            directory = open_directory(disk, config)
            log = open_log(directory, LONG)
        assert log.log_end == 13
        assert is_known(log, 0), seed


def test_without_a_journal_the_first_segments_own_is_believed() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk, SYNCED)
    log = open_log(directory, LONG)
    append(log, b"one", producer=(7, 0, 0))
    log.roll()
    append(log, b"x")
    commit(directory, log)
    directory.checkpoint()
    log.advance_log_start(1, now_ms=1)
    disk = disk.kill()
    for name in disk.list_directory(""):
        if name.startswith("journal-"):
            disk.remove(name)
    again = open_log(open_directory(disk, SYNCED), LONG)
    assert (again.log_start, again.log_end) == (1, 2)
    assert is_known(again, 0)


@pytest.mark.parametrize("happens", ["kill", "truncation"])
def test_what_is_durable_is_not_replaced_by_what_is_not(happens: str) -> None:
    for seed in range(60):
        disk = SimulatedDisk(Random(seed))
        directory = open_directory(disk, SYNCED)
        log = open_log(directory, LONG)
        append(log, b"one", producer=(7, 0, 0))
        log.roll()
        log.sync()
        directory.volume.journal.sync()
        log.high_watermark = 1
        log.advance_log_start(1, now_ms=1)
        if happens == "kill":
            disk = disk.kill()
            directory = open_directory(disk, SYNCED)
            log = open_log(directory, LONG)
        else:
            append(log, b"y")
            log.truncate_to(1, now_ms=1)
        append(log, b"next")
        commit(directory, log)
        directory.volume.journal.sync()
        again = open_log(open_directory(disk.crash(), SYNCED), LONG)
        assert (again.log_start, again.log_end) == (1, 2)
        assert is_known(again, 0), seed


@pytest.mark.parametrize("retention_ms", [1, -1])
def test_retention_comes_back_to_segments_that_had_to_stay(retention_ms: int) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk, UNSYNCED)
    log = open_log(directory, replace(LONG, retention_ms=retention_ms))
    for sequence in range(5):
        append(log, b"one", producer=(7, 0, sequence))
        log.roll()
    log.high_watermark = log.log_end
    disk.fail("open", errno.EIO, path_part=".snapshot")
    log.advance_log_start(5, now_ms=1)
    assert len(log.body().segments) == 6
    directory.run_retention(1)
    assert (log.log_start, len(log.body().segments)) == (5, 1)
    assert directory.run_retention(1) == 0
