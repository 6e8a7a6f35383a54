"""A sync failed and the process was started anew: what the page cache shows is not believed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.directories import append, commit, open_directory, open_log, read_all

from simulation.disk import SimulatedDisk
from tidelog.errors import StorageError
from tidelog_broker.storage import LogConfig
from tidelog_runtime.adapters.local_disk import LocalDisk

ROOMY = LogConfig(segment_bytes=1 << 20)


def after_failed_sync(seed: int) -> SimulatedDisk:
    """The disk of a process that died after its sync had failed: 10 batches stand, 10 may not."""
    disk = SimulatedDisk(Random(seed))
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    for number in range(10):
        append(log, b"x" * 700, producer=(7, 0, number))
    commit(directory, log)
    directory.volume.journal.sync()
    for number in range(10, 20):
        append(log, b"y" * 700, producer=(7, 0, number))
    disk.fail("sync", path_part=".log")
    with pytest.raises(StorageError, match="synced"):
        log.sync()
    return disk.kill()


@pytest.mark.parametrize("seed", range(20))
def test_what_recovery_shows_outlives_a_power_cut(seed: int) -> None:
    disk = after_failed_sync(seed)
    directory = open_directory(disk)
    log = open_log(directory, ROOMY)
    shown = [header.base_offset for header in read_all(log)]
    assert shown == list(range(len(shown)))
    assert len(shown) >= 10
    next_batch = batch(b"y" * 700, producer=(7, 0, log.log_end))
    log.append(next_batch, header_of(next_batch), leader_epoch=0, now_ms=0)
    commit(directory, log)
    directory = open_directory(disk.crash())
    log = open_log(directory, ROOMY)
    assert log.log_end == len(shown) + 1
    assert not log.damaged_ranges
    assert directory.durable_evidence_intact


def test_a_sync_that_fails_in_recovery_keeps_the_log_closed() -> None:
    disk = after_failed_sync(1)
    directory = open_directory(disk)
    disk.fail("sync", path_part=".log")
    with pytest.raises(StorageError, match="could not be opened"):
        open_log(directory, ROOMY)
    assert open_log(directory, ROOMY).log_end >= 10


def test_the_local_disk_forgets_what_the_cache_holds(tmp_path: Path) -> None:
    file = LocalDisk(tmp_path).open("a", create=True)
    file.append([b"x" * 65_536])
    file.sync()
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        if not is_cached(descriptor):
            pytest.skip("this file system does not say what is cached")
        file.forget_cache(0)
        assert not is_cached(descriptor)
        assert file.read(0, 1 << 20) == b"x" * 65_536
    finally:
        os.close(descriptor)
        file.close()


def is_cached(descriptor: int) -> bool:
    """Whether a read could be answered without the medium."""
    try:
        return os.preadv(descriptor, [bytearray(4096)], 0, os.RWF_NOWAIT) == 4096
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP):
            return False
        raise
