"""A journal that ends before it ended once: no byte of a log goes, and who can tell it says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from storage_kit.batches import batch
from storage_kit.directories import (
    NOW_MS,
    PARTITION,
    append,
    commit,
    open_directory,
    open_log,
    purge,
    read_all,
)

from simulation.disk import SimulatedDisk
from tidelog.errors import LogCorrupt
from tidelog.model import PartitionId, TopicId
from tidelog_broker.storage import DataDirectory, Log, names
from tidelog_broker.storage.journal import CUT, DELETE, RESET, key_of
from tidelog_runtime.adapters.local_disk import LocalDisk

KNOWN, START, END = 10, 20, 30
LARGE = bytes(len(batch(b"")) * 8)

#: What may have become of the journal behind some byte.
SPOILT: dict[str, Callable[[bytes, int], bytes]] = {
    "cut between frames": lambda content, at: content[:at],
    "cut in a frame": lambda content, at: content[: at + 3],
    "zeroes": lambda content, at: content[:at].ljust(len(content), b"\0"),
}


def frames_of(content: bytes) -> list[tuple[int, int]]:
    """Where each frame begins, and its kind."""
    found = []
    position = 6
    while position < len(content):
        found.append((position, content[position + 8]))
        position += 8 + int.from_bytes(content[position : position + 4], "big")
    return found


def behind(content: bytes, kind: int) -> int:
    """Where the first frame of this kind, and the one behind it, have ended."""
    kinds = [found for _, found in frames_of(content)]
    return frames_of(content)[kinds.index(kind) + 2][0]


def written(folder: Path) -> tuple[DataDirectory, Log]:
    """A log from `START` to `END` of several segments, of which all was acknowledged."""
    directory = open_directory(LocalDisk(folder))
    log = open_log(directory)
    while log.log_end < END:
        append(log, LARGE)
        commit(directory, log)
    log.advance_log_start(START, now_ms=NOW_MS)
    assert log.body().segments[0].base_offset == START
    assert len(log.body().segments) > 1
    return directory, log


def spoil(folder: Path, how: str) -> None:
    """All that the journal says behind the end at `KNOWN` is gone."""
    (journal,) = folder.glob("journal-*")
    content = journal.read_bytes()
    last = key_of(PARTITION) + KNOWN.to_bytes(8, "big")
    journal.write_bytes(SPOILT[how](content, content.index(last) + len(last)))


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("is_clean", [True, False])
def test_an_end_that_other_files_tell_of_is_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_clean: bool, how: str
) -> None:
    directory, log = written(tmp_path)
    if is_clean:
        directory.close()
    else:
        directory.checkpoint()
        directory.abandon()
    spoil(tmp_path, how)
    for _ in range(3):
        directory = open_directory(LocalDisk(tmp_path))
        log = open_log(directory)
        assert (log.log_start, log.log_end, log.damaged_ranges) == (START, END, [])
        assert len(read_all(log)) == END - START
        directory.abandon()
    (told,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert told.getMessage().startswith("the journal is damaged")


@pytest.mark.parametrize("how", SPOILT)
def test_an_end_that_nothing_tells_of_costs_no_byte(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    directory, _ = written(tmp_path)
    directory.abandon()
    spoil(tmp_path, how)
    held = sorted(path.read_bytes() for path in tmp_path.glob("topics/*/0/*.log"))
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert not directory.durable_evidence_intact
    assert f"begins at offset {START} on this disk" in caplog.text
    aside = tmp_path.glob(f"topics/*/0/*{names.ASIDE}")
    assert sorted(path.read_bytes() for path in aside) == held
    assert log.log_end == KNOWN
    with pytest.raises(LogCorrupt):
        log.read(0, 1, end=KNOWN)
    assert append(log, LARGE) == KNOWN
    directory.close()


def test_what_is_set_aside_replaces_nothing(tmp_path: Path) -> None:
    directory, log = written(tmp_path)
    first = log.body().segments[0]
    kept = Path(tmp_path / f"{first.path}.1{names.ASIDE}")
    kept.write_bytes(b"from another time")
    assert first.set_aside().endswith(f".2{names.ASIDE}")
    assert kept.read_bytes() == b"from another time"
    directory.abandon()


def test_a_cut_that_was_done_is_not_done_again(tmp_path: Path) -> None:
    """Its end is lost, and the marker of the clean stop knows of it."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    append(log, *([LARGE] * 10))
    append(log, LARGE)
    commit(directory, log)
    log.truncate_to(10, now_ms=NOW_MS)
    append(log, *([LARGE] * 5), epoch=1)
    commit(directory, log)
    directory.close()
    (journal,) = tmp_path.glob("journal-*")
    content = journal.read_bytes()
    journal.write_bytes(SPOILT["zeroes"](content, behind(content, CUT)))
    for _ in range(2):
        directory = open_directory(LocalDisk(tmp_path))
        assert open_log(directory).log_end == 15
        directory.abandon()


