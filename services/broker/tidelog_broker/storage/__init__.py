"""Storage: logs of record batches on disk, durable by group commit, recovered from a journal."""

from tidelog_broker.storage.config import FlushPolicy, LogConfig, StorageConfig
from tidelog_broker.storage.data_directory import DataDirectory, RecoveryProgress
from tidelog_broker.storage.group_commit import GroupCommit
from tidelog_broker.storage.log import Log
from tidelog_broker.storage.log_times import TimestampOffset
from tidelog_broker.storage.producer_state import Duplicate, Fresh

__all__ = [
    "DataDirectory",
    "Duplicate",
    "FlushPolicy",
    "Fresh",
    "GroupCommit",
    "Log",
    "LogConfig",
    "RecoveryProgress",
    "StorageConfig",
    "TimestampOffset",
]
