"""What no checksum of a batch covers: its offset and its leader epoch, and one bit of them spoilt.

A batch carries both in front of its CRC, for the broker to write. What tells that one is wrong are
the batches beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random
from typing import Final

import pytest
from storage_kit.batches import headers
from storage_kit.directories import SMALL, append, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import LogCorrupt, StorageError
from tidelog_broker.storage import DataDirectory, Log, LogConfig

COUNT: Final = 10
SPOILT: Final = 4
NO_INDEX: Final = LogConfig(index_interval_bytes=1 << 20)
#: Bits of a batch's head: of its base offset, the last of which is byte 7, and of its epoch.
FOUR_IS_SIX: Final = 7 * 8 + 1
FOUR_IS_8196: Final = 6 * 8 + 5
FOUR_IS_ZERO: Final = 7 * 8 + 2
FOUR_IS_NEGATIVE: Final = 7
EPOCH_IS_HIGH: Final = 12 * 8 + 6
EPOCH_IS_LOW: Final = 15 * 8 + 0
OFFSETS: Final = (FOUR_IS_SIX, FOUR_IS_8196, FOUR_IS_ZERO, FOUR_IS_NEGATIVE)

Restart = Callable[[DataDirectory, SimulatedDisk], SimulatedDisk]


def goes_on(_directory: DataDirectory, disk: SimulatedDisk) -> SimulatedDisk:
    return disk


def stops(directory: DataDirectory, disk: SimulatedDisk) -> SimulatedDisk:
    directory.close()
    return disk.kill()


def is_killed(_directory: DataDirectory, disk: SimulatedDisk) -> SimulatedDisk:
    return disk.kill()


def spoilt(
    restart: Restart, bit: int, *, at: int = SPOILT, config: LogConfig = SMALL
) -> tuple[DataDirectory, Log]:
    """A log of which one bit is turned while it is open, or before it is opened again."""
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, config)
    for number in range(COUNT):
        append(log, b"%d" % number, epoch=5)
    commit(directory, log)
    directory.volume.journal.sync()
    segment = log.body().segments[0]
    position = next(position for position, header in segment.walk() if header.base_offset == at)
    after = restart(directory, disk)
    after.flip_bit(segment.path, bit=position * 8 + bit)
    if after is not disk:
        directory = open_directory(after)
        log = open_log(directory, config)
    return directory, log


def read(log: Log, max_bytes: int) -> tuple[list[int], list[int]]:
    """The offsets that readers are given, and those at which they are told of damage."""
    found: list[int] = []
    refused: list[int] = []
    offset = 0
    while offset < log.log_end:
        with contextlib.suppress(LogCorrupt):
            found += [
                one.base_offset for one in headers(log.read(offset, max_bytes, end=log.log_end))
            ]
            offset = found[-1] + 1
            continue
        with pytest.raises(LogCorrupt) as damage:
            log.read(offset, max_bytes, end=log.log_end)
        refused.append(offset)
        assert damage.value.next_offset is not None
        offset = damage.value.next_offset
    return found, refused


@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("bit", [*OFFSETS, EPOCH_IS_HIGH])
@pytest.mark.parametrize("restart", [goes_on, stops])
def test_a_reader_is_told_of_it(restart: Restart, bit: int, max_bytes: int) -> None:
    directory, log = spoilt(restart, bit)
    found, refused = read(log, max_bytes)
    assert found == list(range(SPOILT))
    assert refused == [SPOILT]
    assert not log.evidence_intact
    assert not directory.durable_evidence_intact


@pytest.mark.parametrize("bit", OFFSETS)
def test_a_lookup_passes_over_no_wrong_offset(bit: int) -> None:
    _, log = spoilt(goes_on, bit, config=NO_INDEX)
    with pytest.raises(LogCorrupt, match="damaged at byte"):
        log.read(SPOILT + 2, 1 << 20, end=COUNT)


@pytest.mark.parametrize("bit", [*OFFSETS, EPOCH_IS_HIGH, EPOCH_IS_LOW])
def test_a_start_refuses_that_batch_and_serves_the_others(bit: int) -> None:
    directory, log = spoilt(is_killed, bit)
    assert [(one.start_offset, one.end_offset) for one in log.damaged_ranges] == [
        (SPOILT, SPOILT + 1)
    ]
    good = [offset for offset in range(COUNT) if offset != SPOILT]
    assert read(log, 1 << 20) == (good, [SPOILT])
    assert append(log, b"new", epoch=6) == COUNT
    commit(directory, log)
    assert read(log, 200) == ([*good, COUNT], [SPOILT])


def test_an_epoch_that_nothing_belies_keeps_appends_out_in_words() -> None:
    _, log = spoilt(is_killed, EPOCH_IS_HIGH, at=COUNT - 1)
    size = log.body().size_bytes
    for _ in range(2):
        with pytest.raises(StorageError, match="epoch 1073741829, and takes none of epoch 6"):
            append(log, b"new", epoch=6)
    assert (log.log_end, log.fault, log.body().size_bytes) == (COUNT, None, size)
    assert read(log, 1 << 20) == (list(range(COUNT)), [])
