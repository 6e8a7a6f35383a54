"""Admin's values into messages and back: pure, so that both faces of it share every word.

`AsyncAdmin` sends what is made here and reads answers through here. Invariant: an error inside an
answer becomes an exception of `tidelog.errors`, never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.admin.descriptions import (
    Assignment,
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    ConfigValue,
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from tidelog.engine.wire_errors import error_of
from tidelog.errors import InvalidConfig, InvalidRequest
from tidelog.model import TopicId
from tidelog.wire.v1 import admin_pb2, common_pb2, metadata_pb2

SOURCES: Final = {
    admin_pb2.DYNAMIC_TOPIC_CONFIG: "topic",
    admin_pb2.STATIC_BROKER_CONFIG: "broker",
    admin_pb2.DEFAULT_CONFIG: "default",
}


def config_text(key: str, value: ConfigValue) -> str:
    """A config's value as it is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidConfig(f"{key}={value!r} is no text, number or truth value")


def _assignment(assignment: Assignment | None) -> list[admin_pb2.ReplicaAssignment]:
    return [
        admin_pb2.ReplicaAssignment(partition=partition, broker_ids=brokers)
        for partition, brokers in (assignment or {}).items()
    ]


def topic_names(names: Iterable[str]) -> list[str]:
    """Names of topics; one text is refused, since each of its letters would become one."""
    if isinstance(names, str):
        raise InvalidRequest(f"{names!r} is no list of topics", hint=f"Give [{names!r}]")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise InvalidRequest(
                f"{name!r:.80} is no name of a topic, but of type {type(name).__name__}",
                hint="Give a str",
            )
    return found


def new_topic(topic: NewTopic) -> admin_pb2.NewTopic:
    """A topic to create."""
    if not isinstance(topic, NewTopic):
        raise InvalidRequest(
            f"{topic!r:.80} is no new topic", hint="Give tidelog.NewTopic(name, partitions=...)"
        )
    topic_names([topic.name])
    for what, number in (
        ("partitions", topic.partitions),
        ("replication_factor", topic.replication_factor),
    ):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise InvalidRequest(
                f"{what}={number!r} of topic {topic.name!r} is not possible",
                hint="Give a whole number from 1 on",
            )
        if number is not None and topic.assignment is not None:
            raise InvalidRequest(
                f"Topic {topic.name!r} is given {what} and an assignment",
                hint="The assignment says both: leave the other out",
            )
    return admin_pb2.NewTopic(
        name=topic.name,
        partitions=topic.partitions or 0,
        replication_factor=topic.replication_factor or 0,
        assignment=_assignment(topic.assignment),
        configs={key: config_text(key, value) for key, value in topic.config.items()},
    )


def created_topic(result: admin_pb2.TopicResult) -> CreatedTopic:
    """A topic that was created, or changed."""
    return CreatedTopic(
        name=result.name,
        topic_id=TopicId(result.topic_id),
        partitions=result.partitions,
        replication_factor=result.replication_factor,
        config={entry.key: entry.value for entry in result.configs},
    )


def increase(name: str, total: int, assignment: Assignment | None) -> admin_pb2.PartitionIncrease:
    """More partitions for a topic."""
    return admin_pb2.PartitionIncrease(
        name=name, total_partitions=total, assignment=_assignment(assignment)
    )


def topic_description(described: metadata_pb2.TopicMetadata) -> TopicDescription:
    """A topic; raises what it could not be described for."""
    if described.HasField("error"):
        raise error_of(described.error)
    ordered = sorted(described.partitions, key=lambda partition: partition.partition)
    return TopicDescription(
        name=described.name,
        topic_id=TopicId(described.topic_id),
        internal=described.internal,
        partitions=tuple(_partition(partition) for partition in ordered),
    )


def _partition(described: metadata_pb2.PartitionMetadata) -> PartitionDescription:
    return PartitionDescription(
        partition=described.partition,
        leader=described.leader_id if described.leader_id >= 0 else None,
        leader_epoch=described.leader_epoch,
        replicas=tuple(described.replicas),
        in_sync=tuple(described.in_sync),
        eligible=tuple(described.eligible),
        offline=tuple(described.offline),
    )


def resource(topic: str | None, broker: int | None) -> admin_pb2.ConfigResource:
    """Whose configs are meant."""
    if (topic is None) == (broker is None):
        raise InvalidRequest(
            "Whose configs are meant is not clear", hint="Give topic='name' or broker=id"
        )
    if topic is not None:
        return admin_pb2.ConfigResource(type=admin_pb2.CONFIG_RESOURCE_TOPIC, name=topic)
    return admin_pb2.ConfigResource(type=admin_pb2.CONFIG_RESOURCE_BROKER, name=str(broker))


def config_entries(answer: admin_pb2.ResourceConfigs) -> dict[str, ConfigEntry]:
    """The configs of a topic or broker by key."""
    if answer.HasField("error"):
        raise error_of(answer.error)
    return {
        entry.key: ConfigEntry(
            key=entry.key,
            value=entry.value,
            source=SOURCES.get(entry.source, "unknown"),
            default=entry.default_value,
            type=entry.type,
            read_only=entry.read_only,
            documentation=entry.documentation,
        )
        for entry in answer.entries
    }


def alterations(
    set_to: Mapping[str, ConfigValue],
    delete: Iterable[str],
    append: Mapping[str, ConfigValue],
    subtract: Mapping[str, ConfigValue],
) -> list[admin_pb2.ConfigAlteration]:
    """Changes to configs; at least one."""
    changes = [
        admin_pb2.ConfigAlteration(key=key, operation=operation, value=config_text(key, value))
        for operation, values in (
            (admin_pb2.ALTER_SET, set_to),
            (admin_pb2.ALTER_APPEND, append),
            (admin_pb2.ALTER_SUBTRACT, subtract),
        )
        for key, value in values.items()
    ]
    changes += [
        admin_pb2.ConfigAlteration(key=key, operation=admin_pb2.ALTER_DELETE) for key in delete
    ]
    if not changes:
        raise InvalidRequest("No config is to be changed", hint="Give set, delete, append, ...")
    return changes


def cluster_description(answer: admin_pb2.DescribeClusterResponse) -> ClusterDescription:
    """The cluster."""
    return ClusterDescription(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        brokers=tuple(_broker(broker) for broker in answer.brokers),
        software_version=answer.software_version,
        features=dict(answer.features),
    )


def _broker(broker: common_pb2.BrokerEndpoint) -> BrokerDescription:
    return BrokerDescription(broker.broker_id, broker.host, broker.port, broker.rack)
