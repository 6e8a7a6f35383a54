"""DescribeCluster: its id, its brokers and what it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.version import __version__
from tidelog.wire.v1 import admin_pb2

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker


async def describe_cluster(
    broker: Broker, caller: Caller, request: admin_pb2.DescribeClusterRequest
) -> admin_pb2.DescribeClusterResponse:
    """The cluster as this broker sees it."""
    return admin_pb2.DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        brokers=broker.endpoints(request.dialled_address),
        software_version=__version__,
        features=broker.features,
    )
