"""A journal that a medium has spoilt: what it can't tell is no reason to remove what logs hold."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from storage_kit.batches import batch
from storage_kit.directories import (
    NOW_MS,
    TOPIC_ID,
    append,
    commit,
    open_directory,
    open_log,
    read_all,
)

from tidelog.errors import LogCorrupt
from tidelog.model import PartitionId
from tidelog_broker.storage import DataDirectory, Log, names
from tidelog_broker.storage.journal import JournalState
from tidelog_runtime.adapters.local_disk import LocalDisk

START, END = 20, 30
OTHER = PartitionId(TOPIC_ID, 1)
LARGE = bytes(len(batch(b"")) * 8)


def written(folder: Path, *, cleanly: bool) -> Path:
    """Two logs of several segments, one of which was cut at its beginning; the journal's file."""
    directory = open_directory(LocalDisk(folder))
    logs = [open_log(directory), open_log(directory, partition_id=OTHER)]
    for log in logs:
        for _ in range(10):
            append(log, LARGE)
        commit(directory, log)
    directory.close()
    directory = open_directory(LocalDisk(folder))
    logs = [open_log(directory), open_log(directory, partition_id=OTHER)]
    for round_end in (START, END):
        for log in logs:
            while log.log_end < round_end:
                append(log, LARGE)
            commit(directory, log)
        logs[0].advance_log_start(START, now_ms=NOW_MS)
    assert logs[0].body().segments[0].base_offset == START
    assert len(logs[0].body().segments) > 1
    directory.close() if cleanly else directory.abandon()
    (journal,) = folder.glob("journal-*")
    return journal


def check(log: Log, start: int) -> None:
    """Everything that was acknowledged and not deleted is there."""
    assert log.log_end == END
    assert log.log_start <= start
    for offset in range(log.log_start, start):
        with pytest.raises(LogCorrupt):
            log.read(offset, 1, end=END)
    log.log_start = start
    assert [header.base_offset for header in read_all(log)] == list(range(start, END))


def reopened(folder: Path) -> DataDirectory:
    directory = open_directory(LocalDisk(folder))
    check(open_log(directory), START)
    check(open_log(directory, partition_id=OTHER), 0)
    return directory


