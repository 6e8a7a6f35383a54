"""The note of what is damaged in a log, spoilt itself: all of it is read, and damage found anew."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Final

import pytest
from storage_kit.batches import headers
from storage_kit.directories import PARTITION, append, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import LogCorrupt
from tidelog_broker.storage import Log, damage, names

FOLDER: Final = names.partition_folder(PARTITION)
NOTE: Final = f"{FOLDER}/{names.DAMAGED}"
COUNT: Final = 60
SAID: Final = "the note of what is damaged in orders-0 can't be read"


def with_hole(*, is_clean: bool) -> tuple[SimulatedDisk, int, int]:
    """A stopped log that has lost a segment and noted that; the offsets it lacks."""
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    for number in range(COUNT):
        append(log, b"v%d" % number)
    commit(directory, log)
    missing, behind = (segment.base_offset for segment in log.body().segments[1:3])
    directory.close()
    disk.remove(f"{FOLDER}/{missing:020d}.log")
    directory = open_directory(disk)
    log = open_log(directory)
    check_hole(log, missing, behind)
    assert disk.exists(NOTE)
    if is_clean:
        directory.close()
    else:
        disk = disk.kill()
    return disk, missing, behind


def check_hole(log: Log, missing: int, behind: int) -> None:
    """What is missing is refused, what lies around it is served."""
    with pytest.raises(LogCorrupt) as refusal:
        log.read(missing, 1000, end=COUNT)
    assert refusal.value.next_offset == behind
    assert headers(log.read(missing - 1, 1000, end=COUNT))[-1].next_offset == missing
    assert headers(log.read(behind, 1 << 20, end=COUNT))[0].base_offset == behind


def read_note(disk: SimulatedDisk) -> list[tuple[int, int]]:
    return [(bad.start_offset, bad.end_offset) for bad in damage.read(disk, FOLDER)]


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


SPOILT: Final[dict[str, Callable[[bytes], bytes]]] = {
    "a bit of a range": lambda content: flipped(content, -1),
    "a bit of the version": lambda content: flipped(content, 5),
    "cut": lambda content: content[:9],
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_the_partition_goes_on(
    is_clean: bool, spoil: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    disk, missing, behind = with_hole(is_clean=is_clean)
    spoilt = spoil(disk.read_bytes(NOTE))
    disk.replace(NOTE, spoilt)
    caplog.clear()
    directory = open_directory(disk)
    assert directory.was_clean == is_clean
    log = open_log(directory)
    check_hole(log, missing, behind)
    assert append(log, b"new") == COUNT
    assert caplog.text.count(SAID) == 1
    assert f"{NOTE}{names.UNREADABLE}" in caplog.text
    assert disk.read_bytes(f"{NOTE}{names.UNREADABLE}") == spoilt
    assert not log.evidence_intact
    assert read_note(disk) == [(missing, behind)]
    directory.close()

    caplog.clear()
    directory = open_directory(disk)
    check_hole(open_log(directory), missing, behind)
    assert SAID not in caplog.text
    directory.close()


def test_a_note_that_the_disk_does_not_give_back_is_no_hindrance(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, missing, behind = with_hole(is_clean=True)
    directory = open_directory(disk)
    disk.fail("read", errno.EIO, path_part=NOTE, times=10)
    log = open_log(directory)
    check_hole(log, missing, behind)
    assert append(log, b"new") == COUNT
    assert caplog.text.count(SAID) == 1
    directory.close()


def test_a_note_that_cannot_be_copied_is_none_either(caplog: pytest.LogCaptureFixture) -> None:
    disk, missing, behind = with_hole(is_clean=True)
    disk.replace(NOTE, b"")
    directory = open_directory(disk)
    disk.fail("rename", errno.EIO, path_part=NOTE)
    log = open_log(directory)
    check_hole(log, missing, behind)
    assert "No copy of it can be kept" in caplog.text
    directory.close()


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
def test_no_power_cut_on_the_way_loses_what_is_damaged(is_clean: bool, seed: int) -> None:
    disk, missing, behind = with_hole(is_clean=is_clean)
    disk.replace(NOTE, b"")
    disk.sync_volume()  # indexes too, which would pass over the hole
    random = Random(seed)
    states: list[SimulatedDisk] = []

    def keep_some(_operation: str, _path: str) -> None:
        states.extend(disk.possible_state(random) for _ in range(4))

    directory = open_directory(disk)
    disk.observe = keep_some
    open_log(directory)
    disk.observe = None
    assert len(states) > 40
    for state in states:
        state.observe = None
        check_hole(open_log(open_directory(state)), missing, behind)


@pytest.mark.parametrize("watermarks", ["kept", "lost"])
def test_nothing_is_cut_off_where_the_journal_is_lost_as_well(watermarks: str) -> None:
    """Neither tells then what was durable, and good batches lie behind the damage."""
    disk, *_ = with_hole(is_clean=False)
    disk.replace(NOTE, b"")
    for name in disk.list_directory(""):
        if names.journal_number(name) is not None:
            disk.replace(name, b"\xff" * 100)
    if watermarks == "lost":
        disk.remove(names.WATERMARKS)
    held = disk.list_directory(FOLDER)
    directory = open_directory(disk)
    with pytest.raises(LogCorrupt, match="the journal has lost how far the log was durable"):
        open_log(directory)
    assert disk.list_directory(FOLDER) == held
    disk.remove(NOTE)
    assert open_log(directory).log_end == COUNT, "a gap between segments is damage"
    directory.close()


def test_damage_that_indexes_would_pass_over_is_refused_again() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    for number in range(COUNT):
        append(log, b"v%d" % number, epoch=number // 10)
    commit(directory, log)
    epochs = log.body().epochs.lines()
    found = log.body().segments[1].locate(24)
    assert found is not None
    path, last_byte = log.body().segments[1].path, found[0] + found[1].size - 1
    directory.close()
    disk.flip_bit(path, bit=8 * last_byte)
    for name in disk.list_directory(FOLDER):
        if name.endswith(("index", "snapshot", "epochs")):
            disk.remove(f"{FOLDER}/{name}")
    disk.remove(names.CLEAN_MARKER)
    directory = open_directory(disk)
    assert [bad[:2] for bad in open_log(directory).damaged_ranges] == [(24, 25)]
    directory.close()

    disk.replace(NOTE, b"")
    directory = open_directory(disk)
    assert directory.was_clean
    log = open_log(directory)
    assert [bad[:2] for bad in log.damaged_ranges] == [(24, 25)]
    assert log.body().epochs.lines() == epochs
    with pytest.raises(LogCorrupt, match="Offsets 24 to 24 of orders-0"):
        log.read(24, 1000, end=COUNT)
    directory.close()
