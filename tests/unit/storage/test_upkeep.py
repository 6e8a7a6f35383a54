"""Retention, deletion, cutting, a full disk, a failing one."""

from __future__ import annotations

import errno
from pathlib import Path
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
    with_config,
)

from simulation.disk import SimulatedDisk
from tidelog.errors import (
    DiskFull,
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageError,
    UnknownProducerId,
)
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, Duplicate, Log, LogConfig, StorageConfig
from tidelog_runtime.adapters.local_disk import LocalDisk


def filled(disk: SimulatedDisk | LocalDisk, count: int = 60) -> tuple[DataDirectory, Log]:
    """A directory with one committed log of several segments."""
    directory = open_directory(disk)
    log = open_log(directory)
    for number in range(count):
        append(log, b"v%d" % number, now_ms=NOW_MS + number, timestamp=NOW_MS + number)
    commit(directory, log)
    return directory, log


def test_retention_by_size_drops_whole_old_segments(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path))
    before = log.size_bytes
    with_config(log, retention_bytes=2000)
    assert directory.run_retention(NOW_MS) == 1
    assert 2000 <= log.size_bytes < before
    assert log.log_start == log.body().segments[0].base_offset > 0
    assert [header.base_offset for header in read_all(log)] == list(range(log.log_start, 60))
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100, end=60)
    assert directory.run_retention(NOW_MS) == 0
    assert purge(directory) > 0
    files = {path.name for path in (tmp_path / f"topics/{TOPIC_ID.hex()}/0").iterdir()}
    assert f"{0:020d}.log" not in files
    assert not any(name.endswith(".deleted") for name in files)
    directory.close()


def test_retention_by_time_also_empties_a_log(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path))
    with_config(log, retention_ms=1000)
    directory.run_retention(NOW_MS + 1030)
    assert 0 < log.log_start < 60
    directory.run_retention(NOW_MS + 2000)
    assert (log.log_start, log.log_end, log.size_bytes) == (60, 60, 0)
    assert append(log, now_ms=NOW_MS + 2000) == 60
    directory.close()
    directory = open_directory(LocalDisk(tmp_path))
    assert (open_log(directory).log_start, open_log(directory).log_end) == (60, 61)
    directory.close()


def test_a_timestamp_from_the_future_does_not_keep_a_segment(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(retention_ms=1000, file_delete_delay_ms=0))
    append(log, timestamp=1 << 50)
    commit(directory, log)
    directory.run_retention(NOW_MS + 1000)
    assert log.log_start == 0
    directory.run_retention(NOW_MS + 1001)
    assert log.log_start == 1
    directory.close()


def test_uncommitted_records_are_never_retired(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path))
    log.high_watermark = 20
    with_config(log, retention_bytes=0, retention_ms=0)
    directory.run_retention(NOW_MS + 10_000)
    assert 0 < log.log_start <= 20
    directory.close()


def test_files_are_removed_after_the_delay(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path))
    with_config(log, retention_bytes=2000, file_delete_delay_ms=5000)
    directory.run_retention(NOW_MS)
    folder = tmp_path / f"topics/{TOPIC_ID.hex()}/0"
    assert list(folder.glob("*.deleted"))
    assert purge(directory, NOW_MS + 4999) == 0
    assert purge(directory, NOW_MS + 5000) > 0
    assert not list(folder.glob("*.deleted"))
    directory.close()


def test_deleting_a_topic_frees_the_disk(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path))
    other = open_log(directory, partition_id=PartitionId(TOPIC_ID, 1))
    append(other)
    assert directory.topic_name(TOPIC_ID) == "orders"
    directory.delete_topic(TOPIC_ID, now_ms=NOW_MS)
    assert directory.stored_partitions() == []
    assert purge(directory) == 3, "one step a partition, and one for the rest"
    assert list((tmp_path / "topics").iterdir()) == []
    assert directory.topic_name(TOPIC_ID) is None
    with pytest.raises(StorageError, match="deleted"):
        append(log)
    again = open_log(directory)
    assert again.log_end == 0
    directory.close()


def test_deleting_a_partition_leaves_its_siblings(tmp_path: Path) -> None:
    directory, _ = filled(LocalDisk(tmp_path))
    other = open_log(directory, partition_id=PartitionId(TOPIC_ID, 1))
    append(other)
    directory.delete_partition(PARTITION, now_ms=NOW_MS)
    assert directory.stored_partitions() == [PartitionId(TOPIC_ID, 1)]
    assert append(other) == 1
    directory.close()