@pytest.mark.parametrize("name", ["leader-epochs", names.WATERMARKS])
def test_the_version_of_what_the_logs_tell_as_well_may_be_spoilt(tmp_path: Path, name: str) -> None:
    directory, log = written(tmp_path)
    log.write_caches()
    directory.checkpoint()
    directory.abandon()
    (file,) = tmp_path.rglob(name)
    content = bytearray(file.read_bytes())
    content[5] ^= 4
    file.write_bytes(content)
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert (log.log_end, log.damaged_ranges) == (END, [])
    directory.close()


def announced(*, is_synced: bool) -> SimulatedDisk:
    """A process has ended between the announcement of a deletion and the deletion itself."""
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    append(log, b"old")
    commit(directory, log)
    directory.volume.journal.sync()
    directory.volume.journal.write(DELETE, [(PARTITION, log.journal_key, 0)])
    if is_synced:
        directory.volume.journal.sync()
    return disk.kill()


def test_a_deletion_that_was_not_durable_is_so_before_anything_goes() -> None:
    disk = announced(is_synced=False)
    states: list[SimulatedDisk] = []
    random = Random(2)

    def keep_some(_operation: str, _path: str) -> None:
        states.extend(disk.possible_state(random) for _ in range(8))

    disk.observe = keep_some
    open_directory(disk)
    assert len(states) > 40
    ends = set()
    for state in states:
        state.observe = None
        log = open_log(open_directory(state))
        assert not log.damaged_ranges
        ends.add(log.log_end)
    assert ends == {0, 1}


def test_a_deletion_that_a_start_has_finished_is_not_taken_back() -> None:
    """The journal forgets it with its next file: the names have to be durable by then."""
    disk = announced(is_synced=True)
    directory = open_directory(disk)
    assert directory.stored_partitions() == []
    journal = directory.volume.journal
    journal._bytes_max = 0
    journal.begin_anew_if_due()
    journal.sync()
    for seed in range(50):
        assert open_directory(disk.possible_state(Random(seed))).stored_partitions() == []


def test_the_next_journal_says_nothing_of_the_one_before() -> None:
    directory = open_directory(SimulatedDisk(Random(1)))
    log = open_log(directory)
    append(log, b"x")
    commit(directory, log)
    journal = directory.volume.journal
    journal.sync()
    number, position = journal.mark
    assert position > 0
    journal._bytes_max = 0
    journal.begin_anew_if_due()
    assert journal.mark == (number + 1, 0)
    journal.sync()
    assert journal.mark.position > 0


def test_of_what_came_while_a_sync_ran_nothing_is_claimed() -> None:
    directory = open_directory(SimulatedDisk(Random(1)))
    log = open_log(directory)
    journal = directory.volume.journal
    begun = journal.begin_sync()
    end = journal._file.size
    append(log, b"x")
    log.sync()
    directory.journal_ends()
    begun.run()
    journal.finish_sync(begun)
    assert journal.mark.position == end < journal._file.size


@pytest.mark.parametrize("kind", [CUT, RESET])
def test_what_a_damaged_journal_says_of_a_cut_is_not_done_again(tmp_path: Path, kind: int) -> None:
    """That it was done is among what is lost, and the watermarks prove that something is."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    append(log, *([LARGE] * 10))
    append(log, LARGE)
    commit(directory, log)
    (log.truncate_to if kind == CUT else log.reset_to)(10, now_ms=NOW_MS)
    append(log, *([LARGE] * 5), epoch=1)
    commit(directory, log)
    directory.volume.journal.sync()
    directory.checkpoint()
    directory.abandon()
    (journal,) = tmp_path.glob("journal-*")
    content = journal.read_bytes()
    journal.write_bytes(content[: behind(content, kind)])
    directory = open_directory(LocalDisk(tmp_path))
    assert open_log(directory).log_end == 15
    assert not directory.durable_evidence_intact
    directory.close()


def test_a_gap_is_not_the_end_where_the_journal_is_damaged(tmp_path: Path) -> None:
    directory, log = written(tmp_path)
    directory.checkpoint()
    missing = log.body().segments[5]
    following = log.body().segments[6].base_offset
    directory.abandon()
    spoil(tmp_path, "cut between frames")
    (tmp_path / missing.path).unlink()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert log.log_end == END
    (damaged,) = log.damaged_ranges
    assert (damaged.start_offset, damaged.end_offset) == (missing.base_offset, following)
    directory.close()


def test_a_lost_journal_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next one has another number than the one that the watermarks tell of."""
    directory, _ = written(tmp_path)
    directory.checkpoint()
    directory.abandon()
    (journal,) = tmp_path.glob("journal-*")
    journal.unlink()
    for _ in range(3):
        directory = open_directory(LocalDisk(tmp_path))
        assert open_log(directory).log_end == END
        directory.abandon()
    (told,) = caplog.messages
    assert told.startswith("the journal is lost")


