"""A full disk still takes what empties it: the reserve is given up for that, and for no record."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from simulation.disk import SimulatedDisk
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.disk import KeepsReserve, WholeVolumeSync
from tidelog_runtime.reserving_disk import RESERVE, ReservingDisk

RESERVED = 1000


def brim_full() -> tuple[SimulatedDisk, ReservingDisk]:
    """A disk of which others took all but the reserve, and the disk that has this."""
    bare = SimulatedDisk(Random(1))
    disk = ReservingDisk(bare, RESERVED)
    disk.refill_reserve()
    bare.set_capacity(bare.total_bytes() - bare.free_bytes())
    assert bare.free_bytes() == 0
    return bare, disk


def test_vital_files_take_of_the_reserve() -> None:
    bare, disk = brim_full()
    journal = disk.open("journal", create=True)
    journal.append([b"a cut"])
    assert not bare.exists(RESERVE)
    assert bare.free_bytes() == RESERVED - 5
    disk.replace("clean", b"marker")
    assert (bare.read_bytes("journal"), bare.read_bytes("clean")) == (b"a cut", b"marker")
    with pytest.raises(OSError, match="No space left"):
        journal.append([bytes(RESERVED)])
    assert journal.size == 5


def test_a_replacement_takes_of_it_too() -> None:
    bare, disk = brim_full()
    disk.replace("clean", b"marker")
    assert bare.read_bytes("clean") == b"marker"
    assert not bare.exists(RESERVE)


def test_records_do_not() -> None:
    bare, disk = brim_full()
    log = disk.open_bulk("0.log", create=True)
    with pytest.raises(OSError, match="No space left"):
        log.append([b"record"])
    assert bare.exists(RESERVE)


def test_other_errors_leave_it_alone() -> None:
    bare, disk = brim_full()
    bare.fail("append", errno.EIO, path_part="journal")
    with pytest.raises(OSError, match="Input/output"):
        disk.open("journal", create=True).append([b"a cut"])
    assert bare.exists(RESERVE)


def test_whoever_wants_to_know_is_told_once() -> None:
    _, disk = brim_full()
    told: list[OSError] = []
    disk.on_given_up = told.append
    disk.replace("clean", b"marker")
    disk.replace("watermarks", b"marks")
    (error,) = told
    assert error.errno == errno.ENOSPC


def test_it_is_kept_again_when_there_is_space() -> None:
    bare, disk = brim_full()
    disk.replace("clean", b"marker")
    disk.refill_reserve()
    assert not bare.exists(RESERVE), "it was given up a moment ago"
    bare.set_capacity(2 * RESERVED + len(b"marker"))
    disk.refill_reserve()
    assert bare.open(RESERVE).size == RESERVED


def test_half_a_reserve_is_filled_up_after_a_power_cut() -> None:
    bare = SimulatedDisk(Random(1))
    bare.allocate(RESERVE, 10)
    ReservingDisk(bare, RESERVED).refill_reserve()
    assert bare.open(RESERVE).size == RESERVED


def test_a_small_volume_gives_little() -> None:
    bare = SimulatedDisk(Random(1), capacity_bytes=6400)
    ReservingDisk(bare).refill_reserve()
    assert bare.open(RESERVE).size == 100


def test_a_file_system_that_cannot_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    bare = SimulatedDisk(Random(1))
    bare.fail("append", errno.EOPNOTSUPP, path_part=RESERVE)
    disk = ReservingDisk(bare, RESERVED)
    disk.refill_reserve()
    disk.refill_reserve()
    assert len(caplog.records) == 1
    assert not bare.exists(RESERVE)


def test_the_space_of_a_real_file_is_taken(tmp_path: Path) -> None:
    disk = ReservingDisk(LocalDisk(tmp_path), 1 << 20)
    disk.refill_reserve()
    taken = (tmp_path / RESERVE).stat()
    assert taken.st_blocks * 512 >= taken.st_size == 1 << 20


def test_it_is_all_that_the_disk_below_is(tmp_path: Path) -> None:
    disk = ReservingDisk(LocalDisk(tmp_path))
    assert isinstance(disk, KeepsReserve)
    assert isinstance(disk, WholeVolumeSync)
    assert not disk.owns_volume()
    assert not ReservingDisk(SimulatedDisk(Random(1))).owns_volume()
    assert ReservingDisk(SimulatedDisk(Random(1), whole_volume=True)).owns_volume()
