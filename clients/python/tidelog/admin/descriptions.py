"""What admin calls take and answer: plain values, typed, that can be compared and printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.model import TopicId

#: What a config may be set to; it is written as Kafka writes it.
ConfigValue = str | int | float | bool

#: The replicas of each partition by broker id, the preferred leader first.
Assignment = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; what is None is the cluster's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, ConfigValue] = field(default_factory=dict)
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or would be (`validate_only`)."""

    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition: who leads it and who follows, by broker id."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...]
    offline: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions."""

    name: str
    topic_id: TopicId
    internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        """How many replicas its partitions have."""
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config: its value, and where it was set ("topic", "broker" or "default")."""

    key: str
    value: str
    source: str
    default: str
    type: str
    read_only: bool
    documentation: str

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == "default"


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker that lives."""

    broker_id: int
    host: str
    port: int
    rack: str


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster, as the broker that was asked sees it."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]
    software_version: str
    features: Mapping[str, int]
