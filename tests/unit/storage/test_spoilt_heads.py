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
from storage_kit.directories import (
    NOW_MS,
    PARTITION,
    SMALL,
    append,
    commit,
    open_directory,
    open_log,
)

from simulation.disk import SimulatedDisk
from tidelog.errors import LogCorrupt, StorageError
from tidelog_broker.storage import DataDirectory, Log, LogConfig, names

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


def test_a_reader_that_comes_through_a_hint_is_told_too() -> None:
    """65 to 80 spoilt to 64 to 79: whole, true to its CRC, and around the offset asked for."""
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for count in (64, 1, 16, 16):
        append(log, *[b"v"] * count)
    commit(directory, log)
    (_, _), (_, first), (position, second), _ = log.body().segments[0].walk()
    assert (first.base_offset, second.base_offset) == (64, 65)
    assert headers(log.read(64, 1, end=log.log_end))[0].next_offset == 65
    disk.flip_bit(log.body().segments[0].path, bit=position * 8 + 7 * 8)
    for offset in (65, 70):
        with pytest.raises(LogCorrupt, match="damaged at byte"):
            log.read(offset, 1 << 20, end=log.log_end)


@pytest.mark.parametrize("spoilt_one", [1, 2], ids=["the first of an epoch", "the one behind it"])
def test_of_two_epochs_that_differ_the_third_batch_tells_which_is_spoilt(spoilt_one: int) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for epoch in (4, 4, 4, 4, 4) if spoilt_one == 1 else (4, 5, 5, 5, 5):
        append(log, b"v", epoch=epoch)
    commit(directory, log)
    directory.volume.journal.sync()
    segment = log.body().segments[0]
    position, _ = list(segment.walk())[spoilt_one]
    disk = disk.kill()
    disk.flip_bit(segment.path, bit=(position + 15) * 8)
    log = open_log(open_directory(disk), NO_INDEX)
    ranges = [(one.start_offset, one.end_offset) for one in log.damaged_ranges]
    assert ranges == [(spoilt_one, spoilt_one + 1)]


def test_an_epoch_at_the_end_of_a_segment_is_belied_by_the_next_segment() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for number in range(COUNT):
        if number == SPOILT + 1:
            log.roll()
        append(log, b"v", epoch=5)
    commit(directory, log)
    directory.volume.journal.sync()
    segment = log.body().segments[0]
    *_, (position, _) = segment.walk()
    disk = disk.kill()
    for name in disk.list_directory(names.partition_folder(PARTITION)):
        if not name.endswith(".log"):  # a power cut may have taken the caches
            disk.remove(f"{names.partition_folder(PARTITION)}/{name}")
    disk.flip_bit(segment.path, bit=position * 8 + EPOCH_IS_HIGH)
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    assert read(log, 1 << 20) == ([one for one in range(COUNT) if one != SPOILT], [SPOILT])
    append(log, b"new", epoch=6)


@pytest.mark.parametrize("bit", [23 * 8 + 7, 26 * 8 + 1], ids=["negative", "too low"])
def test_a_last_offset_that_ends_a_segment_too_early_stops_no_reader_without_a_word(
    bit: int,
) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for _ in range(2):
        append(log, *[b"v"] * 4)
        log.roll()
    append(log, *[b"v"] * 4)
    commit(directory, log)
    segment = log.body().segments[1]
    disk.flip_bit(segment.path, bit=bit)
    with pytest.raises(LogCorrupt) as damage:
        log.read(7, 1 << 20, end=log.log_end)
    assert damage.value.next_offset == 8
    with pytest.raises(LogCorrupt) as damage:
        log.measure(7, end=log.log_end, until=None)
    assert damage.value.next_offset == 8


def test_a_lookup_by_time_answers_no_spoilt_offset() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, LogConfig(index_interval_bytes=1))
    for number in range(COUNT):
        append(log, b"v", timestamp=1_000 + number)
    commit(directory, log)
    segment = log.body().segments[0]
    position, _ = list(segment.walk())[SPOILT]
    disk.flip_bit(segment.path, bit=position * 8 + FOUR_IS_8196)
    with pytest.raises(LogCorrupt):
        log.offset_for_timestamp(1_000 + SPOILT)


