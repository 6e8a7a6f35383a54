"""Batches that are spoilt while nobody looks, between a clean stop and the next start.

Nobody was told of the damage, and small logs have no index files that would know better: the first
who needs the log finds out. What can be kept is kept, and nothing good is lost to what is bad.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Final

import pytest
from storage_kit.batches import headers
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
from tidelog.errors import LogCorrupt, StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, Log, LogConfig, names
from tidelog_runtime.adapters.local_disk import LocalDisk

ROOMY: Final = LogConfig(index_interval_bytes=4096)
AGED: Final = LogConfig(index_interval_bytes=4096, retention_ms=5_000)
SPOILT: Final = 150
COUNT: Final = 200


def spoilt_log(path: Path, config: LogConfig = ROOMY) -> tuple[DataDirectory, Log]:
    """A log of many batches, stopped cleanly and opened again, one of them spoilt meanwhile."""
    directory = open_directory(LocalDisk(path))
    log = open_log(directory, config)
    for _ in range(COUNT):
        append(log, b"v" * 1000, timestamp=NOW_MS - 20_000)
    commit(directory, log)
    segment = log.body().segments[0]
    place = segment.locate(SPOILT)
    assert place is not None
    directory.close()
    stem = (path / segment.path).with_suffix("")
    for ending in (".index", ".timeindex"):
        stem.with_suffix(ending).unlink(missing_ok=True)
    with stem.with_suffix(".log").open("r+b") as file:
        file.seek(place[0])
        file.write(b"\xff" * 40)
    directory = open_directory(LocalDisk(path))
    assert directory.was_clean
    return directory, open_log(directory, config)


def test_good_batches_before_the_damage_are_served(tmp_path: Path) -> None:
    directory, log = spoilt_log(tmp_path)
    offset = 0
    while offset < SPOILT:
        found = headers(log.read(offset, 64 << 10, end=COUNT))
        assert found[0].base_offset == offset
        offset = found[-1].next_offset
    for _ in range(2):
        with pytest.raises(LogCorrupt) as damage:
            log.read(SPOILT, 64 << 10, end=COUNT)
        assert damage.value.next_offset == COUNT
    directory.close()


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_writes_go_on_and_what_lies_behind_the_damage_is_read(
    tmp_path: Path, is_idempotent: bool
) -> None:
    directory, log = spoilt_log(tmp_path)
    with pytest.raises(LogCorrupt):
        log.read(SPOILT, 64 << 10, end=COUNT)
    producer = (5, 0, 0) if is_idempotent else (-1, -1, -1)
    assert append(log, b"new", producer=producer) == COUNT
    commit(directory, log)
    with pytest.raises(LogCorrupt) as damage:
        log.read(SPOILT, 64 << 10, end=log.log_end)
    assert damage.value.next_offset == SPOILT + 1
    behind = headers(log.read(SPOILT + 1, 1 << 20, end=log.log_end))
    assert (behind[0].base_offset, behind[-1].next_offset) == (SPOILT + 1, COUNT + 1)
    directory.close()

    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, ROOMY)
    assert append(log, b"newer") == COUNT + 1
    directory.close()


def test_all_of_it_can_be_deleted(tmp_path: Path) -> None:
    """The log is recovered midway: what is dropped are the files that it knows from then on."""
    directory, log = spoilt_log(tmp_path)
    log.high_watermark = COUNT
    log.advance_log_start(COUNT, now_ms=NOW_MS)
    assert (log.log_start, log.size_bytes, log.body().size_bytes) == (COUNT, 0, 0)
    assert [segment.base_offset for segment in log.body().segments] == [COUNT]
    assert append(log, b"new") == COUNT
    commit(directory, log)
    directory.close()

    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, ROOMY)
    assert [header.base_offset for header in read_all(log)] == [COUNT]
    directory.close()


def test_retention_takes_nothing_whose_age_is_not_known_and_goes_on_elsewhere(
    tmp_path: Path,
) -> None:
    directory, log = spoilt_log(tmp_path, AGED)
    other = open_log(directory, ROOMY, partition_id=PartitionId(TOPIC_ID, 1))
    append(other, b"old", timestamp=NOW_MS - 20_000)
    commit(directory, other)
    log.high_watermark = COUNT
    other.config = AGED
    with pytest.raises(LogCorrupt):
        log.read(SPOILT, 64 << 10, end=COUNT)
    for _ in range(2):
        with pytest.raises(StorageError, match="Retention could not run everywhere"):
            directory.run_retention(NOW_MS + 12_000)
    assert (log.log_start, other.log_start) == (0, 1)
    directory.close()


def test_files_that_cannot_be_opened_for_a_moment_leave_a_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor is left, say: nothing was written, so nothing is in doubt."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(segment_bytes=100))
    append(log, b"first")

    def fail(_path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, f"Too many open files ({create})")

    with monkeypatch.context() as short:
        short.setattr(directory.volume.disk, "open", fail)
        with pytest.raises(StorageError, match="nothing was written") as refusal:
            append(log, b"second" * 20)
    assert refusal.value.retriable
    assert log.fault is None
    assert append(log, b"second" * 20) == 1
    assert len(read_all(log)) == 2
    directory.close()


def test_a_log_whose_caches_cannot_be_written_keeps_no_other_from_a_clean_stop() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    logs = [open_log(directory, ROOMY, partition_id=PartitionId(TOPIC_ID, at)) for at in range(2)]
    for log in logs:
        for _ in range(300):
            append(log, b"v" * 1000)
    commit(directory, *logs)
    disk.fail("rename", errno.EIO, path_part="/0/")
    directory.close()
    assert disk.exists(names.CLEAN_MARKER), "the other log is trusted at the next start"
    directory = open_directory(disk)
    for at in range(2):
        assert open_log(directory, ROOMY, partition_id=PartitionId(TOPIC_ID, at)).log_end == 300
    directory.close()
