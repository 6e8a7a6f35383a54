"""Power cuts that tear what lies below the start of a log: all above it is as if it were whole."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from storage_kit.directories import SMALL, append, commit, open_directory, open_log, read_all

from simulation.disk import SimulatedDisk
from tidelog_broker.storage import FlushPolicy, StorageConfig

LONG = replace(SMALL, segment_bytes=1 << 20)


@pytest.mark.parametrize("policy", [FlushPolicy.INTERVAL, FlushPolicy.OS])
@pytest.mark.parametrize("lags", [False, True])
def test_what_is_written_behind_it_outlasts_the_next_cut(policy: FlushPolicy, lags: bool) -> None:
    config = StorageConfig(flush_policy=policy, free_bytes_min=0)
    tried = 0
    for seed in range(120):
        disk = SimulatedDisk(Random(seed))
        directory = open_directory(disk, config)
        log = open_log(directory, LONG)
        append(log, b"zero")
        log.sync()
        directory.volume.journal.sync()
        for _ in range(6):
            append(log, b"old" * 150)
        log.high_watermark = log.log_end
        log.advance_log_start(3, now_ms=1)
        disk = disk.crash()
        directory = open_directory(disk, config)
        log = open_log(directory, LONG)
        if log.log_end != 3:
            continue
        tried += 1
        directory.volume.journal.sync()
        for number in range(3):
            append(log, b"new")
            log.sync()
            if not (lags and number):
                directory.journal_ends()
            directory.volume.journal.sync()
        again = open_log(open_directory(disk.crash(), config), LONG)
        assert (again.log_start, again.log_end, again.damaged_ranges) == (3, 6, []), seed
        for offset in range(3, 6):
            assert b"new" in again.read(offset, 1, end=6), seed
    assert tried > 10


def test_lookups_by_time_go_on_after_a_clean_stop() -> None:
    config = StorageConfig(flush_policy=FlushPolicy.INTERVAL, free_bytes_min=0)
    for seed in range(60):
        disk = SimulatedDisk(Random(seed))
        directory = open_directory(disk, config)
        log = open_log(directory, LONG)
        append(log, b"zero")
        commit(directory, log)
        for number in range(12):
            append(log, b"%d" % number * 300)
        log.high_watermark = log.log_end
        log.advance_log_start(8, now_ms=1)
        disk = disk.crash()
        directory = open_directory(disk, config)
        log = open_log(directory, LONG)
        append(log, b"new", timestamp=5000)
        commit(directory, log)
        directory.close()
        log = open_log(open_directory(disk, config), LONG)
        log.high_watermark = log.log_end
        found = log.offset_for_timestamp(2000)
        assert found is not None
        assert found.offset == log.log_end - 1
        assert log.max_timestamp(log.log_end) is not None
        read_all(log)
