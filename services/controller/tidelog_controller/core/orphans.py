"""What nobody needs any more: partitions that no topic shows, and words on topics long deleted.

The first are what an interrupted plan left behind. A controller that takes over looks for both
once, before it plans anything itself.
"""

from __future__ import annotations

from typing import Final

from tidelog.model import TopicId
from tidelog_controller.core.plan import Transaction
from tidelog_runtime.cluster_state import (
    deleted_topic_key,
    partition_key,
    partitions_prefix,
)
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.metadata_store import OPERATIONS_MAX, Delete, DeletePrefix, Operation

#: So many deletions are remembered for brokers that were away.
DELETIONS_KEPT: Final = 10_000


def _long_deleted(view: ClusterView) -> list[TopicId]:
    """All but the latest deletions."""
    by_age = sorted(view.deleted_topics, key=lambda topic_id: view.deleted_topics[topic_id])
    return by_age[: max(0, len(by_age) - DELETIONS_KEPT)]


def plan_sweep(view: ClusterView) -> tuple[Transaction, ...]:
    """Transactions that delete partitions without a topic, or beyond its number, and old words."""
    operations: dict[str, Operation] = {}
    for topic_id, partition in view.stored_partitions():
        topic = view.topic_by_id(topic_id)
        if topic is None:
            prefix = partitions_prefix(topic_id)
            operations[prefix] = DeletePrefix(prefix)
        elif partition >= topic.partitions:
            key = partition_key(topic_id, partition)
            operations[key] = Delete(key)
    for topic_id in _long_deleted(view):
        key = deleted_topic_key(topic_id)
        operations[key] = Delete(key)
    every = list(operations.values())
    return tuple(
        Transaction((), tuple(every[begin : begin + OPERATIONS_MAX]))
        for begin in range(0, len(every), OPERATIONS_MAX)
    )