@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_a_deletion_that_is_lost_is_not_waited_for(tmp_path: Path, is_checkpointed: bool) -> None:
    """Nobody will open a log of a topic that is gone, to prove anything of it."""
    directory, log = written(tmp_path)
    other = PartitionId(TopicId(b"o" * 16), 0)
    gone = open_log(directory, partition_id=other)
    append(gone, LARGE)
    commit(directory, gone)
    directory.volume.journal.sync()
    directory.checkpoint()
    directory.delete_topic(other.topic_id, now_ms=NOW_MS)
    commit(directory, log)
    if is_checkpointed:
        directory.checkpoint()
    directory.abandon()
    (journal,) = tmp_path.glob("journal-*")
    content = bytearray(journal.read_bytes())
    (at,) = (position for position, kind in frames_of(bytes(content)) if kind == DELETE)
    content[at + 12] ^= 1
    journal.write_bytes(content)
    directory = open_directory(LocalDisk(tmp_path))
    open_log(directory)
    directory.close()
    directory = open_directory(LocalDisk(tmp_path))
    assert directory.was_clean
    directory.close()


def test_of_a_deleted_topic_no_folder_stays() -> None:
    disk = announced(is_synced=True)
    directory = open_directory(disk)
    purge(directory)
    assert disk.list_directory(names.TOPICS) == []
    directory.close()


def test_an_announcement_claims_nothing_while_another_sync_may_have_failed() -> None:
    """The system tells of an error once, and who began that sync has not heard of it yet."""
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    append(log, LARGE)
    commit(directory, log)
    journal = directory.volume.journal
    claimed = journal.mark
    begun = journal.begin_sync()
    disk.fail("sync", path_part=names.journal(claimed.number))
    with pytest.raises(OSError, match="Input/output error"):
        begun.run()
    log.advance_log_start(1, now_ms=NOW_MS)
    assert journal.mark == claimed


def test_a_sync_that_could_not_be_tried_is_under_way_no_more() -> None:
    directory = open_directory(SimulatedDisk(Random(1)))
    log = open_log(directory)
    append(log, LARGE)
    commit(directory, log)
    journal = directory.volume.journal
    journal.begin_sync()
    journal.take_back_sync()
    assert journal.dirty
    journal.sync()
    assert journal.mark.position == journal._file.size


def test_an_announcement_is_told_once_no_other_sync_is_under_way() -> None:
    """And until then the journal before this one stays: a sync that failed may need it."""
    disk = SimulatedDisk(Random(1))
    directory = open_directory(disk)
    log = open_log(directory)
    append(log, LARGE)
    commit(directory, log)
    journal = directory.volume.journal
    journal.sync()
    journal._bytes_max = 0
    journal.begin_anew_if_due()
    begun = journal.begin_sync()
    log.advance_log_start(1, now_ms=NOW_MS)
    files = [name for name in disk.list_directory("") if names.journal_number(name) is not None]
    assert len(files) == 2
    assert journal.mark.position == 0
    begun.run()
    journal.finish_sync(begun)
    assert journal.mark.position == journal._file.size
    assert not disk.exists(files[0])


def test_what_others_keep_in_the_folder_of_a_topic_stays(tmp_path: Path) -> None:
    """As the hint of a log that can't be read says: move the partition's folder away."""
    directory, _ = written(tmp_path)
    other = PartitionId(PARTITION.topic_id, 1)
    open_log(directory, partition_id=other)
    directory.delete_partition(other, now_ms=NOW_MS)
    directory.close()
    (folder,) = tmp_path.glob("topics/*/0")
    moved = folder.rename(f"{folder}.moved")
    held = sorted(path.name for path in moved.iterdir())
    directory = open_directory(LocalDisk(tmp_path))
    purge(directory)
    assert sorted(path.name for path in moved.iterdir()) == held
    directory.close()


def test_a_deletion_before_what_a_damaged_journal_has_lost_is_not_done_again(
    tmp_path: Path,
) -> None:
    directory, log = written(tmp_path)
    directory.delete_partition(PARTITION, now_ms=NOW_MS)
    log = open_log(directory)
    append(log, b"of another life")
    commit(directory, log)
    directory.volume.journal.sync()
    directory.checkpoint()
    directory.abandon()
    (journal,) = tmp_path.glob("journal-*")
    content = journal.read_bytes()
    journal.write_bytes(content[: behind(content, DELETE)])
    directory = open_directory(LocalDisk(tmp_path))
    assert open_log(directory).log_end == 1
    directory.close()
