"""What a clean stop leaves to the next start: little is written, and nothing is forgotten."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.directories import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    commit,
    open_directory,
    open_log,
    purge,
    read_all,
)

from simulation.disk import SimulatedDisk
from tidelog.errors import OutOfOrderSequence, StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import Duplicate, Log, LogConfig, names, snapshots
from tidelog_broker.storage.journal import ENDS

ROOMY = LogConfig(file_delete_delay_ms=0)
FOLDER = names.partition_folder(PARTITION)


def snapshot_offsets(disk: SimulatedDisk) -> list[int]:
    return snapshots.offsets(disk.list_directory(FOLDER))


def reopened(disk: SimulatedDisk, config: LogConfig = ROOMY) -> Log:
    directory = open_directory(disk)
    assert directory.was_clean
    return open_log(directory, config)


def test_many_small_logs_are_closed_without_a_file_for_each() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    logs = [open_log(directory, ROOMY, partition_id=PartitionId(TOPIC_ID, at)) for at in range(50)]
    for log in logs:
        append(log)
    commit(directory, *logs)
    before = Counter(disk.operations)
    directory.close()
    done = disk.operations - before
    assert done["create"] + done["rename"] < 10, done


def test_epochs_times_and_producers_outlive_a_stop_that_wrote_no_caches() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    for number in range(6):
        append(log, epoch=number // 2, now_ms=NOW_MS + number, producer=(7, 0, number))
    commit(directory, log)
    epochs = log.body().epochs.lines()
    directory.close()
    assert snapshot_offsets(disk) == []
    log = reopened(disk)
    assert (log.log_end, log.latest_epoch) == (6, 2)
    assert log.body().epochs.lines() == epochs == [(0, 0), (1, 2), (2, 4)]
    repeated = log.check_producer(header_of(batch(producer=(7, 0, 5))))
    assert isinstance(repeated, Duplicate)
    with pytest.raises(OutOfOrderSequence):
        log.check_producer(header_of(batch(producer=(7, 0, 7))))
    assert [header.base_offset for header in read_all(log)] == list(range(6))
    active = log.body().active
    assert active is not None
    active.index()
    assert (active.first_append_ms, active.last_append_ms) == (NOW_MS, NOW_MS + 5)


def test_a_segment_rolls_by_its_age_also_over_restarts() -> None:
    disk = SimulatedDisk(Random(1))
    config = LogConfig(segment_ms=1_000)
    directory = open_directory(disk)
    append(open_log(directory, config), now_ms=NOW_MS)
    directory.close()
    directory = open_directory(disk)
    log = open_log(directory, config)
    append(log, now_ms=NOW_MS + 999)
    assert len(log.body().segments) == 1
    directory.close()
    log = reopened(disk, config)
    append(log, now_ms=NOW_MS + 1_000)
    assert len(log.body().segments) == 2


def test_what_no_cache_covers_adds_up_over_restarts() -> None:
    disk = SimulatedDisk(Random(1))
    written = []
    for _ in range(6):
        directory = open_directory(disk)
        log = open_log(directory, ROOMY)
        append(log, b"x" * 100_000)
        commit(directory, log)
        directory.close()
        written.append(snapshot_offsets(disk))
    assert written == [[], [], [3], [3], [3], [3, 6]]


def test_a_crash_after_such_a_stop_recovers_all_of_it() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    for number in range(6):
        append(log, epoch=number // 2, producer=(7, 0, number))
    commit(directory, log)
    directory.close()
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    append(log, epoch=3, producer=(7, 0, 6))
    commit(directory, log)
    directory.volume.journal.sync()
    directory = open_directory(disk.crash())
    assert not directory.was_clean
    log = open_log(directory, ROOMY)
    assert (log.log_end, log.latest_epoch) == (7, 3)
    assert log.body().epochs.lines() == [(0, 0), (1, 2), (2, 4), (3, 6)]
    assert isinstance(log.check_producer(header_of(batch(producer=(7, 0, 6)))), Duplicate)
    assert purge(directory) == 0


def test_a_marker_of_another_version_means_recovery() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    append(open_log(directory, ROOMY))
    directory.close()
    content = bytearray(disk.read_bytes(names.CLEAN_MARKER))
    content[5] = 1
    disk.replace(names.CLEAN_MARKER, bytes(content))
    directory = open_directory(disk)
    assert not directory.was_clean
    assert open_log(directory, ROOMY).log_end == 1


def test_a_damaged_marker_means_recovery() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    append(open_log(directory, ROOMY))
    directory.close()
    disk.flip_bit(names.CLEAN_MARKER)
    directory = open_directory(disk)
    assert not directory.was_clean
    assert open_log(directory, ROOMY).log_end == 1


def test_a_marker_of_an_earlier_stop_is_not_believed() -> None:
    """As when somebody restores a part of the folder."""
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    append(log, b"first")
    commit(directory, log)
    directory.close()
    marker = disk.read_bytes(names.CLEAN_MARKER)
    log = reopened(disk)
    append(log, b"second")
    log.sync()
    log._volume.journal.write(ENDS, [(PARTITION, log.journal_key, log.durable_end)])
    log._volume.journal.sync()
    disk = disk.crash()
    disk.replace(names.CLEAN_MARKER, marker)
    directory = open_directory(disk)
    assert not directory.was_clean
    log = open_log(directory, ROOMY)
    assert log.log_end == 2
    assert append(log, b"third") == 2
    assert [header.base_offset for header in read_all(log)] == [0, 1, 2]


def test_no_batch_goes_to_an_offset_that_the_files_turn_out_to_hold() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    append(log, b"first")
    commit(directory, log)
    path = f"{FOLDER}/{0:020d}.log"
    first = disk.read_bytes(path)
    append(log, b"second")
    commit(directory, log)
    second = disk.read_bytes(path)[len(first) :]
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    append(log, b"first")
    commit(directory, log)
    directory.close()
    disk.open(path).append([second])
    log = reopened(disk)
    with pytest.raises(StorageError, match="found to end at 2, not at 1"):
        append(log, b"third")
    assert append(log, b"third") == 2
    assert [header.base_offset for header in read_all(log)] == [0, 1, 2]
