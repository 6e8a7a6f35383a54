"""The simulated disk: the port's rules, and what may and may not be left after a power cut."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.disk import SimulatedDisk
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.disk import AlreadyLocked, Disk

STATES = 300


@pytest.fixture(params=["simulated", "local"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """Both disks: what the port promises holds on either."""
    return LocalDisk(tmp_path) if request.param == "local" else SimulatedDisk(Random(1))


def test_files_grow_at_their_end_and_can_be_cut(disk: Disk) -> None:
    file = disk.open("a", create=True)
    assert file.append([b"one", memoryview(b"two"), bytearray(b"three")]) == 0
    assert file.append([b"!"]) == 11
    assert file.size == 12
    assert file.read(3, 3) == b"two"
    assert file.read(10, 100) == b"e!"
    assert file.read(50, 1) == b""
    file.truncate(6)
    assert disk.read_bytes("a") == b"onetwo"
    assert disk.open("a").size == 6
    file.sync()
    file.close()
    file.close()


def test_names(disk: Disk) -> None:
    disk.make_directory("p/q")
    disk.make_directory("p/q")
    for name in ("b", "a"):
        disk.open(f"p/q/{name}", create=True).close()
    assert disk.list_directory("p/q") == ["a", "b"]
    disk.rename("p/q/a", "p/q/b")
    disk.rename("p/q", "p/r")
    assert disk.list_directory("p") == ["r"]
    assert disk.exists("p/r/b")
    assert not disk.exists("p/q/b")
    disk.remove("p/r/b")
    disk.remove_tree("p")
    assert disk.list_directory("") == []
    disk.replace("c", b"first")
    disk.replace("c", b"2nd")
    assert disk.read_bytes("c") == b"2nd"
    assert disk.list_directory("") == ["c"]
    disk.sync_directory("")


def test_what_is_not_there_is_said_in_the_same_words(disk: Disk) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: disk.open("none"),
        lambda: disk.open("no/folder", create=True),
        lambda: disk.read_bytes("none"),
        lambda: disk.list_directory("none"),
        lambda: disk.rename("none", "other"),
        lambda: disk.remove("none"),
        lambda: disk.remove_tree("none"),
        lambda: disk.sync_directory("none"),
    ]
    for attempt in attempts:
        with pytest.raises(FileNotFoundError):
            attempt()


def test_one_process_holds_the_lock(disk: Disk) -> None:
    lock = disk.acquire_lock("lock")
    with pytest.raises(AlreadyLocked):
        disk.acquire_lock("lock")
    lock.release()
    disk.acquire_lock("lock").release()


def left_after_a_cut(disk: SimulatedDisk, path: str) -> set[bytes | None]:
    """Contents of a file in many of the states that a power cut might leave now."""
    found: set[bytes | None] = set()
    for seed in range(STATES):
        state = disk.possible_state(Random(seed))
        found.add(state.read_bytes(path) if state.exists(path) else None)
    return found


def new_file(disk: SimulatedDisk, content: bytes) -> None:
    file = disk.open("f", create=True)
    file.append([content])
    file.sync()
    disk.sync_directory("")


def test_what_was_synced_stays_and_the_rest_is_torn_at_sectors() -> None:
    disk = SimulatedDisk(Random(1))
    new_file(disk, b"d" * 700)
    disk.open("f").append([b"n" * 2000])
    left = left_after_a_cut(disk, "f")
    assert all(content is not None and content[:700] == b"d" * 700 for content in left)
    tails = {content[700:] for content in left if content is not None}
    assert {b"", b"n" * 2000} <= tails
    # The first sector border after 700 is 1024.
    assert b"n" * 324 in tails
    assert b"\0" * 324 + b"n" * 512 in tails
    assert b"\0" * 2000 in tails or any(tail.endswith(b"\0") for tail in tails)
    for tail in tails:
        for begin, end in ((0, 324), (324, 836), (836, 1348), (1348, 1860), (1860, 2000)):
            assert set(tail[begin:end]) in (set(), {0}, {ord("n")})


def test_a_cut_that_was_not_synced_may_come_undone_under_what_follows() -> None:
    disk = SimulatedDisk(Random(1))
    new_file(disk, b"a" * 512 + b"b" * 1024)
    file = disk.open("f")
    file.truncate(512)
    file.append([b"c" * 512])
    left = left_after_a_cut(disk, "f")
    head = b"a" * 512
    assert head + b"b" * 1024 in left
    assert head in left
    assert head + b"c" * 512 in left
    assert head + b"c" * 512 + b"b" * 512 in left
    file.sync()
    assert left_after_a_cut(disk, "f") == {head + b"c" * 512}


def test_a_name_is_durable_only_after_its_folder_was_synced() -> None:
    disk = SimulatedDisk(Random(1))
    disk.make_directory("p")
    disk.sync_directory("")
    file = disk.open("p/f", create=True)
    file.append([b"x"])
    file.sync()
    assert left_after_a_cut(disk, "p/f") == {None, b"x"}
    disk.sync_directory("p")
    assert left_after_a_cut(disk, "p/f") == {b"x"}
    disk.remove("p/f")
    assert left_after_a_cut(disk, "p/f") == {None, b"x"}


def test_a_rename_is_done_or_not_but_its_content_needs_a_sync_of_its_own() -> None:
    disk = SimulatedDisk(Random(1))
    new_file(disk, b"old")
    file = disk.open("f.tmp", create=True)
    file.append([b"new"])
    disk.rename("f.tmp", "f")
    assert left_after_a_cut(disk, "f") == {b"old", b"new", b"", b"\0\0\0"}
    file.sync()
    assert left_after_a_cut(disk, "f") == {b"old", b"new"}
    disk.sync_directory("")
    assert left_after_a_cut(disk, "f") == {b"new"}
    disk.replace("f", b"newer")
    assert left_after_a_cut(disk, "f") == {b"newer"}


def test_every_step_of_replace_leaves_the_old_or_the_new() -> None:
    disk = SimulatedDisk(Random(1))
    new_file(disk, b"old")
    seen: list[set[bytes | None]] = []
    disk.observe = lambda operation, path: seen.append(left_after_a_cut(disk, "f"))
    disk.replace("f", b"new")
    assert len(seen) == 6
    assert all(left <= {b"old", b"new"} for left in seen)
    assert seen[0] == {b"old"}
    assert seen[-1] == {b"new"}


def test_the_death_of_a_process_loses_nothing_that_was_written() -> None:
    disk = SimulatedDisk(Random(1))
    file = disk.open("f", create=True)
    file.append([b"in the page cache"])
    disk.acquire_lock("lock")
    after = disk.kill()
    assert after.read_bytes("f") == b"in the page cache"
    after.acquire_lock("lock")
    for attempt in (lambda: file.append([b"x"]), lambda: disk.exists("f"), file.sync):
        with pytest.raises(OSError, match="dead"):
            attempt()
    assert None in left_after_a_cut(after, "f")


def test_a_crash_kills_the_disk_and_frees_its_lock() -> None:
    disk = SimulatedDisk(Random(1))
    new_file(disk, b"kept")
    disk.acquire_lock("lock")
    after = disk.crash()
    assert after.read_bytes("f") == b"kept"
    after.acquire_lock("lock")
    with pytest.raises(OSError, match="dead"):
        disk.read_bytes("f")


def test_a_full_disk_refuses_whole_appends_and_recovers() -> None:
    disk = SimulatedDisk(Random(1), capacity_bytes=1000)
    new_file(disk, b"x" * 900)
    file = disk.open("f")
    assert disk.free_bytes() == 100
    with pytest.raises(OSError, match="No space") as failure:
        file.append([b"y" * 101])
    assert failure.value.errno == errno.ENOSPC
    assert file.size == 900
    file.append([b"y" * 100])
    assert disk.free_bytes() == 0
    file.truncate(500)
    assert disk.free_bytes() == 500
    disk.remove("f")
    assert (disk.free_bytes(), disk.total_bytes()) == (1000, 1000)


def test_a_failed_sync_is_not_mended_by_the_next_one() -> None:
    lost = 0
    for seed in range(30):
        disk = SimulatedDisk(Random(seed))
        new_file(disk, b"")
        file = disk.open("f")
        file.append([b"x"])
        disk.fail("sync", path_part="f")
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        file.sync()
        assert file.read(0, 1) == b"x"
        lost += disk.crash().read_bytes("f") != b"x"
    assert 0 < lost < 30


def test_a_turned_bit_is_there_before_and_after_a_cut() -> None:
    disk = SimulatedDisk(Random(1))
    new_file(disk, b"\0\0")
    disk.flip_bit("f", bit=9)
    assert disk.read_bytes("f") == b"\0\2"
    assert left_after_a_cut(disk, "f") == {b"\0\2"}


def test_a_volume_of_its_own_is_synced_at_once() -> None:
    disk = SimulatedDisk(Random(1), whole_volume=True)
    assert disk.owns_volume()
    disk.make_directory("p/q")
    disk.open("p/q/f", create=True).append([b"x"])
    disk.sync_volume()
    assert left_after_a_cut(disk, "p/q/f") == {b"x"}


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 1500)),
        st.tuples(st.just("truncate"), st.integers(0, 3000)),
        st.tuples(st.just("sync"), st.just(0)),
    ),
    max_size=12,
)


@given(operations, st.integers(0, 2**32))
def test_no_cut_ever_takes_what_was_synced(steps: list[tuple[str, int]], seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    new_file(disk, b"")
    file = disk.open("f")
    safe = 0
    for number, (operation, size) in enumerate(steps):
        if operation == "append":
            file.append([bytes([number + 1]) * size])
        elif operation == "truncate":
            file.truncate(min(size, file.size))
            safe = min(safe, file.size)
        else:
            file.sync()
            safe = file.size
    expected = file.read(0, safe)
    after = disk.crash().read_bytes("f")
    assert after[:safe] == expected
