"""A partition whose first opening failed half-way: the second one makes all of it durable."""

from __future__ import annotations

import errno
from random import Random

import pytest
from storage_kit.directories import append, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import StorageError


@pytest.mark.parametrize("number", range(10))
def test_what_was_committed_survives_though_the_folder_was_made_earlier(number: int) -> None:
    disk = SimulatedDisk(Random(number))
    directory = open_directory(disk)
    disk.fail("append", errno.ENOSPC, path_part="journal")
    with pytest.raises(StorageError, match="could not be opened"):
        open_log(directory)
    log = open_log(directory)
    append(log)
    commit(directory, log)
    after = open_log(open_directory(disk.crash()))
    assert after.log_end == 1
    assert not after.damaged_ranges
