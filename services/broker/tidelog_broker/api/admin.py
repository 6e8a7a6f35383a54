"""Admin calls on topics: forwarded to the active controller with the caller's principal.

What brokers answer by themselves stands beside: `admin_configs.py`, `delete_records.py`,
`describe_cluster.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.errors import RequestTimedOut
from tidelog.model import TopicId
from tidelog.wire.v1 import admin_pb2
from tidelog_runtime.control import NewTopic, PartitionIncrease, TopicOutcome
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker


def _assignment(
    items: Iterable[admin_pb2.ReplicaAssignment],
) -> Mapping[int, Sequence[int]]:
    return {item.partition: tuple(item.broker_ids) for item in items}


def topic_result(outcome: TopicOutcome) -> admin_pb2.TopicResult:
    """What became of one topic, in the words of the wire."""
    result = admin_pb2.TopicResult(name=outcome.name)
    if outcome.error is not None:
        result.error.CopyFrom(to_wire(outcome.error))
        return result
    result.topic_id = outcome.topic_id
    result.partitions = outcome.partitions
    result.replication_factor = outcome.replication_factor
    for key, value in sorted(outcome.configs.items()):
        result.configs.add(key=key, value=value, source=admin_pb2.DYNAMIC_TOPIC_CONFIG)
    return result


async def _applied(
    broker: Broker, outcomes: Awaitable[list[TopicOutcome]], timeout_ms: int
) -> list[admin_pb2.TopicResult]:
    """The results, once this broker has taken up what the controller decided."""
    results = [topic_result(outcome) for outcome in await outcomes]
    if not await broker.assignments.wait_current(timeout_ms):
        late = to_wire(
            RequestTimedOut("It is decided, but this broker has not taken it up in time")
        )
        for result in results:
            if not result.HasField("error"):
                result.error.CopyFrom(late)
    return results


async def create_topics(
    broker: Broker, caller: Caller, request: admin_pb2.CreateTopicsRequest
) -> admin_pb2.CreateTopicsResponse:
    """One result a topic, in the order of the request."""
    topics = [
        NewTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            assignment=_assignment(topic.assignment),
            configs=dict(topic.configs),
        )
        for topic in request.topics
    ]
    outcomes = broker.controller.create_topics(
        topics, principal=caller.principal, validate_only=request.validate_only
    )
    results = await _applied(broker, outcomes, request.timeout_ms)
    return admin_pb2.CreateTopicsResponse(topics=results)


async def delete_topics(
    broker: Broker, caller: Caller, request: admin_pb2.DeleteTopicsRequest
) -> admin_pb2.DeleteTopicsResponse:
    """One result a topic, however often it is named: first the names, then the ids."""
    outcomes = broker.controller.delete_topics(
        list(request.names),
        [TopicId(topic_id) for topic_id in request.topic_ids],
        principal=caller.principal,
    )
    results = await _applied(broker, outcomes, request.timeout_ms)
    return admin_pb2.DeleteTopicsResponse(topics=results)


async def create_partitions(
    broker: Broker, caller: Caller, request: admin_pb2.CreatePartitionsRequest
) -> admin_pb2.CreatePartitionsResponse:
    """One result a topic, in the order of the request."""
    increases = [
        PartitionIncrease(
            name=topic.name,
            total_partitions=topic.total_partitions,
            assignment=_assignment(topic.assignment),
        )
        for topic in request.topics
    ]
    outcomes = broker.controller.create_partitions(
        increases, principal=caller.principal, validate_only=request.validate_only
    )
    results = await _applied(broker, outcomes, request.timeout_ms)
    return admin_pb2.CreatePartitionsResponse(topics=results)