def spoilt(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


@pytest.mark.parametrize("cleanly", [True, False])
def test_any_byte_of_it_may_be_spoilt(tmp_path: Path, cleanly: bool) -> None:
    first = written(tmp_path / "0", cleanly=cleanly)
    for at in range(6, first.stat().st_size, 3):
        folder = tmp_path / f"{at}"
        journal = written(folder, cleanly=cleanly)
        journal.write_bytes(spoilt(journal.read_bytes(), at))
        reopened(folder).abandon()
        reopened(folder).close()
        reopened(folder).close()


def frame_ends(content: bytes) -> list[int]:
    ends = [6]
    while ends[-1] < len(content):
        ends.append(ends[-1] + 8 + int.from_bytes(content[ends[-1] : ends[-1] + 4], "big"))
    return ends


def test_a_clean_stop_is_believed_all_the_same_and_the_damage_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = written(tmp_path, cleanly=True)
    content = journal.read_bytes()
    journal.write_bytes(spoilt(content, frame_ends(content)[2] - 1))
    directory = open_directory(LocalDisk(tmp_path))
    assert directory.was_clean
    assert "the journal is damaged" in caplog.text
    log = open_log(directory)
    assert (log.log_start, log.log_end, log.damaged_ranges) == (START, END, [])
    # It stays whole though nobody looked into it before the next kill.
    directory.abandon()
    caplog.clear()
    directory = open_directory(LocalDisk(tmp_path))
    assert directory.durable_evidence_intact
    assert caplog.text == ""
    log = open_log(directory)
    assert (log.log_start, log.log_end, log.damaged_ranges) == (START, END, [])
    directory.close()


def test_what_was_lost_is_remembered_until_every_log_was_recovered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = written(tmp_path, cleanly=False)
    content = journal.read_bytes()
    ends = frame_ends(content)
    begin, end = ends[1], ends[-3]  # all that tells of the first log's second half
    journal.write_bytes(content[:begin] + bytes(end - begin) + content[end:])
    open_directory(LocalDisk(tmp_path)).abandon()
    assert "the journal is damaged" in caplog.text
    directory = open_directory(LocalDisk(tmp_path))
    check(open_log(directory), START)
    directory.abandon()
    reopened(tmp_path).close()


def unreadable_from(journal: Path, position: int) -> None:
    """All of it behind some position is zeroes."""
    content = journal.read_bytes()
    journal.write_bytes(content[:position].ljust(len(content), b"\0"))


@pytest.mark.parametrize("is_last_told", [True, False])
def test_what_was_announced_and_cannot_be_read_is_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_last_told: bool
) -> None:
    """Unless nothing says any more that it was durable once."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for _ in range(START):
        append(log, LARGE)
    commit(directory, log)
    log.advance_log_start(START, now_ms=NOW_MS)
    directory.abandon()
    (journal,) = tmp_path.glob("journal-*")
    content = journal.read_bytes()
    *_, begin, end, _ = frame_ends(content)
    journal.write_bytes(spoilt(content, end - 1))
    if not is_last_told:
        unreadable_from(journal, begin)
    directory = open_directory(LocalDisk(tmp_path))
    assert ("the journal is damaged" in caplog.text) is is_last_told
    assert directory.durable_evidence_intact is not is_last_told
    open_log(directory)
    directory.close()


def test_a_torn_gap_is_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A power cut may keep later sectors of what was not synced, and lose earlier ones."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    append(log, LARGE)
    commit(directory, log)
    directory.volume.journal.sync()
    (journal,) = tmp_path.glob("journal-*")
    begin = journal.stat().st_size
    for _ in range(2):
        append(log, LARGE)
        log.sync()
        directory.journal_ends()
    directory.abandon()
    content = journal.read_bytes()
    journal.write_bytes(spoilt(content, begin + 30))
    directory = open_directory(LocalDisk(tmp_path))
    assert directory.durable_evidence_intact
    assert caplog.text == ""
    assert open_log(directory).log_end == 3
    directory.close()


def test_where_the_end_is_torn_a_log_does_not_begin_behind_what_was_lost(tmp_path: Path) -> None:
    """A power cut kept the name of the second segment alone: nothing in it was acknowledged."""
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for _ in range(10):
        append(log, LARGE)
    directory.abandon()
    (journal,) = tmp_path.glob("journal-*")
    with journal.open("ab") as file:
        file.write(b"\0\0\0\x1dtorn")
    first, *others = sorted(tmp_path.glob("topics/*/0/*.log"))
    assert others
    first.unlink()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert (log.log_start, log.log_end, log.damaged_ranges) == (0, 0, [])
    directory.close()


def test_a_torn_end_is_what_a_power_cut_leaves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = written(tmp_path, cleanly=False)
    content = journal.read_bytes()
    journal.write_bytes(content[: frame_ends(content)[-2] + 3] + bytes(4096))
    directory = reopened(tmp_path)
    assert directory.durable_evidence_intact
    assert caplog.text == ""
    directory.close()


def write_acknowledged(folder: Path) -> None:
    """A log up to `END`, of which the watermarks tell, and an unclean stop."""
    directory = open_directory(LocalDisk(folder))
    log = open_log(directory)
    for _ in range(END):
        append(log, LARGE)
    commit(directory, log)
    (folder / names.WATERMARKS).write_bytes(directory.watermarks_content())
    directory.abandon()


def lose(journal: Path, how: str) -> None:
    """Takes its beginning, and so all that it says."""
    if how == "missing":
        journal.unlink()
    else:
        journal.write_bytes(spoilt(journal.read_bytes(), {"magic": 0, "state": 20}[how]))


@pytest.mark.parametrize("how", ["magic", "state", "missing"])
@pytest.mark.parametrize("cleanly", [True, False])
def test_a_journal_that_is_lost_is_told_and_the_logs_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cleanly: bool, how: str
) -> None:
    lose(written(tmp_path, cleanly=cleanly), how)
    reopened(tmp_path).abandon()
    (told,) = caplog.messages
    assert told.startswith("the journal is lost, or can't be read from its beginning on")
    reopened(tmp_path).close()
    caplog.clear()
    reopened(tmp_path).close()
    assert not caplog.messages


@pytest.mark.parametrize("what", ["byte", "file"])
@pytest.mark.parametrize("opened_at_once", [True, False])
def test_without_a_journal_what_was_acknowledged_is_damaged_and_not_gone(
    tmp_path: Path, opened_at_once: bool, what: str
) -> None:
    """Two files are spoilt: the journal, and a log that nobody else vouches for."""
    write_acknowledged(tmp_path)
    (journal,) = tmp_path.glob("journal-*")
    lose(journal, "magic")
    first, *others = sorted(tmp_path.glob("topics/*/0/*.log"))
    assert others
    if what == "byte":
        first.write_bytes(spoilt(first.read_bytes(), 30))
        damaged = (0, 1)
    else:
        first.unlink()
        damaged = (int(others[0].stem), 0)
    if not opened_at_once:
        open_directory(LocalDisk(tmp_path)).abandon()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert log.log_end == END
    if what == "byte":
        assert [(found.start_offset, found.end_offset) for found in log.damaged_ranges] == [damaged]
        log.log_start = 1
    else:
        assert log.log_start == damaged[0]
    assert [header.base_offset for header in read_all(log)] == list(range(log.log_start, END))
    directory.close()


@pytest.mark.parametrize("what", ["topics/*/0/*.log", "topics/*/0", "topics/*", "topics"])
@pytest.mark.parametrize("opened_at_once", [True, False])
def test_without_a_journal_a_log_without_files_goes_on_where_it_ended(
    tmp_path: Path, opened_at_once: bool, what: str
) -> None:
    write_acknowledged(tmp_path)
    for spoiled in (*tmp_path.glob("journal-*"), *tmp_path.glob(what)):
        shutil.rmtree(spoiled) if spoiled.is_dir() else spoiled.unlink()
    if not opened_at_once:
        open_directory(LocalDisk(tmp_path)).abandon()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert log.log_end == END
    with pytest.raises(LogCorrupt):
        log.read(0, 1, end=END)
    assert append(log, LARGE) == END
    directory.close()


def test_a_watermark_that_is_older_than_a_cut_proves_nothing(tmp_path: Path) -> None:
    """A power cut tears the journal's end; what it says of the cut is whole."""
    write_acknowledged(tmp_path)
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    log.truncate_to(4, now_ms=NOW_MS)
    append(log, b"instead", epoch=1)
    commit(directory, log)
    directory.volume.journal.sync()
    directory.abandon()
    (journal,) = tmp_path.glob("journal-*")
    with journal.open("ab") as file:
        file.write(b"\0\0\0\x1dtorn")
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert (log.log_end, log.damaged_ranges) == (5, [])
    directory.close()


def test_a_cut_claims_nothing_for_a_log_that_was_never_synced() -> None:
    """A power cut between the cut and its end would leave less than was claimed: damage."""
    state = JournalState()
    state.take_cut(OTHER, 3)
    assert state.ends[OTHER] == 0
    state.take_end(OTHER, 5)
    state.take_cut(OTHER, 7)
    assert state.ends[OTHER] == 5
    state.take_cut(OTHER, 3)
    assert state.ends[OTHER] == 3
