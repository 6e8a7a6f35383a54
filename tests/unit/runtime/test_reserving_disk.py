"""A full disk still takes what empties it: the reserve is given up for that, and for no record."""

from __future__ import annotations

import errno
import threading
from functools import partial
from pathlib import Path
from random import Random

import pytest

from simulation.disk import SimulatedDisk
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.disk import KeepsReserve, WholeVolumeSync, plain, relieved
from tidelog_runtime.reserving_disk import RESERVE, ReservingDisk

RESERVED = 992
SLICE = 62


def brim_full() -> tuple[SimulatedDisk, ReservingDisk]:
    """A disk of which others took all but the reserve, and the disk that has this."""
    bare = SimulatedDisk(Random(1))
    disk = ReservingDisk(bare, RESERVED)
    disk.refill_reserve()
    bare.set_capacity(bare.total_bytes() - bare.free_bytes())
    assert bare.free_bytes() == 0
    return bare, disk


def append(disk: ReservingDisk, path: str, content: bytes) -> None:
    """What writers of vital files do."""
    file = disk.open(path, create=True)
    relieved(disk, partial(file.append, [content]))


def held(bare: SimulatedDisk) -> int:
    """What the reserve holds; 0 also where there is none."""
    return bare.open(RESERVE).size if bare.exists(RESERVE) else 0


def test_who_asks_takes_of_it_slice_by_slice_until_it_is_used_up() -> None:
    bare, disk = brim_full()
    append(disk, "journal", b"a cut")
    assert held(bare) == RESERVED - SLICE
    disk.replace("clean", b"m" * 100)
    assert held(bare) == RESERVED - SLICE - 62, "another slice, of which some is left"
    append(disk, "journal", bytes(bare.free_bytes() + held(bare)))
    assert held(bare) == 0
    with pytest.raises(OSError, match="No space left"):
        append(disk, "journal", b"x")


def test_records_do_not() -> None:
    bare, disk = brim_full()
    log = plain(disk).open("0.log", create=True)
    with pytest.raises(OSError, match="No space left"):
        log.append([b"record"])
    with pytest.raises(OSError, match="No space left"):
        plain(disk).replace("watermarks", b"marks")
    assert held(bare) == RESERVED


def test_other_errors_leave_it_alone() -> None:
    bare, disk = brim_full()
    bare.fail("append", errno.EIO, path_part="journal")
    with pytest.raises(OSError, match="Input/output"):
        append(disk, "journal", b"a cut")
    assert held(bare) == RESERVED


def test_whoever_wants_to_know_is_told() -> None:
    _, disk = brim_full()
    told: list[OSError] = []
    disk.on_given_up = told.append
    disk.replace("clean", b"marker")
    (error,) = told
    assert error.errno == errno.ENOSPC


def test_it_is_kept_again_when_there_is_space() -> None:
    bare, disk = brim_full()
    disk.replace("clean", b"marker")
    assert not disk.refill_reserve(), "it was given up a moment ago"
    assert held(bare) < RESERVED
    bare.set_capacity(3 * RESERVED)
    assert disk.refill_reserve()
    assert held(bare) == RESERVED


@pytest.mark.parametrize("is_full", [True, False])
def test_it_is_kept_again_after_somebody_removed_it(is_full: bool) -> None:
    bare, disk = brim_full()
    bare.remove(RESERVE)
    if is_full:
        bare.set_capacity(bare.total_bytes() - bare.free_bytes())
        with pytest.raises(OSError, match="No space left"):
            disk.replace("clean", b"marker")
    else:
        disk.replace("clean", b"marker")
    bare.set_capacity(3 * RESERVED)
    disk.refill_reserve()
    assert held(bare) == (RESERVED if is_full else 0), "nobody looks for it before it is needed"


def test_what_passes_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    bare = SimulatedDisk(Random(1))
    disk = ReservingDisk(bare, RESERVED)
    bare.fail("open", errno.EMFILE, path_part=RESERVE, times=4)
    disk.refill_reserve()
    assert held(bare) == 0
    bare.heal()
    assert disk.refill_reserve()
    assert held(bare) == RESERVED


def test_what_passes_takes_nothing_of_what_is_held() -> None:
    bare, disk = brim_full()
    disk.replace("clean", b"marker")
    left = held(bare)
    bare.set_capacity(3 * RESERVED)
    bare.fail("open", errno.EMFILE, path_part=RESERVE, times=2)
    disk.refill_reserve()
    bare.heal()
    assert held(bare) == left > 0
    disk.refill_reserve()
    assert held(bare) == RESERVED


def test_a_quota_that_nobody_sees_is_told_as_too_little() -> None:
    bare, disk = brim_full()
    disk.replace("clean", b"marker")
    left = held(bare)
    bare.set_capacity(10 * RESERVED)
    bare.fail("append", errno.EDQUOT, path_part=RESERVE)
    assert not disk.refill_reserve()
    assert held(bare) == left


def test_half_a_reserve_is_filled_up_after_a_power_cut() -> None:
    bare = SimulatedDisk(Random(1))
    bare.allocate(RESERVE, 10)
    ReservingDisk(bare, RESERVED).refill_reserve()
    assert held(bare) == RESERVED


def test_one_of_a_larger_volume_is_cut() -> None:
    bare = SimulatedDisk(Random(1))
    bare.allocate(RESERVE, 5 * RESERVED)
    ReservingDisk(bare, RESERVED).refill_reserve()
    assert held(bare) == RESERVED


def test_a_small_volume_gives_little() -> None:
    bare = SimulatedDisk(Random(1), capacity_bytes=6400)
    ReservingDisk(bare).refill_reserve()
    assert held(bare) == 100


def test_threads_may_need_and_refill_it_at_once() -> None:
    bare, disk = brim_full()
    inside, go_on = threading.Event(), threading.Event()
    allocate = bare.allocate

    def allocate_slowly(path: str, size: int) -> None:
        allocate(path, size)
        inside.set()
        go_on.wait()

    bare.allocate = allocate_slowly  # type: ignore[method-assign] # a moment that lasts
    disk.replace("clean", b"marker")
    bare.set_capacity(3 * RESERVED)
    refilling = threading.Thread(target=disk.refill_reserve)
    refilling.start()
    inside.wait()
    bare.set_capacity(bare.total_bytes() - bare.free_bytes())
    writing = threading.Thread(target=partial(disk.replace, "watermarks", b"marks"))
    writing.start()
    go_on.set()
    refilling.join()
    writing.join()
    bare.set_capacity(5 * RESERVED)
    assert disk.refill_reserve()
    assert held(bare) == RESERVED


def test_a_file_system_that_cannot_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    bare = SimulatedDisk(Random(1))
    bare.fail("append", errno.EOPNOTSUPP, path_part=RESERVE, times=2)
    disk = ReservingDisk(bare, RESERVED)
    assert disk.refill_reserve(), "there is nothing to wait for"
    disk.refill_reserve()
    assert len(caplog.records) == 1
    assert held(bare) == 0


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
