"""Upkeep where the disk fails: one log's trouble is nobody else's, and what is late comes later."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Final, NoReturn

import pytest
from storage_kit.directories import (
    NOW_MS,
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
from tidelog.errors import StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, Log, StorageConfig


def two_logs(disk: SimulatedDisk) -> tuple[DataDirectory, list[Log]]:
    """A directory with two committed logs of several segments."""
    directory = open_directory(disk)
    logs = [open_log(directory, partition_id=PartitionId(TOPIC_ID, at)) for at in range(2)]
    for log in logs:
        for number in range(60):
            append(log, b"v%d" % number)
        commit(directory, log)
        with_config(log, retention_bytes=2000)
    return directory, logs


def test_a_log_that_cannot_be_cut_keeps_no_other_from_its_retention() -> None:
    disk = SimulatedDisk(Random(1))
    directory, logs = two_logs(disk)
    disk.fail("rename", errno.EIO, path_part="/0/")
    with pytest.raises(StorageError, match="Retention could not run everywhere"):
        directory.run_retention(NOW_MS)
    assert logs[1].log_start > 0
    assert logs[1].size_bytes < 4000


def test_a_log_that_cannot_be_read_keeps_no_other_from_its_retention() -> None:
    disk = SimulatedDisk(Random(1))
    two_logs(disk)[0].close()
    directory = open_directory(disk)
    logs = [open_log(directory, partition_id=PartitionId(TOPIC_ID, at)) for at in range(2)]
    for log in logs:
        with_config(log, retention_bytes=2000)
    disk.fail("list_directory", errno.EIO, path_part="/0")
    with pytest.raises(StorageError, match="Retention could not run everywhere"):
        directory.run_retention(NOW_MS)
    assert logs[1].log_start > 0


def test_what_was_deleted_is_left_to_the_next_start() -> None:
    """Removing a large topic may take longer than the process is given to stop."""
    disk = SimulatedDisk(Random(1))
    directory, _ = two_logs(disk)
    with_config(directory.logs()[0], file_delete_delay_ms=60_000)
    with_config(directory.logs()[1], file_delete_delay_ms=60_000)
    directory.delete_topic(TOPIC_ID, now_ms=NOW_MS)
    removals = disk.operations["remove_tree"]
    directory.close()
    directory = open_directory(disk)
    assert directory.was_clean
    assert disk.operations["remove_tree"] == removals
    assert purge(directory) == 3
    assert disk.list_directory("topics") == []
    directory.close()


def test_a_partition_deleted_again_and_again_has_its_space_back() -> None:
    disk = SimulatedDisk(Random(1))
    directory, _ = two_logs(disk)
    for _ in range(3):
        directory.delete_partition(PartitionId(TOPIC_ID, 0), now_ms=NOW_MS)
        append(open_log(directory))
    directory.close()
    directory = open_directory(disk)
    directory.delete_partition(PartitionId(TOPIC_ID, 0), now_ms=NOW_MS)
    assert purge(directory) == 4
    assert [log.partition for log in directory.stored_partitions()] == [1]
    directory.close()


def test_a_folder_that_cannot_be_listed_keeps_no_other_from_going(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(Random(1))
    directory, _ = two_logs(disk)
    for at in range(2):
        directory.delete_partition(PartitionId(TOPIC_ID, at), now_ms=NOW_MS)
    disk.fail("list_directory", errno.EIO, path_part="/0.1.deleted")
    assert purge(directory) == 1
    assert "/0.1.deleted can't be looked into and is removed later" in caplog.text
    topic = f"topics/{TOPIC_ID.hex()}"
    assert disk.list_directory(topic) == ["0.1.deleted", "name"]
    assert purge(directory, NOW_MS + 59_999) == 0
    assert purge(directory, NOW_MS + 60_000) == 1
    assert disk.list_directory(topic) == ["name"]
    directory.close()


def test_a_topic_that_cannot_be_deleted_can_be_deleted_later() -> None:
    disk = SimulatedDisk(Random(1))
    directory, _ = two_logs(disk)
    disk.fail("list_directory", errno.EMFILE, path_part=TOPIC_ID.hex())
    with pytest.raises(StorageError, match="could not be deleted"):
        directory.delete_topic(TOPIC_ID, now_ms=NOW_MS)
    directory.delete_topic(TOPIC_ID, now_ms=NOW_MS)
    assert directory.logs() == []
    directory.close()


def test_a_batch_counts_though_its_caches_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk, StorageConfig(free_bytes_min=0, snapshot_interval_bytes=100))
    log = open_log(directory)

    def fail(path: str, *, create: bool = False) -> NoReturn:
        raise OSError(errno.EIO, f"{path} can't be opened ({create})")

    append(log, b"first")
    with monkeypatch.context() as broken:
        broken.setattr(disk, "open", fail)
        assert append(log, b"second" * 20) == 1
        assert append(log, b"third" * 20) == 2
    said = f"the caches of {log.body().folder} can't be written"
    assert caplog.text.count(said) == 1, "once while it lasts"
    append(log, b"fourth" * 20)
    with monkeypatch.context() as broken:
        broken.setattr(disk, "open", fail)
        append(log, b"fifth" * 20)
    assert caplog.text.count(said) == 2, "and when it comes again"
    assert (log.log_end, log.fault) == (5, None)
    directory.close()


def test_a_segment_that_cannot_be_retired_stays_one_of_its_log() -> None:
    disk = SimulatedDisk(Random(1))
    directory, logs = two_logs(disk)
    disk.fail("rename", errno.EIO, path_part="/0/")
    with pytest.raises(StorageError, match="Retention could not run everywhere"):
        directory.run_retention(NOW_MS)
    log = logs[0]
    assert [header.base_offset for header in read_all(log, max_bytes=100)] == list(
        range(log.log_start, log.log_end)
    )
    append(log, b"more" * 300)
    directory.run_retention(NOW_MS)
    assert log.log_start > 0
    assert log.size_bytes == log.body().size_bytes
    names = disk.list_directory(f"topics/{TOPIC_ID.hex()}/0")
    assert sum(name.endswith(".log") for name in names) == len(log.body().segments)
    directory.close()


def test_a_segment_that_somebody_removed_holds_up_no_retention() -> None:
    disk = SimulatedDisk(Random(1))
    directory, logs = two_logs(disk)
    disk.remove(f"topics/{TOPIC_ID.hex()}/0/00000000000000000000.log")
    assert directory.run_retention(NOW_MS) == 2
    assert logs[0].log_start == logs[1].log_start > 0


CUTS: Final[dict[str, Callable[[DataDirectory, Log], object]]] = {
    "retention": lambda directory, log: directory.run_retention(NOW_MS),
    "deleting a topic": lambda directory, log: directory.delete_topic(TOPIC_ID, now_ms=NOW_MS),
    "deleting records": lambda directory, log: log.advance_log_start(20, now_ms=NOW_MS),
    "truncating": lambda directory, log: log.truncate_to(20, now_ms=NOW_MS),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_sync_of_the_journal_that_failed_is_not_tried_again(
    cut: Callable[[DataDirectory, Log], object],
) -> None:
    disk = SimulatedDisk(Random(1))
    directory, (log, _) = two_logs(disk)
    disk.fail("sync", errno.EIO, path_part="journal")
    with pytest.raises(StorageError):
        cut(directory, log)
    with pytest.raises(StorageError, match="takes no more writes"):
        append(log, b"more")
    syncs = disk.operations["sync"]
    for again in CUTS.values():
        with pytest.raises(StorageError):
            again(directory, log)
    assert disk.operations["sync"] == syncs
    assert (log.log_start, log.log_end, len(read_all(log))) == (0, 60, 60)
