"""Deletions that a crash has interrupted: announced durably, and finished by the next start.

The data directory calls this once its journal is durable: what was announced may have been read
from the page cache alone. The names are made durable at once, since the journal forgets a deletion
with its next file. Invariant: nothing goes that was not announced, whatever else lies beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from tidelog.model import PartitionId, TopicId
from tidelog_broker.storage import names
from tidelog_broker.storage.volume import Trash
from tidelog_runtime.disk import Disk


def retire(disk: Disk, folder: str) -> str:
    """Rename a folder so that it is no longer there; the path to purge later."""
    number = 1
    while disk.exists(retired := f"{folder}.{number}{names.DELETED}"):
        number += 1
    disk.rename(folder, retired)
    return retired


def finish(
    disk: Disk, trash: Trash, deleted: Set[PartitionId], living: Iterable[PartitionId], now_ms: int
) -> None:
    """Retire what was announced and is still there; a topic as a whole where it was the last."""
    living_topics = {partition_id.topic_id for partition_id in living}
    for topic_id in sorted({partition_id.topic_id for partition_id in deleted}):
        topic = names.topic_folder(topic_id)
        if not disk.exists(topic):
            continue
        gone, others = _held(disk, topic, topic_id, deleted)
        folders = [f"{topic}/{name}" for name in gone]
        if not others and topic_id not in living_topics:
            folders = [topic]
        for folder in folders:
            trash.add(retire(disk, folder), now_ms, is_folder=True)
        if folders:
            disk.sync_directory(folders[0].rpartition("/")[0])


def _held(
    disk: Disk, topic: str, topic_id: TopicId, deleted: Set[PartitionId]
) -> tuple[list[str], list[str]]:
    """The names of partitions that go, and of what nobody has asked to go."""
    gone, others = [], []
    for name in disk.list_directory(topic):
        number = names.partition_of(name)
        if number is not None and PartitionId(topic_id, number) in deleted:
            gone.append(name)
        elif name != names.TOPIC_NAME and not name.endswith(names.DELETED):
            others.append(name)
    return gone, others
