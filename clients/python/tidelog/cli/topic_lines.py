"""The lines of `tidelog topics`, char for char as kafka-topics prints them, and the same as JSON.

Pure: descriptions in, text out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidRequest

if TYPE_CHECKING:
    from tidelog.admin.descriptions import PartitionDescription, TopicDescription

COLLISION_WARNING: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_')"
    " could collide. To avoid issues it is best to use either, but not both."
)

PartitionFilter = Callable[["PartitionDescription", int], bool]

#: By the name of the option: which partitions it lets through, given min.insync.replicas.
FILTERS: Final[dict[str, PartitionFilter]] = {
    "under_replicated_partitions": lambda partition, _: partition.is_under_replicated,
    "unavailable_partitions": lambda partition, _: (
        partition.leader is None or partition.leader in partition.offline
    ),
    "under_min_isr_partitions": lambda partition, minimum: (
        partition.leader is None or len(partition.in_sync) < minimum
    ),
    "at_min_isr_partitions": lambda partition, minimum: len(partition.in_sync) == minimum,
}


def may_collide(name: str) -> bool:
    """Whether metrics of two such topics could get the same name."""
    return "." in name or "_" in name


def shown_id(topic_id: bytes) -> str:
    """A topic id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def read_id(text: str) -> bytes:
    """The topic id that a text means: as Kafka writes it, or as folders are named."""
    try:
        topic_id = (
            bytes.fromhex(text)
            if len(text) == 32
            else base64.b64decode(text + "==", altchars=b"-_", validate=True)
        )
    except (ValueError, binascii.Error):
        topic_id = b""
    if len(topic_id) != 16:
        raise InvalidRequest(
            f"{text!r} is no topic id", hint="`tidelog topics --describe` shows each topic's"
        )
    return topic_id


def topic_line(topic: TopicDescription, overrides: Mapping[str, str]) -> str:
    """What stands above a topic's partitions."""
    configs = ",".join(f"{key}={value}" for key, value in overrides.items())
    return (
        f"Topic: {topic.name}\tTopicId: {shown_id(topic.topic_id)}"
        f"\tPartitionCount: {topic.partition_count}"
        f"\tReplicationFactor: {topic.replication_factor}\tConfigs: {configs}"
    )


def partition_line(name: str, partition: PartitionDescription) -> str:
    """One partition."""
    leader = "none" if partition.leader is None else partition.leader
    return (
        f"\tTopic: {name}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.in_sync)}"
        f"\tElr: {_ids(partition.eligible)}\tLastKnownElr: N/A"
    )


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def topic_as_json(
    topic: TopicDescription,
    overrides: Mapping[str, str],
    partitions: Iterable[PartitionDescription],
) -> dict[str, object]:
    """A topic for a program; only these of its partitions."""
    return {
        "topic": topic.name,
        "topic_id": shown_id(topic.topic_id),
        "internal": topic.internal,
        "partition_count": topic.partition_count,
        "replication_factor": topic.replication_factor,
        "configs": dict(overrides),
        "partitions": [_partition_as_json(partition) for partition in partitions],
    }


def _partition_as_json(partition: PartitionDescription) -> dict[str, object]:
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.in_sync),
        "elr": list(partition.eligible),
        "offline": list(partition.offline),
    }
