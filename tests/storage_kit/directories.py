"""Data directories and logs for tests of storage."""

from __future__ import annotations

from dataclasses import replace

from storage_kit.batches import batch, header_of, headers
from tidelog.model import PartitionId, TopicId
from tidelog.records.batch import BatchHeader
from tidelog_broker.storage import DataDirectory, Log, LogConfig, StorageConfig
from tidelog_broker.storage.sweep import Look
from tidelog_runtime.disk import Disk

TOPIC_ID = TopicId(bytes(range(16)))
PARTITION = PartitionId(TOPIC_ID, 0)
STORAGE_UUID = b"storage-uuid-16b"
NOW_MS = 1_000_000

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=150, file_delete_delay_ms=0)


def open_directory(
    disk: Disk, config: StorageConfig | None = None, *, now_ms: int = NOW_MS
) -> DataDirectory:
    """Open a data directory whose disk is never too full."""
    config = config or StorageConfig(free_bytes_min=0)
    return DataDirectory.open(disk, config, new_storage_uuid=STORAGE_UUID, now_ms=now_ms)


def open_log(
    directory: DataDirectory,
    config: LogConfig = SMALL,
    *,
    partition_id: PartitionId = PARTITION,
    now_ms: int = NOW_MS,
) -> Log:
    """The log of one partition."""
    return directory.open_partition(partition_id, "orders", config, now_ms=now_ms)


def append(
    log: Log,
    *values: bytes,
    epoch: int = 0,
    now_ms: int = NOW_MS,
    timestamp: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> int:
    """Append one batch as leader; the offset of its first record."""
    content = batch(*values, timestamp=timestamp, producer=producer)
    return log.append(content, header_of(content), leader_epoch=epoch, now_ms=now_ms)


def commit(directory: DataDirectory, *logs: Log) -> None:
    """What a round of group commit does, in this thread."""
    for log in logs:
        log.sync()
        log.high_watermark = log.durable_end
    directory.volume.journal.sync()
    directory.journal_ends()


def purge(directory: DataDirectory, now_ms: int = NOW_MS) -> int:
    """Give back the space of what is due; how many removals that took."""
    count = 0
    for step in directory.purge_steps(now_ms):
        step()
        count += not isinstance(step, Look)
    return count


def read_all(log: Log, *, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Every batch from the log start to the log end, read piece by piece."""
    found: list[BatchHeader] = []
    offset = log.log_start
    while offset < log.log_end:
        content = log.read(offset, max_bytes, end=log.log_end)
        assert content, f"nothing at {offset} of {log.log_end}"
        batches = headers(content)
        found += batches
        offset = batches[-1].next_offset
    return found


def with_config(log: Log, **changes: int) -> None:
    """Change the topic config of an open log."""
    log.config = replace(log.config, **changes)
