"""Planted bugs: small changes of the real code, each of which breaks a promise.

A mutant that no seed finds is a hole in the simulation. Each is a context in which the broker
misbehaves; the faults that bring it to light are named with it. They are planted in the sources
(`planting`): what is compiled can't be changed from here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tidelog.model import PartitionId
from tidelog_broker.partition.partition import Partition
from tidelog_broker.partition.waiting import CommitQueue
from tidelog_broker.storage import group_commit
from tidelog_broker.storage.batch_reader import BatchReader
from tidelog_broker.storage.data_directory import DataDirectory
from tidelog_broker.storage.group_commit import GroupCommit
from tidelog_broker.storage.journal import STARTS
from tidelog_broker.storage.log import Log
from tidelog_broker.storage.log_state import LogState
from tidelog_broker.storage.log_sync import SyncTicket
from tidelog_broker.storage.open_files import NO_DESCRIPTOR, OpenFile
from tidelog_broker.storage.producer_state import FRESH, Producer, ProducerStates
from tidelog_broker.storage.recovery import Recovery
from tidelog_broker.storage.segment import Segment
from tidelog_broker.storage.volume import Volume

Plant = Callable[[], contextlib.AbstractContextManager[Any]]
Entries = Iterable[tuple[PartitionId, bytes, int]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug."""

    name: str
    plant: Plant
    faults: tuple[str, ...]
    #: Where to begin to look, so that the test is quick.
    first_seed: int = 0


def _acknowledged_on_append() -> contextlib.AbstractContextManager[Any]:
    """Produce does not wait for the commit."""
    return mock.patch.object(CommitQueue, "wait", return_value=None)


def _watermark_moves_on_append() -> contextlib.AbstractContextManager[Any]:
    """What is written counts as durable, whatever the flush policy."""
    always = property(lambda log: True, lambda log, value: None)
    return mock.patch.object(LogState, "is_acknowledged_unsynced", always)


def _producers_forgotten_at_restart() -> contextlib.AbstractContextManager[Any]:
    original = LogState.recover

    def recover(log: LogState, *args: Any) -> int:
        scanned = original(log, *args)
        log.body().producers = ProducerStates(20_000)
        return scanned

    return mock.patch.object(LogState, "recover", recover)


def _nothing_is_a_duplicate() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(ProducerStates, "check", return_value=FRESH)


def _window_of_none() -> contextlib.AbstractContextManager[Any]:
    """A repeated batch is out of order instead of a duplicate."""
    return mock.patch.object(Producer, "find", return_value=None)


def _recovery_keeps_a_torn_tail() -> contextlib.AbstractContextManager[Any]:
    """What is torn stays in the file, and the next batch goes behind it."""
    return mock.patch.object(Segment, "cut")


def _recovery_cuts_at_the_journalled_end() -> contextlib.AbstractContextManager[Any]:
    """As if the journal never lagged behind what was acknowledged."""
    original = Recovery._follows

    def follows(self: Recovery, header: Any) -> bool:
        return header.base_offset < self._durable and original(self, header)

    return mock.patch.object(Recovery, "_follows", follows)


def _journal_not_synced_before_a_cut() -> contextlib.AbstractContextManager[Any]:
    def announce(volume: Volume, kind: int, entries: Entries) -> None:
        volume.journal.write(kind, entries)

    return mock.patch.object(Volume, "announce", announce)


def _duplicate_answered_before_it_is_durable() -> contextlib.AbstractContextManager[Any]:
    original = Partition.append

    def append(partition: Partition, *args: Any, **named: Any) -> Any:
        done = original(partition, *args, **named)
        if done.duplicate:
            done.end_offset = 0
        return done

    return mock.patch.object(Partition, "append", append)


def _readers_see_above_the_watermark() -> contextlib.AbstractContextManager[Any]:
    original = Log.read

    def read(log: Log, offset: int, max_bytes: int, **named: Any) -> bytes:
        return original(log, offset, max_bytes, **(named | {"end": log.log_end}))

    return mock.patch.object(Log, "read", read)


def _folders_not_synced() -> contextlib.AbstractContextManager[Any]:
    """The files of new partitions and segments are synced, their names are not."""
    original = LogState.begin_sync

    def begin_sync(log: LogState, **named: Any) -> SyncTicket:
        ticket = original(log, **named)
        ticket.directories.clear()
        return ticket

    return mock.patch.object(LogState, "begin_sync", begin_sync)


