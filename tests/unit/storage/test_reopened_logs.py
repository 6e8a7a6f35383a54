"""What a log still knows, and no longer believes, when it is opened again."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest
from storage_kit.batches import batch, header_of, headers
from storage_kit.directories import NOW_MS, TOPIC_ID, append, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import LogCorrupt
from tidelog.records.batch import with_log_append_time
from tidelog_broker.storage import Duplicate
from tidelog_runtime.adapters.local_disk import LocalDisk

FOLDER = f"topics/{TOPIC_ID.hex()}/0"
#: The base offset of a batch stands at its beginning.
A_NEGATIVE_OFFSET = struct.pack(">q", -5)
AN_OFFSET_FAR_AWAY = struct.pack(">q", 1 << 60)


def test_a_repeat_after_a_crash_is_answered_with_the_first_append_time() -> None:
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    content = batch(b"a", producer=(1, 0, 0))
    header = header_of(content)
    stamped = with_log_append_time(content, header, NOW_MS)
    log.append(content, header, leader_epoch=0, now_ms=NOW_MS, new_header=stamped)
    commit(directory, log)
    log = open_log(open_directory(disk.crash(), now_ms=NOW_MS + 500), now_ms=NOW_MS + 500)
    assert log.check_producer(header) == Duplicate(0, 0, NOW_MS)


@pytest.mark.parametrize("place", [0, 1])
def test_a_segment_that_went_missing_while_stopped_is_told_to_readers(
    tmp_path: Path, place: int
) -> None:
    """Without this a reader waited for ever in the gap, or was led across it without a word."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for number in range(60):
        append(log, b"v%d" % number)
    commit(directory, log)
    missing = log.body().segments[place].base_offset
    directory.close()
    (tmp_path / f"{FOLDER}/{missing:020d}.log").unlink()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    with pytest.raises(LogCorrupt):
        log.read(missing, 1000, end=60)
    assert log.log_end == 60
    directory.close()


def test_damage_at_the_end_of_what_is_wanted_is_not_met_before_it(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for number in range(60):
        append(log, b"v%d" % number)
    commit(directory, log)
    first, second = log.body().segments[:2]
    found = first.locate(second.base_offset - 2)
    assert found is not None
    directory.close()
    path = tmp_path / FOLDER / f"{first.base_offset:020d}"
    with path.with_suffix(".log").open("r+b") as file:
        file.seek(found[0])
        file.write(b"rot" * 20)
    for ending in (".index", ".timeindex"):
        path.with_suffix(ending).unlink()
    log = open_log(open_directory(LocalDisk(tmp_path)))
    until = second.base_offset - 1
    assert headers(log.read(0, 100, end=60, until=until))[0].base_offset == 0
    with pytest.raises(LogCorrupt):
        log.read(until - 1, 100, end=60, until=until)


@pytest.mark.parametrize("rot", [b"rot" * 20, A_NEGATIVE_OFFSET, AN_OFFSET_FAR_AWAY])
def test_damage_that_only_a_read_finds_says_where_to_read_on(
    tmp_path: Path, rot: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the place a reader could not go on; without the check the index raised its own."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for number in range(60):
        append(log, b"v%d" % number)
    commit(directory, log)
    first, second = log.body().segments[:2]
    found = first.locate(second.base_offset - 1)
    assert found is not None
    directory.close()
    path = tmp_path / FOLDER / f"{first.base_offset:020d}"
    with path.with_suffix(".log").open("r+b") as file:
        file.seek(found[0])
        file.write(rot)
    for ending in (".index", ".timeindex"):
        path.with_suffix(ending).unlink()
    log = open_log(open_directory(LocalDisk(tmp_path)))
    assert headers(log.read(0, 100, end=60))[0].base_offset == 0
    for offset in (second.base_offset - 1, second.base_offset - 1):
        with pytest.raises(LogCorrupt, match=f"Read on from offset {second.base_offset}") as raised:
            log.read(offset, 100, end=60)
        assert raised.value.next_offset == second.base_offset
    assert caplog.text.count("found damage") == 1
    assert headers(log.read(second.base_offset, 100, end=60))[0].base_offset == second.base_offset
