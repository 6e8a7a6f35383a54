"""Damage counts from the first look at a broker on, and is said once, whenever it is found."""

from __future__ import annotations

import errno
import logging
from random import Random
from typing import Final

import pytest
from storage_kit.directories import PARTITION, append, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import LogCorrupt, StorageError
from tidelog_broker.storage import DataDirectory, Log, names

FOLDER: Final = names.partition_folder(PARTITION)
COUNT: Final = 60


def filled(disk: SimulatedDisk) -> tuple[DataDirectory, Log]:
    """An open directory with a committed log of several segments."""
    directory = open_directory(disk)
    log = open_log(directory)
    for number in range(COUNT):
        append(log, b"v%d" % number)
    commit(directory, log)
    return directory, log


def without_a_segment(disk: SimulatedDisk) -> tuple[int, int]:
    """A log that loses a segment while its broker is stopped, cleanly; the offsets it lacks."""
    directory, log = filled(disk)
    missing, behind = (segment.base_offset for segment in log.body().segments[1:3])
    directory.close()
    disk.remove(f"{FOLDER}/{missing:020d}.log")
    return missing, behind


def with_unreadable_header(disk: SimulatedDisk, offset: int) -> int:
    """A stopped log with a spoilt batch that no index passes over; where its segment ends."""
    directory, log = filled(disk)
    segment, following = log.body().segments[1:3]
    found = segment.locate(offset)
    assert found is not None
    path, magic = segment.path, found[0] + 16
    end = following.base_offset
    directory.close()
    disk.flip_bit(path, bit=8 * magic)
    for name in disk.list_directory(FOLDER):
        if name.endswith("index"):
            disk.remove(f"{FOLDER}/{name}")
    return end


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The errors that were logged since the last look."""
    records = [record for record in caplog.records if record.levelno >= logging.ERROR]
    caplog.clear()
    return records


def test_damage_found_by_the_first_reader_is_said_once_and_counts_from_the_next_start_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(Random(1))
    missing, behind = without_a_segment(disk)
    directory = open_directory(disk)
    log = open_log(directory)
    assert log.evidence_intact
    assert not said(caplog), "nobody has looked"
    for _ in range(2):
        with pytest.raises(LogCorrupt):
            log.read(missing, 1000, end=COUNT)
    assert not log.evidence_intact
    (line,) = said(caplog)
    message = line.getMessage()
    assert f"orders-0 is damaged on this disk: its offsets {missing} to {behind - 1}" in message
    assert f"nothing is left of them in {FOLDER}" in message
    assert "Look after the disk" in message
    assert vars(line)["fields"] == {
        "topic": "orders",
        "partition": 0,
        "first_offset": missing,
        "last_offset": behind - 1,
    }
    directory.close()

    for stop_cleanly in (True, False, True):
        directory = open_directory(disk)
        assert not open_log(directory).evidence_intact
        assert not directory.durable_evidence_intact
        assert not said(caplog)
        if stop_cleanly:
            directory.close()
        else:
            disk = disk.kill()


def test_damage_is_said_once_though_recovery_has_to_be_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(Random(1))
    without_a_segment(disk)
    disk.remove(names.CLEAN_MARKER)
    directory = open_directory(disk)
    disk.fail("append", errno.ENOSPC, path_part=names.DAMAGED)
    with pytest.raises(StorageError, match="could not be opened"):
        open_log(directory)
    assert not said(caplog)
    assert not open_log(directory).evidence_intact
    assert len(said(caplog)) == 1
    directory.close()


def test_the_bytes_that_are_spoilt_are_named(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk(Random(1))
    with_unreadable_header(disk, 20)
    disk.remove(names.CLEAN_MARKER)
    directory = open_directory(disk)
    (damaged,) = open_log(directory).damaged_ranges
    (line,) = said(caplog)
    path = f"{FOLDER}/{damaged.segment_base:020d}.log"
    where = f"bytes {damaged.position} to {damaged.end_position - 1} of {path}"
    assert where in line.getMessage()
    directory.close()


def test_damage_that_a_reader_meets_counts_at_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk(Random(1))
    end = with_unreadable_header(disk, 20)
    directory = open_directory(disk)
    log = open_log(directory)
    for _ in range(2):
        with pytest.raises(LogCorrupt) as refusal:
            log.read(20, 1000, end=COUNT)
        assert refusal.value.next_offset == end
    assert not log.evidence_intact
    (line,) = said(caplog)
    assert "a read of orders-0 at offset 20 found damage" in line.getMessage()
    assert f"Readers are told to go on at offset {end}" in line.getMessage()
    directory.abandon()


def test_damage_that_a_lookup_by_time_meets_counts_too(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk(Random(1))
    with_unreadable_header(disk, 20)
    directory = open_directory(disk)
    log = open_log(directory)
    for _ in range(2):
        with pytest.raises(LogCorrupt):
            log.max_timestamp(COUNT)
    assert not log.evidence_intact
    (line,) = said(caplog)
    assert "damage was found in orders-0" in line.getMessage()
    directory.abandon()


def test_a_log_that_cannot_be_recovered_when_it_is_needed_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk(Random(1))
    directory, log = filled(disk)
    segments = log.body().segments
    paths, bases = zip(*((one.path, one.base_offset) for one in segments), strict=True)
    directory.close()
    disk.rename(paths[1], f"{FOLDER}/{bases[1] - 1:020d}.log")
    disk.open(paths[-1]).append([b"more"])  # so that the clean stop is not believed
    directory = open_directory(disk)
    log = open_log(directory)
    for _ in range(2):
        with pytest.raises(LogCorrupt, match="inside the segment before it"):
            log.read(bases[2], 1000, end=COUNT)
    assert not log.evidence_intact
    (line,) = said(caplog)
    assert "damage was found in orders-0" in line.getMessage()
    assert "Move the partition's folder away" in line.getMessage()
    directory.abandon()
