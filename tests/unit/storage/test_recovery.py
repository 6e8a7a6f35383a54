"""After an unclean stop: a torn tail is dropped, damage below the journalled end is kept apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from storage_kit.batches import headers
from storage_kit.directories import (
    NOW_MS,
    PARTITION,
    SMALL,
    STORAGE_UUID,
    append,
    commit,
    open_directory,
    open_log,
    read_all,
)

from tidelog.errors import LogCorrupt, StorageError, UnsupportedVersion
from tidelog_broker.storage import (
    DataDirectory,
    FlushPolicy,
    Log,
    LogConfig,
    RecoveryProgress,
    StorageConfig,
)
from tidelog_runtime.adapters.local_disk import LocalDisk

FOLDER = f"topics/{PARTITION.topic_id.hex()}/0"


def filled(root: Path, count: int = 30, config: LogConfig = SMALL) -> tuple[DataDirectory, Log]:
    """A directory with one log, committed and journalled."""
    directory = open_directory(LocalDisk(root))
    log = open_log(directory, config)
    for number in range(count):
        append(log, b"v%d" % number, producer=(7, 0, number))
    commit(directory, log)
    return directory, log


def segment_file(root: Path, base: int) -> Path:
    """The `.log` file of one segment."""
    return root / FOLDER / f"{base:020d}.log"


def test_a_torn_tail_is_dropped(tmp_path: Path) -> None:
    directory, log = filled(tmp_path)
    append(log, b"never acknowledged")
    last = log.body().active
    assert last is not None
    directory.abandon()
    path = segment_file(tmp_path, last.base_offset)
    os.truncate(path, path.stat().st_size - 3)

    directory = open_directory(LocalDisk(tmp_path))
    assert not directory.was_clean
    log = open_log(directory)
    assert (log.log_end, log.durable_end) == (30, 30)
    assert directory.durable_evidence_intact
    assert append(log, b"next", producer=(7, 0, 30)) == 30
    assert len(read_all(log)) == 31
    directory.close()


def test_what_follows_a_torn_batch_is_dropped_even_when_it_is_good(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 5, LogConfig())
    for number in range(5):
        append(log, b"unacknowledged %d" % number)
    position = log.body().segments[0].locate(6)
    assert position is not None
    directory.abandon()
    flip(segment_file(tmp_path, 0), position[0] + 40)

    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert log.log_end == 6
    assert directory.durable_evidence_intact
    directory.close()


@pytest.mark.parametrize("where", ["header", "base offset", "body"])
def test_damage_below_the_journalled_end_is_refused_and_the_rest_served(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory, log = filled(tmp_path, 10, LogConfig())
    found = log.body().segments[0].locate(4)
    assert found is not None
    directory.abandon()
    flip(segment_file(tmp_path, 0), found[0] + {"header": 8, "base offset": 7, "body": 65}[where])

    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    check_damaged(directory, log)
    assert "orders-0 is damaged on this disk: its offsets 4 to 4 can't be read" in caplog.text
    assert append(log, b"v10", producer=(7, 0, 10)) == 10
    directory.close()

    directory = open_directory(LocalDisk(tmp_path))
    assert directory.was_clean
    log = open_log(directory)
    assert headers(log.read(10, 1 << 20, end=11))[0].base_offset == 10
    check_damaged(directory, log, size=11)
    directory.close()


def check_damaged(directory: DataDirectory, log: Log, size: int = 10) -> None:
    """Offset 4 is refused, everything else is served."""
    assert [(bad.start_offset, bad.end_offset) for bad in log.damaged_ranges] == [(4, 5)]
    assert log.log_end == size
    assert [header.base_offset for header in headers(log.read(0, 1 << 20, end=size))] == [
        0,
        1,
        2,
        3,
    ]
    with pytest.raises(LogCorrupt, match="Offsets 4 to 4 of orders-0"):
        log.read(4, 1 << 20, end=size)
    assert headers(log.read(5, 1 << 20, end=size))[0].base_offset == 5
    if not directory.was_clean:
        assert not directory.durable_evidence_intact


def test_a_tail_that_was_durable_and_is_gone_leaves_a_hole(tmp_path: Path) -> None:
    directory, log = filled(tmp_path, 10, LogConfig())
    found = log.body().segments[0].locate(7)
    assert found is not None
    directory.abandon()
    os.truncate(segment_file(tmp_path, 0), found[0] + 10)

    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert [(bad.start_offset, bad.end_offset) for bad in log.damaged_ranges] == [(7, 10)]
    # Offsets are never handed out twice.
    assert append(log, b"after") == 10
    assert headers(log.read(10, 100, end=11))[0].base_offset == 10
    with pytest.raises(LogCorrupt):
        log.read(8, 100, end=11)
    directory.abandon()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert log.log_end == 11
    assert [(bad.start_offset, bad.end_offset) for bad in log.damaged_ranges] == [(7, 10)]
    directory.close()


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_segment_is_a_hole_of_its_size(tmp_path: Path, which: int) -> None:
    directory, log = filled(tmp_path, 40)
    bases = [segment.base_offset for segment in log.body().segments]
    assert len(bases) > 2
    directory.abandon()
    segment_file(tmp_path, bases[which]).unlink()

    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    end = ([*bases, 40])[which + 1] if which >= 0 else 40
    assert [bad[:2] for bad in log.damaged_ranges] == [(bases[which], end)]
    assert (log.log_start, log.log_end) == (0, 40)
    for offset in range(40):
        if bases[which] <= offset < end:
            with pytest.raises(LogCorrupt):
                log.read(offset, 100, end=40)
        else:
            assert headers(log.read(offset, 100, end=40))[0].base_offset == offset
    directory.close()


def test_a_missing_folder_is_damage_not_an_empty_log(tmp_path: Path) -> None:
    directory, _ = filled(tmp_path, 5)
    directory.abandon()
    LocalDisk(tmp_path).remove_tree(FOLDER)
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert (log.log_end, log.evidence_intact) == (5, False)
    directory.close()


def test_progress_is_reported(tmp_path: Path) -> None:
    directory, _ = filled(tmp_path)
    directory.abandon()
    heard: list[RecoveryProgress] = []
    directory = DataDirectory.open(
        LocalDisk(tmp_path),
        StorageConfig(free_bytes_min=0),
        new_storage_uuid=STORAGE_UUID,
        now_ms=NOW_MS,
        progress=heard.append,
    )
    open_log(directory)
    assert [(one.partition_id, one.logs_recovered, one.logs_found) for one in heard] == [
        (PARTITION, 1, 1)
    ]
    directory.close()


def test_the_scan_is_bounded_by_the_recovery_point(tmp_path: Path) -> None:
    config = StorageConfig(free_bytes_min=0, snapshot_interval_bytes=2000)
    directory = open_directory(LocalDisk(tmp_path), config)
    log = open_log(directory, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for number in range(1000):
        append(log, b"v%d" % number, producer=(7, 0, number))
    commit(directory, log)
    directory.abandon()
    heard: list[RecoveryProgress] = []
    directory = DataDirectory.open(
        LocalDisk(tmp_path), config, new_storage_uuid=b"", now_ms=0, progress=heard.append
    )
    log = open_log(directory, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    assert log.log_end == 1000
    assert 0 < heard[0].bytes_scanned < 5000 < log.size_bytes
    directory.close()


def test_only_commit_leaves_evidence(tmp_path: Path) -> None:
    config = StorageConfig(flush_policy=FlushPolicy.OS, free_bytes_min=0)
    directory = open_directory(LocalDisk(tmp_path), config)
    append(open_log(directory))
    directory.abandon()
    directory = open_directory(LocalDisk(tmp_path), config)
    open_log(directory)
    assert not directory.durable_evidence_intact
    directory.close()
    directory = open_directory(LocalDisk(tmp_path), config)
    assert directory.durable_evidence_intact
    directory.abandon()


def test_a_lost_journal_loses_the_evidence_and_nothing_else(tmp_path: Path) -> None:
    directory, _ = filled(tmp_path)
    directory.abandon()
    for path in tmp_path.glob("journal-*"):
        path.unlink()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert log.log_end == 30
    assert not directory.durable_evidence_intact
    directory.close()


def test_identity_is_written_once(tmp_path: Path) -> None:
    directory, _ = filled(tmp_path)
    directory.close()
    again = DataDirectory.open(
        LocalDisk(tmp_path), StorageConfig(), new_storage_uuid=b"another uuid 16b", now_ms=0
    )
    assert again.storage_uuid == STORAGE_UUID
    again.close()
    (tmp_path / "identity").unlink()
    with pytest.raises(StorageError, match="lost its file 'identity'"):
        open_directory(LocalDisk(tmp_path))


def test_a_newer_format_is_refused_in_words(tmp_path: Path) -> None:
    directory, _ = filled(tmp_path)
    directory.close()
    content = bytearray((tmp_path / "identity").read_bytes())
    content[5] = 9
    (tmp_path / "identity").write_bytes(content)
    with pytest.raises(UnsupportedVersion, match="format version 9"):
        open_directory(LocalDisk(tmp_path))


def flip(path: Path, position: int) -> None:
    """One bit turns on the disk."""
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)
