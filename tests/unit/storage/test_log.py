"""A log is appended, rolled, read, closed and opened again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from storage_kit.batches import batch, header_of, headers
from storage_kit.directories import (
    NOW_MS,
    SMALL,
    append,
    commit,
    open_directory,
    open_log,
    read_all,
)

from tidelog.errors import MessageTooLarge, OffsetOutOfRange
from tidelog_broker.storage import LogConfig, StorageConfig
from tidelog_runtime.adapters.local_disk import LocalDisk


def test_offsets_follow_each_other_across_segments(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    assert append(log, b"a", b"b", b"c", epoch=4) == 0
    assert append(log, b"d", epoch=4) == 3
    for number in range(40):
        append(log, b"v%d" % number, epoch=5)
    assert log.log_end == 44
    assert len(log.body().segments) > 2
    found = read_all(log)
    assert [header.base_offset for header in found] == [0, *range(3, 44)]
    assert {header.leader_epoch for header in found} == {4, 5}
    assert log.size_bytes == sum(header.size for header in found)
    assert log.end_offset_for_epoch(4) == (4, 4)
    assert log.end_offset_for_epoch(5) == (5, 44)
    assert log.end_offset_for_epoch(6) == (5, 44)
    assert log.end_offset_for_epoch(-1) == (-1, -1)
    directory.close()


def test_batches_that_claim_to_be_endless_leave_the_log_usable(tmp_path: Path) -> None:
    """Compressed, their headers can claim any number of records: only readers look inside."""
    claims = bytearray(batch(b"a"))
    claims[21:23] = (1).to_bytes(2, "big")  # gzip
    claims[23:27] = (2**31 - 2).to_bytes(4, "big")  # the last offset
    claims[57:61] = (2**31 - 1).to_bytes(4, "big")  # the number of records
    content = bytes(claims)
    large = LogConfig(index_interval_bytes=150)
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, large)
    for _ in range(10):
        log.append(content, header_of(content), leader_epoch=0, now_ms=NOW_MS)
    end = append(log, b"after")
    assert end == 10 * (2**31 - 1)
    commit(directory, log)
    directory.abandon()

    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, large)
    assert log.log_end == end + 1
    assert append(log, b"and after that") == end + 1
    assert headers(log.read(end, 1000, end=log.log_end))[0].base_offset == end
    directory.close()


@pytest.mark.parametrize("max_bytes", [1, 75, 200, 10_000])
def test_reads_return_whole_batches_from_any_offset(tmp_path: Path, max_bytes: int) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for number in range(25):
        append(log, b"a%d" % number, b"b%d" % number)
    for offset in range(log.log_end):
        found = headers(log.read(offset, max_bytes, end=log.log_end))
        assert found[0].base_offset == offset - offset % 2
        assert sum(header.size for header in found) <= max(max_bytes, found[0].size)
        for before, after in pairwise(found):
            assert after.base_offset == before.next_offset
    directory.close()


def test_reads_end_where_they_are_told_to(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(index_interval_bytes=150))
    for number in range(25):
        append(log, b"a%d" % number, b"b%d" % number)
    for end in range(0, 51, 2):
        found = headers(log.read(0, 1 << 20, end=end))
        assert len(found) == end // 2
    # An end inside a batch leaves that batch out.
    assert len(headers(log.read(0, 1 << 20, end=7))) == 3
    assert log.read(50, 100, end=50) == b""
    assert log.read(0, 10, end=50, at_least_one=False) == b""
    with pytest.raises(OffsetOutOfRange, match="51"):
        log.read(51, 100, end=50)
    with pytest.raises(OffsetOutOfRange):
        log.read(-1, 100, end=50)
    directory.close()


def test_reads_until_an_offset_take_the_batch_that_holds_the_one_before_it(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(index_interval_bytes=150, segment_bytes=1_000))
    for number in range(25):
        append(log, b"a%d" % number, b"b%d" % number)
    assert len(log.body().segments) > 2
    for offset in range(49):
        for until in range(offset + 1, 52):
            reached = offset
            while reached < min(until, 50):
                found = headers(log.read(reached, 300, end=50, until=until))
                assert found[-1].base_offset < until
                assert found[0].base_offset == reached - reached % 2
                reached = found[-1].next_offset
            assert reached == min(until + until % 2, 50)
    assert len(headers(log.read(0, 1 << 20, end=4, until=9))) == 2
    directory.close()


def test_what_is_measured_is_what_is_read(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(index_interval_bytes=150, segment_bytes=1_000))
    for number in range(25):
        append(log, b"a%d" % number, b"b%d" % number)
    bases = [segment.base_offset for segment in log.body().segments[1:]]
    assert len(bases) > 1
    for offset in range(50):
        for end in range(0, 51, 2):
            for until in (None, *range(offset + 1, 52)):
                size, grows = log.measure(offset, end=end, until=until)
                read = log.read(offset, 1 << 20, end=end, until=until)
                assert size == len(read)
                is_cut = any(offset < base < end for base in bases)
                is_all = until is not None and until <= end
                assert grows == (not read or not (is_cut or is_all))
    directory.close()


def test_clean_stop_opens_nothing_and_forgets_nothing(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    for number in range(30):
        append(log, b"v%d" % number, epoch=3, producer=(7, 1, number))
    log.high_watermark = 25
    expected = log.body().load_producers(log.log_end, NOW_MS).summary()
    size_bytes = log.size_bytes
    directory.close()

    directory = open_directory(LocalDisk(tmp_path))
    assert directory.was_clean
    assert directory.durable_evidence_intact
    log = open_log(directory)
    assert len(directory.volume.files) == 0
    assert (log.log_start, log.high_watermark, log.durable_end, log.log_end) == (0, 25, 30, 30)
    assert (log.size_bytes, log.latest_epoch) == (size_bytes, 3)
    assert [header.base_offset for header in read_all(log)] == list(range(30))
    assert log.check_producer(header_of(batch(b"x", producer=(7, 1, 30)))) == ()
    producers = log.body().producers
    assert producers is not None
    assert producers.summary() == expected
    assert append(log, b"next", epoch=3) == 30
    assert log.read(30, 1, end=31)[-5:-1] == b"next"
    directory.close()


def test_segments_roll_by_time(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(segment_ms=1000))
    append(log, now_ms=NOW_MS)
    append(log, now_ms=NOW_MS + 999)
    append(log, now_ms=NOW_MS + 1000)
    assert [segment.base_offset for segment in log.body().segments] == [0, 2]
    directory.close()


def test_segment_bytes_that_are_exactly_filled(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    size = len(batch(b"12345"))
    log = open_log(directory, LogConfig(segment_bytes=2 * size))
    for _ in range(5):
        append(log, b"12345")
    assert [segment.size for segment in log.body().segments] == [2 * size, 2 * size, size]
    directory.close()


def test_a_batch_larger_than_the_topic_allows_is_refused(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(max_message_bytes=100))
    with pytest.raises(MessageTooLarge, match="above max"):
        append(log, b"x" * 100)
    assert log.log_end == 0
    directory.close()


def test_replicated_batches_keep_offset_and_epoch(tmp_path: Path) -> None:
    source = open_directory(LocalDisk(tmp_path / "leader"))
    copy = open_directory(LocalDisk(tmp_path / "follower"))
    leader, follower = open_log(source), open_log(copy)
    for number in range(20):
        append(leader, b"v%d" % number, epoch=number // 5, producer=(1, 0, number))
    offset = 0
    while offset < leader.log_end:
        content = leader.read(offset, 300, end=leader.log_end)
        position = 0
        for header in headers(content):
            one = memoryview(content)[position : position + header.size]
            follower.append_replicated(one, header, now_ms=NOW_MS)
            position += header.size
        offset = follower.log_end
    assert [vars_of(found) for found in read_all(follower)] == [
        vars_of(found) for found in read_all(leader)
    ]
    assert follower.body().epochs.lines() == leader.body().epochs.lines()
    mine, theirs = follower.body().producers, leader.body().producers
    assert mine is not None
    assert theirs is not None
    assert mine.summary() == theirs.summary()
    source.close()
    copy.close()


def vars_of(header: object) -> str:
    """All that a header shows."""
    return repr(header)


def test_ten_thousand_replicas_fit_the_open_files(tmp_path: Path) -> None:
    directory = open_directory(
        LocalDisk(tmp_path), StorageConfig(max_open_files=3, free_bytes_min=0)
    )
    log = open_log(directory, SMALL)
    for number in range(60):
        append(log, b"v%d" % number)
    assert len(log.body().segments) > 4
    log.sync()
    assert [header.base_offset for header in read_all(log)] == list(range(60))
    assert len(directory.volume.files) <= 3
    directory.close()
