"""Admin's values into messages and back: pure, so that both faces of it share every word.

`AsyncAdmin` sends what is made here and reads answers through here. Invariant: an error inside an
answer becomes an exception of `tidelog.errors`, never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

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
from tidelog.engine.partition_names import LARGEST_PARTITION
from tidelog.engine.wire_errors import error_of
from tidelog.errors import InvalidConfig, InvalidReplicaAssignment, InvalidRequest, InvalidTopic
from tidelog.model import TopicId
from tidelog.wire.v1 import admin_pb2, common_pb2, metadata_pb2
from tidelog.wording import is_unicode

SOURCES: Final = {
    admin_pb2.DYNAMIC_TOPIC_CONFIG: "topic",
    admin_pb2.STATIC_BROKER_CONFIG: "broker",
    admin_pb2.DEFAULT_CONFIG: "default",
}


def config_text(key: str, value: ConfigValue) -> str:
    """A config's value as it is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not is_unicode(value):
        raise InvalidConfig(f"{key}={value!r:.80} is no Unicode text")
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidConfig(f"{key}={value!r} is no text, number or truth value")


def configs(name: str, given: Any) -> list[tuple[str, ConfigValue]]:
    """Keys and values of a mapping of configs; refuses what is none."""
    if not isinstance(given, Mapping):
        raise InvalidConfig(
            f"{name}={given!r:.80} is no mapping of configs, but of type {type(given).__name__}",
            hint="Give a dict, such as {'retention.ms': 86400000}",
        )
    return [(config_key(name, key), value) for key, value in given.items()]


def config_key(name: str, key: Any) -> str:
    """The name of a config; refuses what is no text."""
    if not isinstance(key, str):
        raise InvalidConfig(
            f"{name} has the key {key!r:.80}, of type {type(key).__name__}",
            hint="Keys are names of configs, such as 'retention.ms'",
        )
    if not is_unicode(key):
        raise InvalidConfig(f"{name} has the key {key!r:.80}, which is no Unicode text")
    return key


def _check_count(what: str, number: Any, topic: str) -> None:
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not is_whole or not 1 <= number <= LARGEST_PARTITION:
        raise InvalidRequest(
            f"{what}={number!r:.80} of topic {topic!r} is not possible",
            hint="Give a whole number from 1 on",
        )


def _assignment(assignment: Assignment | None) -> list[admin_pb2.ReplicaAssignment]:
    if assignment is None:
        return []
    try:
        return [
            admin_pb2.ReplicaAssignment(partition=partition, broker_ids=brokers)
            for partition, brokers in assignment.items()
        ]
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidReplicaAssignment(
            f"assignment={assignment!r:.80} is not possible",
            cause=str(error),
            hint="Give the broker ids of each partition, such as {0: [1, 2], 1: [2, 3]}",
        ) from error


def topic_names(names: Iterable[str]) -> list[str]:
    """Names of topics; one text is refused, since each of its letters would become one."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidRequest(f"{names!r:.80} is no list of topics", hint=f"Give [{names!r:.80}]")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise InvalidRequest(
                f"{name!r:.80} is no name of a topic, but of type {type(name).__name__}",
                hint="Give a str",
            )
        if not is_unicode(name):
            raise InvalidTopic(
                f"The topic name {name!r:.80} has characters that are not allowed",
                hint="Allowed are ASCII letters, digits, '.', '_' and '-'",
            )
    return found


def new_topics(topics: Iterable[NewTopic]) -> list[admin_pb2.NewTopic]:
    """Topics to create."""
    if not isinstance(topics, Iterable):
        raise InvalidRequest(
            f"{topics!r:.80} is no list of topics", hint="Give [tidelog.NewTopic(name)]"
        )
    return [new_topic(topic) for topic in topics]


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
        if number is not None:
            _check_count(what, number, topic.name)
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
        configs={key: config_text(key, value) for key, value in configs("config", topic.config)},
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
    topic_names([name])
    _check_count("total", total, name)
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
        topic_names([topic])
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
        for name, operation, values in (
            ("config", admin_pb2.ALTER_SET, set_to),
            ("append", admin_pb2.ALTER_APPEND, append),
            ("subtract", admin_pb2.ALTER_SUBTRACT, subtract),
        )
        for key, value in configs(name, values)
    ]
    if isinstance(delete, str | bytes) or not isinstance(delete, Iterable):
        raise InvalidConfig(
            f"delete={delete!r:.80} is no list of configs", hint=f"Give delete=[{delete!r:.80}]"
        )
    changes += [
        admin_pb2.ConfigAlteration(key=config_key("delete", key), operation=admin_pb2.ALTER_DELETE)
        for key in delete
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
