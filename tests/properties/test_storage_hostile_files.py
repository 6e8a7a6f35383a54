"""Files that somebody else has written on: typed errors, bounded memory, nothing else.

TIDELOG_TEST_HOSTILE=100000 chooses more rounds than the usual ones, here 2 x 50000.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import tracemalloc
from collections.abc import Iterator

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.directories import NOW_MS, SMALL, commit, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.errors import TidelogError
from tidelog.records.compression import Compression
from tidelog_broker.storage import Log, StorageConfig

CONFIG = StorageConfig(free_bytes_min=0, snapshot_interval_bytes=900)
MEMORY_BYTES_MAX = 16 << 20
ROUNDS = int(os.environ.get("TIDELOG_TEST_HOSTILE", "500")) // 2


def written(cleanly: bool) -> dict[str, bytes]:
    """The files of a small data directory, by path."""
    disk = SimulatedDisk(random.Random(1))
    directory = open_directory(disk, CONFIG)
    log = open_log(directory)
    for number in range(40):
        content = batch(
            b"value %d" % number * 5,
            producer=(number % 3, 0, number // 3),
            compression=Compression(number % 5),
        )
        log.append(content, header_of(content), leader_epoch=number // 15, now_ms=NOW_MS)
    commit(directory, log)
    if cleanly:
        directory.close()
    else:
        directory.abandon()
    return files_below(disk, "")


def files_below(disk: SimulatedDisk, folder: str) -> dict[str, bytes]:
    """Every file in a folder, with its content."""
    found = {}
    for name in disk.list_directory(folder):
        path = f"{folder}/{name}" if folder else name
        try:
            found[path] = disk.read_bytes(path)
        except IsADirectoryError:
            found.update(files_below(disk, path))
    return found


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The content with something wrong with it."""
    changed = bytearray(content)
    kind = draw.choice(("flip", "flip", "numbers", "cut", "insert", "swap", "zeros", "garbage"))
    at = draw.randrange(len(changed)) if changed else 0
    if kind == "flip" and changed:
        changed[at] ^= 1 << draw.randrange(8)
    elif kind == "numbers":
        changed[at : at + 4] = draw.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
    elif kind == "cut":
        del changed[at:]
    elif kind == "insert":
        changed[at:at] = draw.randbytes(draw.randrange(1, 200))
    elif kind == "swap":
        half = len(changed) // 2
        changed = changed[half:] + changed[:half]
    elif kind == "zeros":
        changed += bytes(draw.randrange(1, 2000))
    elif kind == "garbage":
        changed[at:] = draw.randbytes(len(changed) - at)
    return bytes(changed)


def use(log: Log) -> None:
    """Everything a broker does with a log; each may refuse."""
    offset = log.log_start
    while offset < log.log_end:
        try:
            content = log.read(offset, 500, end=log.log_end)
        except TidelogError:
            offset += 1
            continue
        offset += max(1, len(content) // 100)
    for attempt in (
        lambda: log.offset_for_timestamp(500),
        lambda: log.max_timestamp(log.log_end),
        lambda: log.check_producer(header_of(batch(producer=(1, 0, 13)))),
        lambda: log.append(
            batch(), header_of(batch()), leader_epoch=max(log.latest_epoch, 9), now_ms=NOW_MS
        ),
        lambda: log.truncate_to(max(log.log_start, log.log_end - 3), now_ms=NOW_MS),
    ):
        with contextlib.suppress(TidelogError):
            attempt()


@pytest.fixture
def unlogged() -> Iterator[None]:
    """What is said of each round would be kept by pytest, and count as memory of the log's."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("cleanly", [True, False])
def test_any_file_may_hold_anything(cleanly: bool, random_source: random.Random) -> None:
    files = written(cleanly)
    tracemalloc.start()
    try:
        for _ in range(ROUNDS):
            disk = SimulatedDisk(random.Random(1))
            victims = random_source.sample(sorted(files), random_source.choice((1, 1, 2)))
            for path, content in files.items():
                disk.make_directory(path.rpartition("/")[0])
                file = disk.open(path, create=True)
                file.append([mutated(content, random_source) if path in victims else content])
            with contextlib.suppress(TidelogError):
                directory = open_directory(disk, CONFIG)
                use(open_log(directory, SMALL))
                directory.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_BYTES_MAX
