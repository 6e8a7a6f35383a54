"""The cluster's own identity, written once by the first controller that ever took over."""

from __future__ import annotations

import base64

from tidelog_controller.core.placement import RandomSource
from tidelog_controller.core.plan import Transaction
from tidelog_runtime.cluster_state import META, Meta
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.metadata_store import Absent, Put


def plan_cluster_id(view: ClusterView, random: RandomSource) -> tuple[Transaction, ...]:
    """The transaction that names a new cluster; none where it has its name."""
    if view.meta is not None:
        return ()
    cluster_id = base64.urlsafe_b64encode(random.randbytes(16)).rstrip(b"=").decode()
    return (Transaction((Absent(META),), (Put(META, Meta(cluster_id).encode()),)),)
