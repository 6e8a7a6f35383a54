"""Where a log starts moves past damage: neither the place nor what is known of it is lost."""

from __future__ import annotations

from random import Random

import pytest
from storage_kit.batches import headers
from storage_kit.directories import (
    NOW_MS,
    PARTITION,
    append,
    commit,
    open_directory,
    open_log,
)

from simulation.disk import SimulatedDisk
from tidelog_broker.storage import DataDirectory, Log, names

FOLDER = names.partition_folder(PARTITION)


def filled(disk: SimulatedDisk, count: int) -> tuple[DataDirectory, Log]:
    """A log of so many batches, all of them durable and committed."""
    directory = open_directory(disk)
    log = open_log(directory)
    for number in range(count):
        append(log, b"v%d" % number)
    commit(directory, log)
    return directory, log


def spoil(disk: SimulatedDisk, log: Log, offset: int) -> None:
    """Turn a bit of the batch at this offset."""
    body = log.body()
    segment = body.segments[body.find(offset)]
    place = segment.locate(offset)
    assert place is not None
    disk.flip_bit(segment.path, bit=(place[0] + 16) * 8)


def remove_caches(disk: SimulatedDisk) -> None:
    """As a power cut may."""
    for name in disk.list_directory(FOLDER):
        if name.endswith((".index", ".timeindex", ".snapshot")) or name == names.LEADER_EPOCHS:
            disk.remove(f"{FOLDER}/{name}")


@pytest.mark.parametrize("how", ["clean stop", "kill"])
def test_an_announced_start_outlasts_the_recovery_it_leads_to(how: str) -> None:
    disk = SimulatedDisk(Random(1))
    directory, log = filled(disk, 4)
    spoil(disk, log, 2)
    directory.close()
    directory = open_directory(disk)
    log = open_log(directory)
    log.high_watermark = log.durable_end
    log.advance_log_start(4, now_ms=NOW_MS)
    commit(directory, log)
    if how == "kill":
        disk = disk.kill()
    else:
        directory.close()
    log = open_log(open_directory(disk))
    assert (log.log_start, log.log_end) == (4, 4)


def damaged_below_its_start(disk: SimulatedDisk) -> tuple[DataDirectory, Log, int]:
    """A log whose second segment holds damage right below the start; where it starts."""
    directory, log = filled(disk, 60)
    commit(directory, log)
    bad = log.body().segments[1].base_offset + 2
    spoil(disk, log, bad)
    directory.abandon()
    remove_caches(disk)
    directory = open_directory(disk)
    log = open_log(directory)
    assert [found.start_offset for found in log.damaged_ranges] == [bad]
    log.high_watermark = log.durable_end
    log.advance_log_start(bad + 2, now_ms=NOW_MS)
    return directory, log, bad + 2


def first_offset(log: Log) -> int:
    """The first that is served."""
    return headers(log.read(log.log_start, 1 << 20, end=log.log_end))[0].base_offset


def test_what_lies_behind_it_is_served_without_an_index() -> None:
    disk = SimulatedDisk(Random(1))
    directory, log, start = damaged_below_its_start(disk)
    assert first_offset(log) == start
    base = log.body().segments[0].base_offset
    directory.close()
    disk.remove(f"{names.stem(FOLDER, base)}.index")
    assert first_offset(open_log(open_directory(disk))) == start


def test_it_is_found_again_without_its_note() -> None:
    disk = SimulatedDisk(Random(1))
    directory, _, start = damaged_below_its_start(disk)
    directory.abandon()
    disk.remove(f"{FOLDER}/{names.DAMAGED}")
    remove_caches(disk)
    directory = open_directory(disk)
    log = open_log(directory)
    assert first_offset(log) == start
    base = log.body().segments[0].base_offset
    directory.close()
    disk.remove(f"{names.stem(FOLDER, base)}.index")
    assert first_offset(open_log(open_directory(disk))) == start


def test_the_note_goes_with_the_segment() -> None:
    disk = SimulatedDisk(Random(1))
    _, log, _ = damaged_below_its_start(disk)
    log.advance_log_start(log.body().segments[1].base_offset, now_ms=NOW_MS)
    assert log.damaged_ranges == []
