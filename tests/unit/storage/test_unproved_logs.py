"""A start that ends before it has opened its logs proves nothing of them, and claims nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from storage_kit.directories import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    commit,
    open_directory,
    open_log,
    read_all,
    with_config,
)

from simulation.disk import SimulatedDisk
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, GroupCommit, Log, StorageConfig, names
from tidelog_broker.storage.config import FlushPolicy
from tidelog_runtime.threads import BlockingCall, attempt

OTHER = PartitionId(TOPIC_ID, 1)
OS = StorageConfig(flush_policy=FlushPolicy.OS, flush_ms=0, free_bytes_min=0)
COMMIT = StorageConfig(free_bytes_min=0)


def after_power_cut(config: StorageConfig, seed: int = 1) -> SimulatedDisk:
    """Two logs of three batches each, of which the last one was never synced."""
    disk = SimulatedDisk(Random(seed))
    directory = open_directory(disk, config)
    logs = [open_log(directory, partition_id=key) for key in (PARTITION, OTHER)]
    for log in logs:
        append(log, b"a")
        append(log, b"b")
    commit(directory, *logs)
    directory.volume.journal.sync()
    for log in logs:
        append(log, b"lost?")
    return disk.crash()


@pytest.mark.parametrize("config", [OS, COMMIT], ids=["os", "commit"])
@pytest.mark.parametrize("seed", range(4))
def test_a_start_that_opens_no_log_leaves_no_evidence(config: StorageConfig, seed: int) -> None:
    disk = after_power_cut(OS, seed)
    for _ in range(2):
        directory = open_directory(disk, config)
        assert not directory.was_clean
        assert not directory.durable_evidence_intact
        directory.close()
    directory = open_directory(disk, config)
    open_log(directory)
    open_log(directory, partition_id=OTHER)
    assert not directory.durable_evidence_intact
    directory.close()
    directory = open_directory(disk, config)
    assert directory.was_clean
    assert directory.durable_evidence_intact


def test_what_was_recovered_is_trusted_and_the_rest_is_recovered_later() -> None:
    disk = after_power_cut(OS)
    directory = open_directory(disk, COMMIT)
    end = open_log(directory).log_end
    directory.close()
    directory = open_directory(disk, COMMIT)
    reads = disk.operations["read"]
    assert open_log(directory).log_end == end
    assert disk.operations["read"] == reads, "it is recovered once"
    assert not directory.durable_evidence_intact
    open_log(directory, partition_id=OTHER)
    directory.close()
    assert open_directory(disk, COMMIT).was_clean


def test_logs_that_closed_cleanly_stay_so_though_nobody_opens_them() -> None:
    disk = after_power_cut(COMMIT)
    directory = open_directory(disk)
    for key in (PARTITION, OTHER):
        open_log(directory, partition_id=key)
    directory.close()
    for _ in range(2):
        directory = open_directory(disk)
        assert directory.was_clean
        assert directory.durable_evidence_intact
        directory.close()


class Committing:
    """Group commit of one data directory, in this thread."""

    def __init__(self, directory: DataDirectory) -> None:
        self.commit = GroupCommit(
            directory, threads=self, on_durable=lambda *_: None, on_fault=lambda *_: None
        )

    async def run(self, calls: Sequence[BlockingCall], /) -> list[OSError | None]:
        """Every call, one after the other."""
        return [attempt(call) for call in calls]

    def round(self, log: Log) -> None:
        """Append a batch and make it durable."""
        append(log, b"c")
        self.commit.mark_dirty(log)
        asyncio.run(self.commit.drain())


def test_a_stricter_policy_is_evidence_from_the_last_recovery_on() -> None:
    disk = after_power_cut(OS)
    directory = open_directory(disk, COMMIT)
    committing = Committing(directory)
    committing.round(open_log(directory))
    early = disk.kill()
    again = open_directory(early, COMMIT)
    assert not again.durable_evidence_intact
    committing = Committing(again)
    open_log(again)
    committing.round(open_log(again, partition_id=OTHER))
    late = open_directory(early.crash(), COMMIT)
    assert not late.was_clean
    assert late.durable_evidence_intact


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_a_lost_journal_stays_lost_until_the_logs_are_recovered(is_killed: bool) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    for number in range(60):
        append(log, b"v%d" % number)
    commit(directory, log)
    with_config(log, retention_bytes=2000)
    directory.run_retention(NOW_MS)
    directory.checkpoint()
    start = log.log_start
    assert start > 0
    disk = disk.kill()
    for name in disk.list_directory(""):
        if names.journal_number(name) is not None:
            disk.remove(name)
    directory = open_directory(disk)
    if is_killed:
        disk = disk.kill()
    else:
        directory.close()
    directory = open_directory(disk)
    assert not directory.durable_evidence_intact
    log = open_log(directory)
    assert (log.log_start, log.log_end, len(read_all(log))) == (start, 60, 60 - start)