def _rolled_segments_not_synced() -> contextlib.AbstractContextManager[Any]:
    """Only the active segment is synced."""
    original = LogState.begin_sync

    def begin_sync(log: LogState, **named: Any) -> SyncTicket:
        ticket = original(log, **named)
        forgotten: list[OpenFile] = ticket.slots[:-1]
        del ticket.slots[:-1]
        for slot in forgotten:
            log._volume.files.unpin(slot)
        return ticket

    return mock.patch.object(LogState, "begin_sync", begin_sync)


def _log_start_not_journalled() -> contextlib.AbstractContextManager[Any]:
    original = Volume.announce

    def announce(volume: Volume, kind: int, entries: Entries) -> None:
        if kind != STARTS:
            original(volume, kind, entries)

    return mock.patch.object(Volume, "announce", announce)


def _recovery_trusts_the_page_cache() -> contextlib.AbstractContextManager[Any]:
    """What a failed sync left in memory alone counts as durable after a restart."""

    def stay(reader: BatchReader, _: int) -> None:
        reader.reads_medium = True

    return mock.patch.object(BatchReader, "turn_to_medium", stay)


def _producers_expire_by_the_wall_clock() -> contextlib.AbstractContextManager[Any]:
    """A jump of the clock ages producers by as much."""
    original = DataDirectory.run_retention
    seen_ms: dict[int, int] = {}

    def run_retention(directory: DataDirectory, now_ms: int, logs: Sequence[Log]) -> int:
        for log in logs:
            passed_ms = now_ms - seen_ms.get(id(log), now_ms)
            seen_ms[id(log)] = now_ms
            log.expire_producers(max(passed_ms, 0))
        return original(directory, now_ms, logs)

    return mock.patch.object(DataDirectory, "run_retention", run_retention)


def _untried_sync_counts() -> contextlib.AbstractContextManager[Any]:
    """What could not be opened passes for synced."""
    original = GroupCommit._finish

    def finish(commit: GroupCommit, log: Log, ticket: SyncTicket, error: OSError | None) -> None:
        was_tried = error is None or error.errno not in NO_DESCRIPTOR
        original(commit, log, ticket, error if was_tried else None)

    return mock.patch.object(GroupCommit, "_finish", finish)


def _no_descriptor_is_a_fault() -> contextlib.AbstractContextManager[Any]:
    """A log whose sync can't begin takes no more writes."""
    return mock.patch.object(group_commit, "NO_DESCRIPTOR", frozenset())


CRASHES = ("kill", "power", "slow_disk")

MUTANTS = (
    Mutant("acknowledged on append", _acknowledged_on_append, CRASHES, 7),
    Mutant("watermark moves on append", _watermark_moves_on_append, CRASHES, 7),
    Mutant("producers forgotten at restart", _producers_forgotten_at_restart, ("kill",)),
    Mutant("nothing is a duplicate", _nothing_is_a_duplicate, ("kill", "cut")),
    Mutant("dedupe window of none", _window_of_none, ("kill", "cut")),
    Mutant("recovery keeps a torn tail", _recovery_keeps_a_torn_tail, CRASHES, 230),
    Mutant("recovery cuts too much", _recovery_cuts_at_the_journalled_end, CRASHES),
    Mutant("journal not synced before a cut", _journal_not_synced_before_a_cut, CRASHES),
    Mutant("duplicate answered early", _duplicate_answered_before_it_is_durable, CRASHES, 25),
    Mutant("readers see too much", _readers_see_above_the_watermark, CRASHES),
    Mutant("folders not synced", _folders_not_synced, CRASHES),
    Mutant("rolled segments not synced", _rolled_segments_not_synced, CRASHES),
    Mutant("log start not journalled", _log_start_not_journalled, CRASHES),
    Mutant("page cache trusted", _recovery_trusts_the_page_cache, ("failed_sync", "power")),
    Mutant("untried sync counts", _untried_sync_counts, ("no_descriptors", "power")),
    Mutant("no descriptor is a fault", _no_descriptor_is_a_fault, ("no_descriptors",)),
    Mutant("producers age by the clock", _producers_expire_by_the_wall_clock, ("clock",)),
)
