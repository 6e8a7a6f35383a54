"""A process without a file descriptor: what was not tried waits, and what failed has failed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from random import Random

import pytest
from storage_kit.directories import TOPIC_ID, append, commit, open_directory, open_log
from unit.storage.test_group_commit import Broker, run

from simulation.disk import SimulatedDisk
from tidelog.errors import StorageError
from tidelog.model import PartitionId
from tidelog_broker.storage import FlushPolicy, damage, group_commit
from tidelog_broker.storage.damage import DamagedRange

FOREVER = 10**9


def nothing_is_pinned(broker: Broker) -> bool:
    """Whether every file may be closed again to make room for another."""
    return not any(slot.pins for slot in broker.directory.volume.files._ring)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_a_descriptor_for_a_folder_its_logs_wait(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        broker = Broker()
        waiting, other, _ = broker.logs
        folder = f"{TOPIC_ID.hex()}/0"
        async with broker.running():
            broker.disk.fail("sync_directory", number, path_part=folder, times=2)
            broker.append(waiting)
            broker.append(other)
            await broker.until(lambda: bool(broker.durable))
            assert broker.durable == [(other, 1)]
            broker.append(waiting)
            await broker.until(lambda: len(broker.durable) == 2)
            assert broker.durable == [(other, 1), (waiting, 2)]
            assert broker.faults == []
            assert nothing_is_pinned(broker)
            after = open_directory(broker.disk.possible_state(Random(4)))
            assert open_log(after, partition_id=waiting.partition_id).log_end == 2

    run(scenario)
    assert sum("waits for its sync" in line for line in caplog.messages) == 1


def test_without_a_descriptor_for_the_volume_everything_waits() -> None:
    async def scenario() -> None:
        broker = Broker(whole_volume=True, logs=20)
        async with broker.running():
            broker.disk.fail("sync_volume", errno.EMFILE)
            for log in broker.logs:
                broker.append(log)
            await broker.until(lambda: bool(broker.durable))
            assert broker.durable == [(log, 1) for log in broker.logs]
            assert broker.disk.operations["sync_volume"] == 1

    run(scenario)


def test_without_one_for_the_journals_folder_nothing_is_acknowledged() -> None:
    async def scenario() -> None:
        broker = Broker()
        log = broker.logs[0]
        journal = broker.directory.volume.journal
        journal.sync()
        journal._bytes_max, kept = 0, journal._bytes_max
        journal.begin_anew_if_due()
        journal._bytes_max = kept
        async with broker.running():
            broker.disk.fail("sync_directory", errno.EMFILE)  # the journal's is the first
            broker.append(log)
            await broker.until(
                lambda: broker.disk.operations["sync_directory"] > 0 or not journal.dirty
            )
            await broker.until(lambda: bool(broker.durable))
            assert not journal.name_is_new
            assert broker.durable == [(log, 1)]
            assert broker.faults == []
            assert broker.directory.can_append(0)
        after = open_directory(broker.disk.possible_state(Random(4)))
        assert open_log(after, partition_id=log.partition_id).log_end == 1

    run(scenario)


@pytest.mark.parametrize("count", [1, 40])
def test_a_file_that_was_closed_meanwhile_is_synced_when_it_can_be_opened(count: int) -> None:
    async def scenario() -> None:
        broker = Broker(FlushPolicy.COMMIT)
        log = broker.logs[0]
        for _ in range(count):
            append(log)  # more of them fill several segments
        broker.directory.volume.files.close_all()
        last = log.body().segments[-1]
        broker.disk.fail("open", errno.EMFILE, path_part=last.path)
        broker.commit.mark_dirty(log)
        async with broker.running():
            await broker.until(lambda: bool(broker.durable))
            assert broker.durable == [(log, count)]
            assert broker.faults == []
            after = open_directory(broker.disk.possible_state(Random(5)))
            assert open_log(after, partition_id=log.partition_id).log_end == count
            assert nothing_is_pinned(broker)

    run(scenario)


def test_a_log_that_can_t_be_synced_keeps_no_other_from_closing_cleanly() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    first, second = [
        open_log(directory, partition_id=PartitionId(TOPIC_ID, number)) for number in range(2)
    ]
    for log in (first, second):
        append(log)
    second.sync()
    directory.volume.files.close_all()
    disk.fail("open", errno.EMFILE, path_part=f"{TOPIC_ID.hex()}/0/")
    directory.close()
    again = open_directory(disk)
    assert set(again._clean_states) == {second.partition_id}


def test_what_retention_dropped_while_its_sync_waited_is_not_looked_for() -> None:
    async def scenario() -> None:
        broker = Broker(FlushPolicy.INTERVAL)
        log = broker.logs[0]
        async with broker.running():
            broker.disk.fail("sync_directory", errno.EMFILE)
            broker.gate.clear()
            for _ in range(40):
                broker.append(log)
            await broker.waiting.wait()
            log.high_watermark = log.log_end
            log.advance_log_start(30, now_ms=1)
            broker.gate.set()
            await broker.until(lambda: log.durable_end == 40)
            assert broker.faults == []

    run(scenario)


def test_others_do_not_wait_for_the_log_that_lacks_one() -> None:
    async def scenario() -> None:
        broker = Broker()
        lacking, other, _ = broker.logs
        tried_again_after = 1000.0  # this test is over before
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(group_commit, "_RETRY_S", tried_again_after)
            broker.disk.fail("sync_directory", errno.EMFILE, path_part=f"{TOPIC_ID.hex()}/0")
            task = asyncio.create_task(broker.commit.run())
            broker.append(lacking)
            for count in range(1, 6):
                broker.append(other)
                await broker.until(lambda count=count: len(broker.durable) == count)  # type: ignore[misc]
            assert {log for log, _ in broker.durable} == {other}
            await broker.commit.drain()  # which does not wait that long
            assert broker.durable[-1] == (lacking, 1)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        broker.directory.close()

    run(scenario)


def test_a_stop_waits_for_one_and_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "_RETRY_S", 0.0)

    async def scenario() -> None:
        broker = Broker()
        broker.disk.fail("sync_directory", errno.EMFILE, times=FOREVER)
        broker.append(broker.logs[0])
        await broker.commit.drain()
        assert broker.durable == []
        assert broker.faults == []
        with contextlib.suppress(StorageError):
            broker.directory.close()

    run(scenario)


def test_a_folder_that_failed_is_not_tried_again_because_another_lacked_a_descriptor() -> None:
    async def scenario() -> None:
        broker = Broker()
        log = broker.logs[0]
        async with broker.running():
            broker.disk.fail("sync_directory", errno.EMFILE, path_part="topics")
            broker.disk.fail("sync_directory", errno.EIO, path_part=TOPIC_ID.hex())
            broker.append(log)
            await broker.until(lambda: bool(broker.durable or broker.faults))
            assert broker.faults == [log]

    run(scenario)


def test_the_sync_of_an_open_file_needs_none_so_that_it_failed() -> None:
    async def scenario() -> None:
        broker = Broker()
        log = broker.logs[0]
        async with broker.running():
            broker.append(log)
            await broker.until(lambda: log.durable_end == 1)
            broker.disk.fail("sync", errno.EMFILE, path_part=".log")
            broker.append(log)
            await broker.until(lambda: bool(broker.faults) or log.durable_end == 2)
            assert broker.faults == [log]

    run(scenario)


def test_records_are_deleted_without_a_new_segment() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    for _ in range(8):
        append(log)
    commit(directory, log)
    directory.volume.journal.sync()
    disk.fail("open", errno.EMFILE, path_part=".log")
    log.advance_log_start(8, now_ms=1)
    assert log.log_start == 8
    assert log.fault is None
    append(log)
    commit(directory, log)
    directory.close()
    again = open_log(open_directory(disk))
    assert (again.log_start, again.log_end) == (8, 9)


def test_a_start_that_could_not_be_moved_is_moved_when_that_is_asked_for_again() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    for _ in range(40):
        append(log)
    commit(directory, log)
    directory.close()
    log = open_log(open_directory(disk))
    size = log.size_bytes
    disk.fail("list_directory", errno.EMFILE)
    with pytest.raises(StorageError, match="asked for again"):
        log.advance_log_start(30, now_ms=1)
    log.advance_log_start(30, now_ms=1)
    assert log.log_start == 30
    assert log.size_bytes < size


def test_a_note_of_damage_that_could_not_be_renewed_is_renewed_later() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    for _ in range(40):
        append(log)
    commit(directory, log)
    body = log.body()
    body.damaged_ranges = [DamagedRange(0, 1, 0, 0, 0), DamagedRange(39, 40, 39, 0, 0)]
    damage.write(disk, body.folder, body.damaged_ranges)
    disk.fail("open", errno.EMFILE, path_part="damaged")
    log.advance_log_start(20, now_ms=1)
    assert log.log_start == 20
    assert [one.start_offset for one in damage.read(disk, body.folder)] == [0, 39]
    log.advance_log_start(35, now_ms=1)
    assert [one.start_offset for one in damage.read(disk, body.folder)] == [39]


def test_a_cut_that_was_refused_is_not_made_by_the_next_start() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    for _ in range(8):
        append(log)
    commit(directory, log)
    journal = directory.volume.journal
    journal.sync()
    journal._bytes_max = 0
    journal.begin_anew_if_due()
    disk.fail("sync_directory", errno.EMFILE)
    with pytest.raises(StorageError):
        log.truncate_to(3, now_ms=1)
    assert journal.dirty, "its name is still to be synced"
    append(log)
    journal.sync()
    log.sync()
    after = open_log(open_directory(disk.possible_state(Random(2))))
    assert after.log_end == 9
