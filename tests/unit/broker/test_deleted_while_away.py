"""Topics that were deleted while the broker was away, and topics nobody speaks of."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tidelog.model import PartitionId, TopicId
from tidelog_broker.partition.assignments import Assignments
from tidelog_broker.partition.replicas import Replicas
from tidelog_broker.stopping import Stopping
from tidelog_broker.storage import DataDirectory, LogConfig, StorageConfig
from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import deleted_topic_key
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.metadata_store import EventBatch, Item
from tidelog_runtime.metadata_store.embedded import EmbeddedMetadataStore

DELETED, UNHEARD_OF = TopicId(b"d" * 16), TopicId(b"u" * 16)
NOW_MS = 1_700_000_000_000


class StillClock:
    """Always the same time."""

    def now_ms(self) -> int:
        return NOW_MS


class NoCommits:
    """Nothing is appended here."""

    def mark_dirty(self, log: object) -> None:
        raise AssertionError(log)


def test_only_what_was_deleted_is_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = LocalDisk(tmp_path)
    directory = DataDirectory.open(disk, StorageConfig(), new_storage_uuid=b"s" * 16, now_ms=NOW_MS)
    for topic_id, name in ((DELETED, "gone"), (UNHEARD_OF, "lost")):
        directory.open_partition(PartitionId(topic_id, 0), name, LogConfig(), now_ms=NOW_MS).roll()
    mirror = ClusterMirror(EmbeddedMetadataStore(disk))
    mirror.view.apply(EventBatch(1, (Item(deleted_topic_key(DELETED), b"gone", 1, 1),)))
    assignments = Assignments(
        default_broker_config(), mirror, Replicas(), Stopping("Broker 1"), StillClock()
    )
    with caplog.at_level(logging.WARNING):
        assignments.begin(directory, NoCommits())
    assert {found.topic_id for found in directory.stored_partitions()} == {UNHEARD_OF}
    (warning,) = caplog.records
    assert "it is kept" in warning.message
    assert getattr(warning, "fields")["topic"] == "lost"  # noqa: B009 - an extra of the record
    directory.close()
