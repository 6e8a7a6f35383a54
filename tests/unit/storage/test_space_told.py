"""What the log says of a disk that has space left, and none for what it is asked to take."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from storage_kit.directories import NOW_MS, append, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import DiskFull
from tidelog_broker.storage import DataDirectory, Log, StorageConfig

SMALL = b"s" * 10
LARGE = b"l" * 4_000


def nearly_full() -> tuple[SimulatedDisk, DataDirectory, Log]:
    """A disk with more space than is kept for deletes, and less than a large batch takes."""
    disk = SimulatedDisk(Random(1), capacity_bytes=20_000)
    directory = open_directory(disk, StorageConfig())
    log = open_log(directory)
    while disk.free_bytes() > 3_000:
        append(log, b"x" * 100)
        commit(directory, log)
    return disk, directory, log


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.levelname for record in caplog.records]


def test_large_batches_that_are_refused_again_and_again_are_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, directory, log = nearly_full()
    for second in range(1, 200):
        now_ms = NOW_MS + second * 1_000
        directory.can_append(now_ms)
        with pytest.raises(DiskFull):
            append(log, LARGE, now_ms=now_ms)
        assert levels(caplog) == ["ERROR"]
    disk.set_capacity(30_000)
    append(log, LARGE, now_ms=NOW_MS + 200_000)
    assert levels(caplog) == ["ERROR", "WARNING"]
    assert "has space again" in caplog.text
    directory.close()


def test_small_batches_are_taken_between_large_ones_that_are_refused() -> None:
    _, directory, log = nearly_full()
    with pytest.raises(DiskFull):
        append(log, LARGE, now_ms=NOW_MS + 1_000)
    with pytest.raises(DiskFull):
        append(log, SMALL, now_ms=NOW_MS + 1_999)
    append(log, SMALL, now_ms=NOW_MS + 2_000)
    directory.close()


def test_space_that_nobody_sees_growing_is_told_of_when_writes_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, directory, log = nearly_full()
    disk.fail("append", errno.EDQUOT, path_part=".log")
    with pytest.raises(DiskFull):
        append(log, SMALL)
    for second in range(1, 60):
        assert directory.can_append(NOW_MS + second * 1_000)
    assert levels(caplog) == ["ERROR"]
    assert directory.can_append(NOW_MS + 60_000)
    assert levels(caplog) == ["ERROR", "WARNING"]
    directory.close()


class SparingDisk(SimulatedDisk):
    """Has space by all it says, and a quota that lets nobody have it back."""

    on_given_up: Callable[[OSError], object]
    is_needed = False
    has_room = False

    @property
    def plain(self) -> SimulatedDisk:
        """The same disk."""
        return self

    def relieved(self, action: Callable[[], Any]) -> Any:
        """What the action returns, after some was given up."""
        if self.is_needed:
            self.on_given_up(OSError(errno.EDQUOT, "Quota exceeded"))
        return action()

    def refill_reserve(self) -> bool:
        """Whether the quota lets it."""
        return self.has_room


def test_what_was_given_up_is_not_for_records_until_it_is_there_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SparingDisk(Random(1))
    disk.on_given_up = lambda _: None
    directory = open_directory(disk, StorageConfig())
    log = open_log(directory)
    append(log, SMALL)
    disk.is_needed = True
    disk.relieved(lambda: None)
    disk.is_needed = False
    for second in range(1, 100):
        with pytest.raises(DiskFull):
            append(log, SMALL, now_ms=NOW_MS + second * 1_000)
    assert levels(caplog) == ["ERROR"]
    disk.has_room = True
    append(log, SMALL, now_ms=NOW_MS + 100_000)
    directory.close()
