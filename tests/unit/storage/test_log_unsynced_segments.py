"""Segments that go before they were synced: the next sync has nothing to do with them."""

from __future__ import annotations

from random import Random

from storage_kit.directories import append, commit, open_directory, open_log, purge, read_all

from simulation.disk import SimulatedDisk
from tidelog_broker.storage import LogConfig

#: Every batch gets a segment of its own.
ONE_A_SEGMENT = LogConfig(segment_bytes=1, file_delete_delay_ms=0)


def test_a_log_can_be_synced_after_its_unsynced_beginning_was_dropped() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, ONE_A_SEGMENT)
    for _ in range(4):
        append(log)
    log.high_watermark = log.log_end
    directory.volume.files.close_all()
    log.advance_log_start(2, now_ms=0)
    purge(directory, 1)
    commit(directory, log)
    assert log.fault is None
    assert log.durable_end == 4
    again = open_log(open_directory(disk.crash()), ONE_A_SEGMENT)
    assert (again.log_start, again.log_end) == (2, 4)
    assert [header.base_offset for header in read_all(again)] == [2, 3]