def test_records_are_deleted_up_to_an_offset(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path))
    log.high_watermark = 50
    with pytest.raises(OffsetOutOfRange, match="committed"):
        log.advance_log_start(51, now_ms=NOW_MS)
    log.advance_log_start(33, now_ms=NOW_MS)
    assert log.log_start == 33
    with pytest.raises(OffsetOutOfRange):
        log.read(32, 100, end=60)
    directory.abandon()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert (log.log_start, log.log_end) == (33, 60)
    directory.close()


def test_truncation_forgets_producers_and_epochs(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for number in range(40):
        append(log, b"v", epoch=number // 10, producer=(7, 0, number))
    log.truncate_to(15, now_ms=NOW_MS)
    assert (log.log_end, log.durable_end, log.latest_epoch) == (15, 15, 1)
    assert log.end_offset_for_epoch(1) == (1, 15)
    assert log.end_offset_for_epoch(3) == (1, 15)
    assert log.check_producer(header_of(batch(producer=(7, 0, 15)))) == ()
    assert log.check_producer(header_of(batch(producer=(7, 0, 14)))) == Duplicate(14, 14, NOW_MS)
    assert append(log, epoch=9, producer=(7, 0, 15)) == 15
    assert [header.base_offset for header in read_all(log)] == list(range(16))
    log.truncate_to(500, now_ms=NOW_MS)
    assert log.log_end == 16
    directory.close()


def test_truncation_takes_a_batch_as_a_whole(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    log.truncate_to(2, now_ms=NOW_MS)
    assert log.log_end == 1
    directory.close()


def test_a_sync_begun_before_a_cut_says_nothing_after_it(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path), 10)
    append(log)
    ticket = log.begin_sync()
    log.truncate_to(5, now_ms=NOW_MS)
    append(log)
    assert not log.finish_sync(ticket)
    assert log.durable_end == 5
    directory.close()


def test_a_follower_begins_anew_where_its_leader_starts(tmp_path: Path) -> None:
    directory, log = filled(LocalDisk(tmp_path), 10)
    log.reset_to(1000, now_ms=NOW_MS)
    assert (log.log_start, log.high_watermark, log.log_end, log.size_bytes) == (1000,) * 3 + (0,)
    append(log)
    directory.abandon()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert (log.log_start, log.log_end) == (1000, 1001)
    directory.close()


def test_the_rules_for_producers(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)

    def check(epoch: int, sequence: int, count: int = 1) -> object:
        return log.check_producer(header_of(batch(*[b"x"] * count, producer=(7, epoch, sequence))))

    with pytest.raises(UnknownProducerId, match="began with sequence 500"):
        check(3, 500)
    assert check(3, 0) == ()
    for sequence in range(0, 14, 2):
        append(log, b"a", b"b", producer=(7, 3, sequence))
    assert check(3, 14) == ()
    for sequence in range(4, 14, 2):
        assert check(3, sequence, 2) == Duplicate(sequence, sequence + 1, NOW_MS)
    for sequence, count in ((2, 2), (12, 1), (15, 1), (13, 2)):
        with pytest.raises(OutOfOrderSequence):
            check(3, sequence, count)
    with pytest.raises(InvalidProducerEpoch):
        check(2, 14)
    with pytest.raises(OutOfOrderSequence, match="instead of 0"):
        check(4, 14)
    assert check(4, 0) == ()
    append(log, b"x", producer=(8, 0, 2**31 - 1))
    header = header_of(batch(producer=(8, 0, 0)))
    assert log.check_producer(header) == ()
    directory.close()


def test_a_producer_is_forgotten_when_it_was_silent_for_long(tmp_path: Path) -> None:
    limit_ms = StorageConfig().producer_id_expiration_ms
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    append(log, producer=(7, 3, 0))
    append(log, producer=(8, 0, 0))
    assert log.expire_producers(limit_ms * 2) == 0, "both have appended since the last look"
    assert log.expire_producers(limit_ms) == 0
    append(log, producer=(8, 0, 1))
    assert log.expire_producers(1) == 1
    with pytest.raises(UnknownProducerId):
        log.check_producer(header_of(batch(producer=(7, 3, 1))))
    assert log.check_producer(header_of(batch(producer=(8, 0, 2)))) == ()
    directory.close()


def test_silence_goes_on_over_a_restart(tmp_path: Path) -> None:
    limit_ms = StorageConfig().producer_id_expiration_ms
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    append(log, producer=(7, 3, 0))
    assert log.expire_producers(0) == 0
    assert log.expire_producers(limit_ms) == 0
    append(log, b"of nobody")
    commit(directory, log)
    log.write_caches()
    directory.close()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    log.check_producer(header_of(batch(producer=(7, 3, 1))))
    assert log.expire_producers(1) == 1
    directory.close()


def test_a_jump_of_the_clock_forgets_no_producer(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    append(log, producer=(7, 3, 0))
    commit(directory, log)
    for days in (3, -3):
        directory.run_retention(NOW_MS + days * 24 * 3600 * 1000)
        log.expire_producers(300_000)
        repeated = log.check_producer(header_of(batch(producer=(7, 3, 0))))
        assert repeated == Duplicate(0, 0, NOW_MS)
    directory.close()


def test_a_journal_with_no_room_for_the_next_file_goes_on_in_the_old_one() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk, StorageConfig(journal_bytes=200))
    log = open_log(directory)
    for _ in range(6):
        append(log, b"x")
        commit(directory, log)
    used = disk.total_bytes() - disk.free_bytes()
    disk.set_capacity(used)
    directory.volume.journal.begin_anew_if_due()
    disk.set_capacity(used + 1_000_000)
    append(log, b"y")
    commit(directory, log)
    directory.volume.journal.begin_anew_if_due()
    end = log.log_end
    directory.abandon()
    again = open_log(open_directory(disk, StorageConfig(journal_bytes=200)))
    assert again.log_end == end


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(Random(1), capacity_bytes=20_000)
    directory = open_directory(disk, StorageConfig())
    log = open_log(directory)
    now_ms = NOW_MS
    count = 0
    while directory.can_append(now_ms):
        append(log, b"x" * 300)
        commit(directory, log)
        count += 1
    with pytest.raises(DiskFull, match="serves reads"):
        append(log)
    assert len(read_all(log)) == count > 10
    # What is kept free is what retention, deletion and the journal live on.
    assert disk.free_bytes() > 500
    disk.set_capacity(200_000)
    with pytest.raises(DiskFull):
        append(log, now_ms=now_ms)
    append(log, now_ms=now_ms + 1000)
    assert log.fault is None
    full, again = caplog.records
    assert (full.levelname, again.levelname) == ("ERROR", "WARNING")
    assert full.getMessage().startswith("the disk is full (810 bytes are free, 1000 are kept")
    assert again.getMessage().startswith("the disk has space again (180810 bytes)")
    directory.close()


def test_no_space_in_the_middle_of_an_append_writes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    append(log)
    disk.fail("append", errno.ENOSPC, path_part=".log")
    with pytest.raises(DiskFull, match="nothing was written"):
        append(log)
    with pytest.raises(DiskFull, match="serves reads"):
        append(log)
    assert [line.levelname for line in caplog.records] == ["ERROR"]
    assert "No space left on device" in caplog.text
    assert (log.log_end, log.fault) == (1, None)
    assert append(log, now_ms=NOW_MS + 1000) == 1
    assert len(read_all(log)) == 2
    directory.close()


def test_a_failed_append_makes_the_log_faulty() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log, other = open_log(directory), open_log(directory, partition_id=PartitionId(TOPIC_ID, 1))
    append(log)
    disk.fail("append", errno.EIO, path_part=".log")
    with pytest.raises(StorageError, match="could not be written"):
        append(log)
    with pytest.raises(StorageError, match="faulty"):
        append(log)
    assert len(read_all(log)) == 1
    append(other)
    directory.close()


def test_a_failed_sync_is_not_tried_again() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    append(log)
    disk.fail("sync", errno.EIO, path_part=".log")
    with pytest.raises(StorageError, match="could not be synced"):
        log.sync()
    assert log.fault is not None
    syncs = disk.operations["sync"]
    assert log.durable_end == 0
    with pytest.raises(StorageError, match="faulty"):
        append(log)
    directory.close()
    assert disk.operations["sync"] >= syncs
    directory = open_directory(disk)
    assert open_log(directory).fault is None
    directory.close()