def test_zeroes_that_reach_into_the_next_head_lend_no_record_another_offset() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for number in range(3):
        append(log, b"%d" % number)
    commit(directory, log)
    directory.volume.journal.sync()
    path = log.body().segments[0].path
    (_, _), (second, _), _ = log.body().segments[0].walk()
    disk = disk.kill()
    disk.flip_bit(path, bit=(second - 1) * 8)
    disk.flip_bit(path, bit=(second + 7) * 8)
    log = open_log(open_directory(disk), NO_INDEX)
    assert read(log, 1 << 20) == ([2], [0])


def test_a_cut_amid_offsets_that_are_lost_leaves_a_log_that_goes_on() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for _ in range(3):
        for _ in range(4):
            append(log, b"v")
        log.roll()
    append(log, b"v")
    commit(directory, log)
    directory.volume.journal.sync()
    lost = log.body().segments[1].path
    disk = disk.kill()
    disk.remove(lost)
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    log.truncate_to(6, now_ms=NOW_MS)
    for offset in (6, 7):
        assert append(log, b"new") == offset
    commit(directory, log)
    directory.volume.journal.sync()
    for _ in range(2):
        assert read(log, 1 << 20) == ([0, 1, 2, 3, 6, 7], [4])
        disk = disk.kill()
        log = open_log(open_directory(disk), NO_INDEX)


def test_an_epoch_that_nothing_belies_keeps_appends_out_in_words() -> None:
    _, log = spoilt(is_killed, EPOCH_IS_HIGH, at=COUNT - 1)
    size = log.body().size_bytes
    for _ in range(2):
        with pytest.raises(StorageError, match="epoch 1073741829, and takes none of epoch 6"):
            append(log, b"new", epoch=6)
    assert (log.log_end, log.fault, log.body().size_bytes) == (COUNT, None, size)
    assert read(log, 1 << 20) == (list(range(COUNT)), [])


@pytest.mark.parametrize(
    ("epochs", "known", "later"),
    [
        ([0] * 9, (5, 7 * 8 + 6), (3, 40 * 8)),
        ([4] * 4 + [6] * 5, (5, 15 * 8 + 1), (6, 40 * 8)),
    ],
    ids=["offsets", "epochs"],
)
def test_what_is_known_to_be_spoilt_bears_no_witness_against_others(
    epochs: list[int], known: tuple[int, int], later: tuple[int, int]
) -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for epoch in epochs:
        append(log, b"v", epoch=epoch)
    commit(directory, log)
    directory.volume.journal.sync()
    segment = log.body().segments[0]
    positions = [position for position, _ in segment.walk()]
    for at, bit in (known, later):
        disk = disk.kill()
        folder = names.partition_folder(PARTITION)
        for name in disk.list_directory(folder):
            if name not in {names.DAMAGED, segment.path.rpartition("/")[2]}:
                disk.remove(f"{folder}/{name}")
        disk.flip_bit(segment.path, bit=positions[at] * 8 + bit)
        log = open_log(open_directory(disk), NO_INDEX)
    ranges = sorted((one.start_offset, one.end_offset) for one in log.damaged_ranges)
    assert ranges == sorted((at, at + 1) for at in (known[0], later[0]))


def test_an_epoch_that_is_found_while_the_log_is_opened_keeps_appends_out_too() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory, NO_INDEX)
    for _ in range(COUNT):
        append(log, b"v", epoch=5)
    commit(directory, log)
    segment = log.body().segments[0]
    positions = [position for position, _ in segment.walk()]
    directory.close()
    disk = disk.kill()
    disk.flip_bit(segment.path, bit=positions[-1] * 8 + EPOCH_IS_HIGH)
    disk.flip_bit(segment.path, bit=positions[SPOILT] * 8 + FOUR_IS_SIX)
    log = open_log(open_directory(disk), NO_INDEX)
    with pytest.raises(StorageError, match="takes none of epoch 5"):
        append(log, b"new", epoch=5)
    assert log.body().size_bytes == positions[-1] + (positions[1] - positions[0])


def test_nothing_is_measured_below_the_start_of_an_emptied_log() -> None:
    directory = open_directory(SimulatedDisk(Random(1)))
    log = open_log(directory)
    append(log, b"v")
    commit(directory, log)
    log.advance_log_start(1, now_ms=NOW_MS)
    assert log.measure(0, end=1, until=None) == (0, True)
    assert log.evidence_intact
