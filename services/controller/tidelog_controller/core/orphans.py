"""What an interrupted plan left behind: partitions that no topic shows.

A controller that takes over looks for them once, before it plans anything itself.
"""

from __future__ import annotations

from tidelog_controller.core.plan import Transaction
from tidelog_runtime.cluster_state import partition_key, partitions_prefix
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.metadata_store import OPERATIONS_MAX, Delete, DeletePrefix, Operation


def plan_sweep(view: ClusterView) -> tuple[Transaction, ...]:
    """Transactions that delete every partition without a topic, or beyond its topic's number."""
    operations: dict[str, Operation] = {}
    for topic_id, partition in view.stored_partitions():
        topic = view.topic_by_id(topic_id)
        if topic is None:
            prefix = partitions_prefix(topic_id)
            operations[prefix] = DeletePrefix(prefix)
        elif partition >= topic.partitions:
            key = partition_key(topic_id, partition)
            operations[key] = Delete(key)
    every = list(operations.values())
    return tuple(
        Transaction((), tuple(every[begin : begin + OPERATIONS_MAX]))
        for begin in range(0, len(every), OPERATIONS_MAX)
    )
