"""The power goes after every single disk operation of storage, and nothing acknowledged is lost.

A seeded workload appends, commits, rolls, checkpoints, retains, cuts, resets, deletes and restarts
on the simulated disk. After each operation that changed the disk, several of the states that a
power cut may leave are drawn, recovered, and compared with the model.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import replace
from random import Random

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.crash_model import PartitionModel, Version, is_set_aside, stored_batches
from storage_kit.directories import NOW_MS, SMALL, open_directory, purge

from simulation.disk import SimulatedDisk, SimulatedFile
from tidelog.model import PartitionId, TopicId
from tidelog.records.batch import assigned_prefix, read_header, with_log_append_time
from tidelog_broker.storage import DataDirectory, GroupCommit, Log, StorageConfig, names
from tidelog_broker.storage.frames import frames
from tidelog_broker.storage.journal import SYNCED
from tidelog_runtime.threads import BlockingCall, attempt

STATES_PER_CRASH_POINT = 8
EXPECTED = {"append", "sync", "truncate", "create", "rename", "remove", "sync_directory"}
FIRST = PartitionId(TopicId(b"a" * 16), 0)
SECOND = PartitionId(TopicId(b"b" * 16), 3)
CONFIG = StorageConfig(free_bytes_min=0, snapshot_interval_bytes=900, journal_bytes=900)
LOG_CONFIG = replace(SMALL, segment_bytes=700, retention_bytes=1500)


class Workload:
    """One process on one disk, and what is known of it."""

    def __init__(self, seed: int, *, states: int, config: StorageConfig = CONFIG) -> None:
        self.random = Random(seed)
        self.states = states
        self.config = config
        self.recoveries = 0
        self.crash_points: Counter[str] = Counter()
        self.models = {FIRST: PartitionModel(), SECOND: PartitionModel()}
        self.partition_of: dict[Log, PartitionId] = {}
        self.sequences: Counter[PartitionId] = Counter()
        self.epoch = 0
        self.now_ms = NOW_MS
        self.uuid = b""
        self.fails_to_sync: PartitionId | None = None
        self.disk = SimulatedDisk(Random(seed), observe=self.crash_here)
        self.start()

    # --- the process ---------------------------------------------------------------------------

    def start(self) -> None:
        """Open the directory and both logs."""
        self.directory = open_directory(self.disk, self.config, now_ms=self.now_ms)
        self.uuid = self.directory.storage_uuid
        self.logs = {key: self.open(key) for key in self.models}
        self.commit = GroupCommit(
            self.directory,
            threads=self,
            on_durable=self.acknowledge,
            on_fault=self.refuse_fault,
        )

    def open(self, key: PartitionId) -> Log:
        """Open one log and know it by its object."""
        log = self.directory.open_partition(key, f"topic-{key.partition}", LOG_CONFIG, now_ms=0)
        self.partition_of[log] = key
        return log

    async def run(self, calls: Sequence[BlockingCall], /) -> list[OSError | None]:
        """Syncs in threads, during which the loop goes on appending."""
        if self.random.random() < 0.3:
            key = self.random.choice(list(self.logs))
            if self.logs[key].fault is None:
                self.append(key)
        return [attempt(call) for call in calls]

    def acknowledge(self, log: Log, end: int) -> None:
        """From here on everything below `end` has been promised."""
        key = self.partition_of[log]
        if self.logs.get(key) is log:
            self.models[key].now.acked_end = end
            log.high_watermark = end

    def refuse_fault(self, log: Log, error: OSError) -> None:
        """Nothing fails here but the power, and the syncs that are told to."""
        if self.partition_of[log] is not self.fails_to_sync:
            raise AssertionError(f"{log}: {error}")

    # --- what it does --------------------------------------------------------------------------

    def append(self, key: PartitionId) -> None:
        """One batch of an idempotent or a plain producer."""
        log, version = self.logs[key], self.models[key].now
        values = [self.random.randbytes(self.random.choice((1, 30, 200)))] * self.random.randint(
            1, 3
        )
        producer = (-1, -1, -1)
        if self.random.random() < 0.7:
            producer = (7, 0, self.sequences[key])
            self.sequences[key] += len(values)
        content = batch(*values, timestamp=self.random.randint(1, 10_000), producer=producer)
        header = header_of(content)
        stamped = None
        if self.random.random() < 0.3:
            stamped = with_log_append_time(content, header, self.now_ms)
        prefix = assigned_prefix(header, log.log_end, self.epoch)
        kept = content if stamped is None else stamped + content[len(stamped) :]
        version.batches[log.log_end] = prefix + kept[len(prefix) :]
        log.append(content, header, leader_epoch=self.epoch, now_ms=self.now_ms, new_header=stamped)
        self.commit.mark_dirty(log)

    def restart_producer(self, key: PartitionId) -> None:
        """After a cut the producer goes on from what the log knows of it."""
        producers = self.logs[key].body().load_producers(self.logs[key].log_end, 0)
        known = producers.summary().get(7)
        self.sequences[key] = known[1][-1][1] + 1 if known else 0

    async def step(self) -> None:
        """One thing at random."""
        key = self.random.choice(list(self.logs))
        actions: list[tuple[int, Callable[[PartitionId], Awaitable[None] | None]]] = [
            (40, self.append),
            (14, self.drain),
            (3, self.roll),
            (3, self.checkpoint),
            (3, self.snapshot),
            (3, self.retain),
            (2, self.delete_records),
            (2, self.purge),
            (3, self.truncate),
            (1, self.reset),
            (1, self.delete),
            (1, self.stop_cleanly),
            (1, self.kill),
            (1, self.cut_power),
            (1, self.fail_sync),
        ]
        weights = [weight for weight, _ in actions]
        (_, action) = self.random.choices(actions, weights)[0]
        outcome = action(key)
        if outcome is not None:
            await outcome

    async def drain(self, _: PartitionId) -> None:
        """Group commit of everything."""
        await self.commit.drain()

    def roll(self, key: PartitionId) -> None:
        """Begin a new segment."""
        self.logs[key].roll()

    def checkpoint(self, _: PartitionId) -> None:
        """Write the watermarks."""
        self.directory.checkpoint()

    def snapshot(self, key: PartitionId) -> None:
        """Write index, producers and epochs."""
        self.logs[key].write_caches()

    def retain(self, _: PartitionId) -> None:
        """Retention by size."""
        for key, log in self.logs.items():
            version = self.models[key].now.copy()
            version.start_max = log.high_watermark
            self.models[key].begin(version)
        self.directory.run_retention(self.now_ms)
        for key, log in self.logs.items():
            self.started(key, log.log_start)

    def purge(self, _: PartitionId) -> None:
        """Remove what this process has retired, or the one before it."""
        purge(self.directory, self.now_ms)

    def delete_records(self, key: PartitionId) -> None:
        """Delete committed records."""
        log = self.logs[key]
        offset = self.random.randint(log.log_start, log.high_watermark)
        version = self.models[key].now.copy()
        version.start_max = max(offset, version.start_max)
        self.models[key].begin(version)
        log.advance_log_start(offset, now_ms=self.now_ms)
        self.started(key, log.log_start)

    def started(self, key: PartitionId, offset: int) -> None:
        """The log start is where it is, durably."""
        model = self.models[key]
        model.settle()
        model.now.start_min = model.now.start_max = offset

    def truncate(self, key: PartitionId) -> None:
        """Cut the end at a batch, and go on in a new epoch."""
        log, model = self.logs[key], self.models[key]
        bases = [base for base in model.now.batches if base >= log.log_start]
        if not bases:
            return
        end = self.random.choice(bases[-6:])
        before, after = model.now, model.now.copy()
        after.cut(end)
        before.acked_end = min(before.acked_end, end)
        model.begin(after)
        log.truncate_to(end, now_ms=self.now_ms)
        model.settle()
        after.acked_end = end
        self.epoch += 1
        self.restart_producer(key)

    def reset(self, key: PartitionId) -> None:
        """Begin anew at a higher offset."""
        log, model = self.logs[key], self.models[key]
        offset = log.log_end + self.random.randint(0, 5)
        model.now.acked_end = 0
        model.begin(Version(acked_end=offset, start_min=offset, start_max=offset))
        log.reset_to(offset, now_ms=self.now_ms)
        model.settle()
        self.epoch += 1
        self.restart_producer(key)

    def delete(self, key: PartitionId) -> None:
        """Delete the topic, and create the same partition again."""
        model = self.models[key]
        model.now.acked_end = 0
        model.begin(Version())
        del self.logs[key]
        self.directory.delete_topic(key.topic_id, now_ms=self.now_ms)
        model.settle()
        self.logs[key] = self.open(key)
        self.sequences[key] = 0

    def stop_cleanly(self, _: PartitionId) -> None:
        """Close, and open again: everything is there and believed."""
        for key, log in self.logs.items():
            model = self.models[key]
            assert log.log_end == max(
                (read_header(held).next_offset for held in model.now.batches.values()),
                default=log.log_end,
            )
        self.directory.close()
        for key, log in self.logs.items():
            self.models[key].now.acked_end = log.log_end
        self.start()
        assert self.directory.was_clean

    def kill(self, _: PartitionId) -> None:
        """The process dies; the page cache does not."""
        ends = {key: log.log_end for key, log in self.logs.items()}
        self.disk = self.disk.kill()
        self.start()
        assert {key: log.log_end for key, log in self.logs.items()} == ends
        self.settle_after_recovery()

    def cut_power(self, _: PartitionId) -> None:
        """The power goes, and the run goes on with what is left."""
        self.disk = self.disk.crash()
        self.start()
        self.settle_after_recovery()

    async def fail_sync(self, key: PartitionId) -> None:
        """A sync fails and the process starts anew: its page cache shows more than there is."""
        self.append(key)
        active = self.logs[key].body().active
        assert active is not None
        self.fails_to_sync = key
        self.disk.fail("sync", path_part=active.path)
        await self.drain(key)
        assert self.logs[key].fault is not None
        self.fails_to_sync = None
        self.disk = self.disk.kill()
        self.start()
        self.settle_after_recovery()

    def settle_after_recovery(self) -> None:
        """What recovery has found is the story from now on, and durable."""
        for key, log in self.logs.items():
            model = self.models[key]
            model.check(log)
            found = {read_header(held).base_offset: held for held in stored_batches(log)}
            below = {base: held for base, held in model.now.batches.items() if base < log.log_start}
            version = Version(below | found, log.log_end, log.log_start, log.log_start)
            model.versions = [version]
            self.restart_producer(key)
        self.epoch += 1

    # --- the crashes ---------------------------------------------------------------------------

    def crash_here(self, operation: str, path: str) -> None:
        """Recover from some of the states a power cut might leave at this moment."""
        if not self.uuid:
            return
        self.crash_points[operation] += 1
        if operation == "append" and names.journal_number(path) is not None:
            self.check_synced_frames(path)
        for _ in range(self.states):
            self.recover(Random(self.random.getrandbits(64)), f"{operation} {path}")

    def check_synced_frames(self, path: str) -> None:
        """The journal says of no byte that it is durable which is not."""
        journal = self.disk._file(path)
        for _, payload in frames(bytes(journal.content)):
            if payload[0] == SYNCED:
                assert int.from_bytes(payload[1:], "big") <= len(journal.durable)

    def recover(self, random: Random, where: str) -> None:
        """One power cut, and what is found after it."""
        disk = self.disk.possible_state(random)
        disk.observe = None
        if random.random() < 0.1:
            # A start whose port is taken: it opens no log and closes again.
            open_directory(disk, self.config).close()
        directory = open_directory(disk, self.config)
        try:
            assert directory.storage_uuid == self.uuid
            for key, model in self.models.items():
                log = directory.open_partition(key, "topic", LOG_CONFIG, now_ms=0)
                model.check(log)
            assert directory.durable_evidence_intact or any(map(is_set_aside, directory.logs()))
            if random.random() < 0.1:
                purge(directory, self.now_ms)
                assert not self.retired(disk)
            if random.random() < 0.1:
                self.recover_again(directory, disk)
        except AssertionError as error:
            raise AssertionError(f"after {where}: {error}") from error
        self.recoveries += 1

    def retired(self, disk: SimulatedDisk) -> list[str]:
        """The files that wait for their removal."""
        folders = [
            folder for key in self.models if disk.exists(folder := names.partition_folder(key))
        ]
        held = [name for folder in folders for name in disk.list_directory(folder)]
        return [name for name in held if name.endswith(names.DELETED)]

    def recover_again(self, directory: DataDirectory, disk: SimulatedDisk) -> None:
        """A crash of the recovered broker, after one more committed batch."""
        ends = {}
        for log in directory.logs():
            content = batch(b"after recovery")
            log.append(content, header_of(content), leader_epoch=log.latest_epoch + 1, now_ms=0)
            log.sync()
            ends[log.partition_id] = log.log_end
        directory.volume.journal.sync()
        again = open_directory(disk.crash(), self.config)
        for key, end in ends.items():
            log = again.open_partition(key, "topic", LOG_CONFIG, now_ms=0)
            assert log.log_end == end
            assert not log.damaged_ranges
            stored_batches(log)


def run(workload: Workload, steps: int, *, covers: Set[str] = frozenset[str]()) -> Workload:
    """Run the workload for so many steps, and on, for a while, until it has done all of these."""

    async def all_steps() -> None:
        for done in range(10 * steps):
            if done >= steps and covers <= workload.crash_points.keys():
                return
            await workload.step()

    asyncio.run(all_steps())
    return workload


@pytest.mark.parametrize("number", range(10))
def test_no_power_cut_loses_what_was_acknowledged(number: int, seed: int) -> None:
    workload = run(Workload(seed + number, states=STATES_PER_CRASH_POINT), 30, covers=EXPECTED)
    assert workload.recoveries >= 500, workload.crash_points
    assert set(workload.crash_points) >= EXPECTED


def test_recovery_that_trusts_the_page_cache_is_found_out(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedFile, "forget_cache", lambda _, __: None)
    workload = Workload(seed, states=STATES_PER_CRASH_POINT)

    async def fail_again_and_again() -> None:
        for _ in range(10):
            await workload.fail_sync(FIRST)
            await workload.drain(FIRST)

    with pytest.raises(AssertionError):
        asyncio.run(fail_again_and_again())


def test_a_sync_that_does_nothing_is_found_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimulatedFile.sync

    def sync_all_but_logs(file: SimulatedFile) -> None:
        if not file._path.endswith(".log"):
            real(file)

    monkeypatch.setattr(SimulatedFile, "sync", sync_all_but_logs)
    with pytest.raises(AssertionError):
        run(Workload(seed, states=STATES_PER_CRASH_POINT), 40)


def test_names_that_are_not_synced_are_found_out(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedDisk, "sync_directory", lambda _, __: None)
    with pytest.raises(AssertionError):
        run(Workload(seed, states=STATES_PER_CRASH_POINT), 40)
