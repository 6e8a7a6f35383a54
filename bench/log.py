"""What storage costs: an append, a read, and a commit beside the bare system calls it stands on.

`run` gives rows for the bench runner. Commit rows alternate with their reference in the same
directory, since one sync costs something else on every disk and every minute.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import NamedTuple

from bench.measuring import Row, row, with_ratio
from tidelog.model import PartitionId, TopicId
from tidelog.records.batch import read_header
from tidelog.records.builder import BatchBuilder
from tidelog_broker.broker import SYNC_THREADS
from tidelog_broker.storage import (
    DataDirectory,
    FlushPolicy,
    GroupCommit,
    Log,
    LogConfig,
    StorageConfig,
)
from tidelog_runtime.adapters.kernel_syncs import KernelSyncs
from tidelog_runtime.adapters.local_disk import LocalDisk

_TOPIC = TopicId(b"bench log topic!")
_MEBIBYTE = 1 << 20
_COMMIT_SECONDS = 0.7


class _Load(NamedTuple):
    """What producers keep waiting at any time."""

    partitions: int
    size: int
    in_flight: int

    def __str__(self) -> str:
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{partitions}, {self.in_flight} batches of {self.size:,} B waiting on each"


_LOADS = (
    _Load(1, _MEBIBYTE - 100, 2),
    _Load(1, 1000, 2),
    _Load(1, 1000, 32),
    _Load(100, 10_000, 2),
)


def run(repeat: int) -> list[Row]:
    """Measure everything `repeat` times; medians with the lowest and highest."""
    rows = [
        row(
            "log append, 100 B batch, 1,000 partitions",
            "us",
            [_append_us(100) for _ in range(repeat)],
        ),
        row("log append, 1 MiB batches", "MB/s", [_append_rate() for _ in range(repeat)]),
        row("log read, 1 MiB at a time", "MB/s", [_read_rate() for _ in range(repeat)]),
    ]
    for load in _LOADS:
        rows += _commit_rows(load, repeat)
    rows += _start_rows(repeat)
    return rows


@contextmanager
def _directory(policy: FlushPolicy = FlushPolicy.OS) -> Iterator[DataDirectory]:
    root = tempfile.mkdtemp(prefix="tidelog-bench-", dir=os.environ.get("TIDELOG_BENCH_DIR"))
    directory = _open(root, policy)
    try:
        yield directory
    finally:
        directory.close()
        shutil.rmtree(root)


def _open(root: str, policy: FlushPolicy) -> DataDirectory:
    config = StorageConfig(flush_policy=policy)
    return DataDirectory.open(
        LocalDisk(root), config, new_storage_uuid=b"bench storage id", now_ms=1
    )


def _logs(directory: DataDirectory, count: int) -> list[Log]:
    return [
        directory.open_partition(PartitionId(_TOPIC, number), "bench", LogConfig(), now_ms=1)
        for number in range(count)
    ]


def _batch(size: int) -> bytes:
    builder = BatchBuilder(64 * _MEBIBYTE)
    builder.append(os.urandom(size), None, (), 1)
    return builder.build()


def _append_us(size: int) -> float:
    """Microseconds an append, one to each of many partitions as in one produce request."""
    content = _batch(size)
    header = read_header(content)
    with _directory() as directory:
        logs = _logs(directory, 1000)
        best = float("inf")
        for _ in range(6):
            begin = time.perf_counter()
            for log in logs:
                log.append(content, header, leader_epoch=0, now_ms=1)
            best = min(best, time.perf_counter() - begin)
        return best / len(logs) * 1e6


def _append_rate() -> float:
    content = _batch(_MEBIBYTE - 100)
    header = read_header(content)
    with _directory() as directory:
        (log,) = _logs(directory, 1)
        begin = time.perf_counter()
        for _ in range(256):
            log.append(content, header, leader_epoch=0, now_ms=1)
        return log.size_bytes / (time.perf_counter() - begin) / 1e6


def _read_rate() -> float:
    content = _batch(10_000)
    header = read_header(content)
    with _directory() as directory:
        (log,) = _logs(directory, 1)
        for _ in range(20_000):
            log.append(content, header, leader_epoch=0, now_ms=1)
        begin = time.perf_counter()
        offset = read = 0
        while offset < log.log_end:
            piece = log.read(offset, _MEBIBYTE, end=log.log_end)
            read += len(piece)
            offset += len(piece) // len(content)
        return read / (time.perf_counter() - begin) / 1e6


def _commit_rows(load: _Load, repeat: int) -> list[Row]:
    """Bytes a second that are durable, by group commit and by the barest loop that could be.

    The loop appends the same batches, as many bytes a sync as the group commit had in its rounds,
    to as many files and with as many threads to sync them. A second loop puts the same bytes into
    one file by one write: what a journal of all data would cost, were all of it there at once.
    """
    ours, bare, single, cached = [], [], [], []
    for _ in range(repeat):
        rate, bytes_a_sync = asyncio.run(_group_commit_rate(load))
        ours.append(rate)
        bare.append(_bare_rate(bytes_a_sync, load.partitions, load.size))
        single.append(_bare_rate(bytes_a_sync, 1, int(bytes_a_sync)))
        cached.append(_cached_rate(load))
    smaller = [min(pair) for pair in zip(bare, cached, strict=True)]
    commit = row(f"flush.policy=commit, {load}", "MB/s", ours)
    rows = [
        with_ratio(commit, f"the smaller of loop and os, {load}", ours, smaller),
        row(f"append + fdatasync loop, {load}", "MB/s", bare),
        row(f"flush.policy=os, {load}", "MB/s", cached),
    ]
    if load.partitions > 1 or load.in_flight > 2:
        rows.append(row(f"one write of all + fdatasync loop into one file, {load}", "MB/s", single))
    return rows


class _Producers:
    """Some batches of each partition in flight: the next is appended when one is acknowledged."""

    def __init__(self, directory: DataDirectory, load: _Load) -> None:
        self.logs = _logs(directory, load.partitions)
        self.content = _batch(load.size)
        self.header = read_header(self.content)
        self.acknowledged = 0
        self.begin = 0.0
        self.done = asyncio.Event()
        self.commit: GroupCommit | None = None

    def send(self, log: Log) -> None:
        assert self.commit is not None
        log.append(self.content, self.header, leader_epoch=0, now_ms=1)
        self.commit.mark_dirty(log)

    def on_durable(self, log: Log, end: int) -> None:
        count = end - log.high_watermark
        log.high_watermark = end
        self.acknowledged += count
        if not self.begin:
            return
        if time.perf_counter() - self.begin > _COMMIT_SECONDS:
            self.done.set()
            return
        for _ in range(count):
            self.send(log)


async def _group_commit_rate(load: _Load) -> tuple[float, float]:
    """(MB/s, bytes a round)."""
    with (
        _directory(FlushPolicy.COMMIT) as directory,
        closing(KernelSyncs(SYNC_THREADS)) as threads,
    ):
        producers = _Producers(directory, load)
        commit = GroupCommit(
            directory, threads=threads, on_durable=producers.on_durable, on_fault=_fault
        )
        producers.commit = commit
        runner = asyncio.create_task(commit.run())
        # The first round also makes files and folders durable, which the loop does not do.
        for log in producers.logs:
            producers.send(log)
        await commit.drain()
        producers.acknowledged, before = 0, commit.rounds
        producers.begin = time.perf_counter()
        for log in producers.logs:
            for _ in range(load.in_flight):
                producers.send(log)
        await producers.done.wait()
        seconds = time.perf_counter() - producers.begin
        rounds = commit.rounds - before
        await commit.drain()
        runner.cancel()
        total = producers.acknowledged * len(producers.content)
        return total / seconds / 1e6, total / rounds


def _cached_rate(load: _Load) -> float:
    """MB/s of the same appends where nobody waits for the disk."""
    with _directory(FlushPolicy.OS) as directory:
        logs, content = _logs(directory, load.partitions), _batch(load.size)
        header = read_header(content)
        appended = 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < _COMMIT_SECONDS:
            for log in logs:
                log.append(content, header, leader_epoch=0, now_ms=1)
            appended += len(logs)
        return appended * len(content) / (time.perf_counter() - begin) / 1e6


def _fault(log: Log, error: OSError) -> None:
    raise RuntimeError(f"{log}: {error}")


def _bare_rate(bytes_a_sync: float, files: int, bytes_a_write: int) -> float:
    root = tempfile.mkdtemp(prefix="tidelog-bench-", dir=os.environ.get("TIDELOG_BENCH_DIR"))
    content = os.urandom(bytes_a_write)
    writes = max(round(bytes_a_sync / files / bytes_a_write), 1)
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
    descriptors = [os.open(f"{root}/{number}", flags) for number in range(files)]
    threads = min(SYNC_THREADS, files)
    written = 0
    with ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        while time.perf_counter() - begin < _COMMIT_SECONDS:
            for descriptor in descriptors:
                for _ in range(writes):
                    written += os.write(descriptor, content)
            if files == 1:
                os.fdatasync(descriptors[0])
            else:
                list(pool.map(_sync_all, (descriptors[at::threads] for at in range(threads))))
        seconds = time.perf_counter() - begin
    for descriptor in descriptors:
        os.close(descriptor)
    shutil.rmtree(root)
    return written / seconds / 1e6


def _sync_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.fdatasync(descriptor)


def _start_rows(repeat: int) -> list[Row]:
    """How long 100 partitions take to open, after a clean stop and after kill -9."""
    clean, killed = [], []
    content = _batch(10_000)
    header = read_header(content)
    for _ in range(repeat):
        root = tempfile.mkdtemp(prefix="tidelog-bench-", dir=os.environ.get("TIDELOG_BENCH_DIR"))
        directory = _open(root, FlushPolicy.COMMIT)
        for log in _logs(directory, 100):
            for _ in range(100):
                log.append(content, header, leader_epoch=0, now_ms=1)
        directory.close()
        clean.append(_open_ms(root))
        # The directory was opened, and not closed: as after a kill.
        killed.append(_open_ms(root))
        shutil.rmtree(root)
    return [
        row("start with 100 partitions, 100 MB, after a clean stop", "ms", clean),
        row("start with 100 partitions, 100 MB, after kill -9", "ms", killed),
    ]


def _open_ms(root: str) -> float:
    begin = time.perf_counter()
    directory = _open(root, FlushPolicy.COMMIT)
    _logs(directory, 100)
    milliseconds = (time.perf_counter() - begin) * 1e3
    directory.abandon()
    return milliseconds
