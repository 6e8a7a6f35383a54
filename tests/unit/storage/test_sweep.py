"""Files that were retired shortly before a stop: the next process gives their space back."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random
from typing import Final

import pytest
from storage_kit.directories import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    commit,
    open_directory,
    open_log,
    purge,
    read_all,
    with_config,
)

from simulation.disk import SimulatedDisk
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, Log, names
from tidelog_broker.storage.sweep import FOLDERS_AT_A_TIME

DELAY_MS: Final = 60_000
PATIENT: Final = replace(SMALL, file_delete_delay_ms=DELAY_MS)
COUNT: Final = 60


def partition(number: int) -> PartitionId:
    """A partition of the topic."""
    return PartitionId(TOPIC_ID, number)


def retired(disk: SimulatedDisk, number: int = 0) -> list[str]:
    """The files of a partition that wait for their removal."""
    held = disk.list_directory(names.partition_folder(partition(number)))
    return [name for name in held if name.endswith(names.DELETED)]


def with_retired_files(disk: SimulatedDisk, partitions: int = 1) -> tuple[DataDirectory, list[Log]]:
    """An open directory whose logs have dropped segments a moment ago."""
    directory = open_directory(disk)
    logs = [open_log(directory, PATIENT, partition_id=partition(at)) for at in range(partitions)]
    for log in logs:
        for number in range(COUNT):
            append(log, b"v%d" % number)
    commit(directory, *logs)
    for log in logs:
        with_config(log, retention_bytes=2000)
    assert directory.run_retention(NOW_MS) == partitions
    assert all(retired(disk, at) for at in range(partitions))
    return directory, logs


def test_after_a_clean_stop_they_go_though_nobody_needs_the_log() -> None:
    disk = SimulatedDisk(Random(1))
    with_retired_files(disk)[0].close()
    directory = open_directory(disk)
    assert directory.was_clean
    log = open_log(directory, PATIENT)
    assert retired(disk), "a start removes nothing: it must be quick"
    purge(directory)
    assert retired(disk) == []
    assert read_all(log)[-1].next_offset == COUNT
    directory.close()


def test_after_a_clean_stop_they_go_though_nobody_opens_the_partition() -> None:
    disk = SimulatedDisk(Random(1))
    with_retired_files(disk)[0].close()
    directory = open_directory(disk)
    purge(directory)
    assert retired(disk) == []
    directory.close()


def test_after_an_unclean_stop_they_go_too() -> None:
    disk = SimulatedDisk(Random(1))
    with_retired_files(disk)
    disk = disk.kill()
    directory = open_directory(disk)
    open_log(directory, PATIENT)
    purge(directory)
    assert retired(disk) == []
    directory.close()


def test_what_this_process_retires_keeps_its_delay() -> None:
    disk = SimulatedDisk(Random(1))
    with_retired_files(disk)[0].close()
    older = set(retired(disk))
    directory = open_directory(disk)
    log = open_log(directory, replace(PATIENT, retention_bytes=1000))
    assert directory.run_retention(NOW_MS) == 1
    own = set(retired(disk)) - older
    assert own
    assert purge(directory) == len(older)
    assert set(retired(disk)) == own
    assert purge(directory, NOW_MS + DELAY_MS) == len(own)
    assert retired(disk) == []
    assert len(read_all(log)) == COUNT - log.log_start
    directory.close()


def test_a_log_that_is_needed_meanwhile_is_served() -> None:
    disk = SimulatedDisk(Random(1))
    with_retired_files(disk)[0].close()
    directory = open_directory(disk)
    log = open_log(directory, PATIENT)
    removals = directory.purge_steps(NOW_MS)
    for _ in range(2):
        next(removals)()
    assert len(read_all(log)) == COUNT - log.log_start
    directory.delete_partition(partition(0), now_ms=NOW_MS)
    for step in removals:
        step()
    assert directory.stored_partitions() == []
    directory.close()


def test_a_folder_that_cannot_be_listed_is_looked_into_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(Random(1))
    with_retired_files(disk, 3)[0].close()
    directory = open_directory(disk)
    disk.fail("list_directory", errno.EMFILE, path_part=names.partition_folder(partition(1)))
    purge(directory)
    assert [bool(retired(disk, at)) for at in range(3)] == [False, True, True]
    purge(directory, NOW_MS + 59_999)
    assert caplog.text.count("can't be looked into, and what was deleted there is removed") == 1
    purge(directory, NOW_MS + 60_000)
    assert [bool(retired(disk, at)) for at in range(3)] == [False, False, False]
    directory.close()


def test_many_folders_are_looked_into_some_at_a_time() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    for number in range(FOLDERS_AT_A_TIME + 10):
        open_log(directory, partition_id=partition(number))
    directory.close()
    directory = open_directory(disk)
    looks = [sum(1 for _ in directory.purge_steps(NOW_MS)) for _ in range(3)]
    assert looks == [FOLDERS_AT_A_TIME, 10, 0]
    directory.close()
