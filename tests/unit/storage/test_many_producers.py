"""However many producers write to a log, what it remembers of them is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.directories import append, commit, open_directory, open_log

from tidelog.errors import UnknownProducerId
from tidelog_broker.storage import Log, StorageConfig
from tidelog_broker.storage.producer_state import Duplicate
from tidelog_runtime.adapters.local_disk import LocalDisk

LIMIT = 50
CONFIG = StorageConfig(free_bytes_min=0, producer_ids_max=LIMIT, snapshot_interval_bytes=2_000)
LIVELY = 7


def known(log: Log) -> list[int]:
    producers = log.body().load_producers(log.log_end, 0)
    return sorted(producers.summary())


def fill(log: Log, count: int) -> None:
    """That many producers that send once, and one that goes on."""
    for number in range(count):
        append(log, producer=(1_000 + number, 0, 0))
        append(log, producer=(LIVELY, 0, number))


@pytest.mark.parametrize("cleanly", [True, False])
def test_those_that_were_silent_for_longest_are_forgotten(tmp_path: Path, cleanly: bool) -> None:
    directory = open_directory(LocalDisk(tmp_path), CONFIG)
    log = open_log(directory)
    fill(log, 400)
    producers = log.body().producers
    assert producers is not None
    assert LIMIT * 0.9 <= len(producers) <= LIMIT
    ids = sorted(producers.summary())
    assert ids == [LIVELY, *range(1_400 - len(ids) + 1, 1_400)]
    lively = log.check_producer(header_of(batch(producer=(LIVELY, 0, 398))))
    assert isinstance(lively, Duplicate)
    with pytest.raises(UnknownProducerId):
        log.check_producer(header_of(batch(producer=(1_000, 0, 1))))
    commit(directory, log)
    directory.close() if cleanly else directory.abandon()
    directory = open_directory(LocalDisk(tmp_path), CONFIG)
    again = known(open_log(directory))
    assert len(again) <= LIMIT
    assert set(ids[-40:]) <= set(again)
    directory.close()


def test_a_limit_that_was_lowered_holds_for_what_is_known_already(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path), StorageConfig(free_bytes_min=0))
    fill(open_log(directory), 400)
    directory.close()
    directory = open_directory(LocalDisk(tmp_path), CONFIG)
    assert LIVELY in known(open_log(directory))
    assert len(known(open_log(directory))) <= LIMIT
    directory.close()
