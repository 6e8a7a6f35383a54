"""Looking a log up by time: by the producers' clocks, or the broker's where it stamps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from storage_kit.batches import batch, header_of, headers
from storage_kit.directories import NOW_MS, SMALL, append, open_directory, open_log

from tidelog.records.batch import with_log_append_time
from tidelog_broker.storage import Log
from tidelog_runtime.adapters.local_disk import LocalDisk


def append_stamped(log: Log, content: bytes, now_ms: int) -> None:
    """As the leader of a topic with LogAppendTime does."""
    header = header_of(content)
    stamped = with_log_append_time(content, header, now_ms)
    log.append(content, header, leader_epoch=0, now_ms=now_ms, new_header=stamped)


def test_log_append_time_replaces_the_header_alone(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory)
    content = batch(b"value", timestamp=5)
    append_stamped(log, content, NOW_MS)
    stored = log.read(0, 1 << 20, end=1)
    assert headers(stored)[0].max_timestamp == NOW_MS
    assert stored[61:] == content[61:]
    assert log.max_timestamp(1) == (0, NOW_MS, 0)
    directory.close()


@pytest.mark.parametrize("sent", [5, NOW_MS + 10**9], ids=["an old record", "one of the future"])
def test_where_the_broker_stamps_its_time_alone_counts(tmp_path: Path, sent: int) -> None:
    """For lookups, live and from the files, and for retention."""
    day_ms = 86_400_000
    config = replace(SMALL, retention_ms=day_ms)
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, config)
    for number in range(40):
        append_stamped(log, batch(b"value", timestamp=sent), NOW_MS + number)

    def check() -> None:
        assert log.max_timestamp(log.log_end) == (39, NOW_MS + 39, 0)
        assert log.offset_for_timestamp(0) == (0, NOW_MS, 0)
        assert log.offset_for_timestamp(NOW_MS + 30) == (30, NOW_MS + 30, 0)
        assert log.offset_for_timestamp(NOW_MS + 40) is None
        assert log.retention_point(NOW_MS + day_ms) is None

    log.high_watermark = log.log_end
    check()
    directory.close()
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, config)
    check()
    assert log.retention_point(NOW_MS + day_ms + 40) == 40
    directory.close()


def test_the_largest_timestamp_is_one_of_what_is_committed(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, SMALL)
    random = Random(5)
    stamps = [random.randrange(1000) for _ in range(60)]
    for stamp in stamps:
        append(log, timestamp=stamp)
    for start in (0, 20, 41):
        log.high_watermark = log.log_end
        log.advance_log_start(start, now_ms=NOW_MS)
        for end in range(61):
            held = stamps[start:end]
            expected = (start + held.index(max(held)), max(held)) if held else None
            found = log.max_timestamp(end)
            assert (None if found is None else found[:2]) == expected, (start, end)
    directory.close()


def test_timestamps_may_jump(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, SMALL)
    random = Random(3)
    timestamps = [random.randrange(1000) for _ in range(80)]
    for timestamp in timestamps:
        append(log, timestamp=timestamp)
    for asked in range(-1, 1002, 7):
        expected = next((at for at, one in enumerate(timestamps) if one >= asked), None)
        found = log.offset_for_timestamp(asked)
        assert (None if found is None else found.offset) == expected
    highest = log.max_timestamp(log.log_end)
    assert highest is not None
    assert highest[:2] == (timestamps.index(max(timestamps)), max(timestamps))
    directory.close()
