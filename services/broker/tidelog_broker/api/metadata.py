"""Metadata: the cluster as this broker's mirror shows it, in the words of the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from tidelog.errors import TidelogError, UnknownTopic, UnknownTopicId
from tidelog.model import TopicId
from tidelog.nearest import did_you_mean
from tidelog.wire.v1 import common_pb2, metadata_pb2
from tidelog_runtime.cluster_state import NO_LEADER, PartitionState, TopicState
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker


#: So many unknown names of one request are told what is near: finding that takes milliseconds.
HINTS_MAX: Final = 10
#: So many topics and partitions are described before other callers have their turn.
DESCRIBED_A_TURN: Final = 500


def describe_topic(view: ClusterView, topic: TopicState) -> metadata_pb2.TopicMetadata:
    """A topic with its partitions."""
    described = metadata_pb2.TopicMetadata(
        name=topic.name, topic_id=topic.topic_id, internal=topic.internal
    )
    for number, state in view.partitions(topic.topic_id):
        described.partitions.append(describe_partition(view, number, state))
    return described


def describe_partition(
    view: ClusterView, number: int, state: PartitionState
) -> metadata_pb2.PartitionMetadata:
    """Who leads a partition and who follows."""
    described = metadata_pb2.PartitionMetadata(
        partition=number,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replicas=state.replicas,
        in_sync=state.in_sync,
        eligible=state.eligible,
        offline=[replica for replica in state.replicas if replica not in view.brokers],
    )
    if state.leader == NO_LEADER:
        described.error.code = common_pb2.LEADER_NOT_AVAILABLE
        described.error.message = f"Partition {number} has no leader at this moment"
    return described


def missing_topic(name: str, error: TidelogError) -> metadata_pb2.TopicMetadata:
    """The answer for a topic that isn't there."""
    return metadata_pb2.TopicMetadata(name=name, error=to_wire(error))


def unknown_topic(view: ClusterView, name: str, *, with_hint: bool = True) -> UnknownTopic:
    """The error for a name that no topic has, with the nearest one."""
    visible = (known for known in view.topic_names if not known.startswith("__"))
    hint = did_you_mean(name, visible) if with_hint else ""
    return UnknownTopic(f"Topic {name!r} does not exist", hint=hint)


async def describe_all(
    view: ClusterView, *, include_internal: bool
) -> list[metadata_pb2.TopicMetadata]:
    """What a caller who asks for everything is shown."""
    shown = [topic for topic in view.topics if include_internal or not topic.internal]
    # What is deleted between two turns has no partitions any more.
    there = (topic for topic in shown if view.topic_by_id(topic.topic_id) is not None)
    return await _in_turns(describe_topic(view, topic) for topic in there)


async def describe_named(
    view: ClusterView, names: Iterable[str]
) -> list[metadata_pb2.TopicMetadata]:
    """Each name's topic, or the error for it; once, however often it is named."""
    return await _in_turns(_each_named(view, dict.fromkeys(names)))


async def _in_turns(
    described: Iterable[metadata_pb2.TopicMetadata],
) -> list[metadata_pb2.TopicMetadata]:
    """All of them; others are answered in between."""
    found = []
    in_turn = 0
    for topic in described:
        found.append(topic)
        in_turn += 1 + len(topic.partitions)
        if in_turn >= DESCRIBED_A_TURN:
            in_turn = 0
            await asyncio.sleep(0)
    return found


def _each_named(view: ClusterView, names: Iterable[str]) -> Iterator[metadata_pb2.TopicMetadata]:
    hints_left = HINTS_MAX
    for name in names:
        topic = view.topic(name)
        if topic is None:
            yield missing_topic(name, unknown_topic(view, name, with_hint=hints_left > 0))
            hints_left -= 1
        else:
            yield describe_topic(view, topic)


def _each_by_id(
    view: ClusterView, topic_ids: Iterable[bytes]
) -> Iterator[metadata_pb2.TopicMetadata]:
    for topic_id in topic_ids:
        topic = view.topic_by_id(TopicId(topic_id))
        if topic is not None:
            yield describe_topic(view, topic)
            continue
        described = missing_topic(
            "", UnknownTopicId(f"No topic has the id {topic_id.hex()}: it may have been deleted")
        )
        described.topic_id = topic_id
        yield described


async def metadata(
    broker: Broker, caller: Caller, request: metadata_pb2.MetadataRequest
) -> metadata_pb2.MetadataResponse:
    """Brokers and topics; creates unknown ones for a producer where the cluster allows it."""
    refusals: dict[str, TidelogError] = {}
    if request.create_for_produce:
        refusals = await broker.auto_create.create(request.topics, caller.principal)
    view = broker.view
    response = metadata_pb2.MetadataResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        revision=view.revision,
        brokers=broker.endpoints(request.dialled_address),
    )
    if request.all_topics:
        response.topics.extend(await describe_all(view, include_internal=request.include_internal))
        return response
    for described in await describe_named(view, request.topics):
        if described.name in refusals:
            described.error.CopyFrom(to_wire(refusals[described.name]))
        response.topics.append(described)
    response.topics.extend(await _in_turns(_each_by_id(view, dict.fromkeys(request.topic_ids))))
    return response
