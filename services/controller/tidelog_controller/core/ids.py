"""Blocks of producer ids: each id is given out once in the life of the cluster."""

from __future__ import annotations

from typing import Final

from tidelog.errors import InvalidRequest
from tidelog_controller.core.plan import Transaction
from tidelog_runtime.cluster_state import PRODUCER_IDS, IdBlock
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.metadata_store import Absent, ModRevisionIs, Put

BLOCK_MAX: Final = 1_000_000
_ID_MAX: Final = (1 << 63) - 1


def plan_id_block(count: int, view: ClusterView) -> tuple[int, Transaction]:
    """The first id of a block, and the transaction that takes the block out."""
    if not 1 <= count <= BLOCK_MAX:
        raise InvalidRequest(f"{count} producer ids were asked for", hint=f"At most {BLOCK_MAX}")
    block = view.producer_ids
    first = block.next_id if block is not None else 0
    if first > _ID_MAX - count:
        raise InvalidRequest("All producer ids have been given out")
    unchanged = (
        ModRevisionIs(PRODUCER_IDS, block.revision) if block is not None else Absent(PRODUCER_IDS)
    )
    return first, Transaction((unchanged,), (Put(PRODUCER_IDS, IdBlock(first + count).encode()),))
