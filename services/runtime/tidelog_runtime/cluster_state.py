"""What stands in the metadata store: its keys, and its values as types.

The controller writes topics and partitions, a broker its own registration; everybody mirrors all of
it (`cluster_view`). Values are small protobuf messages, one key a partition. The revision of a
key is part of what it says: a partition's is its partition epoch, a registration's the broker's
epoch; it is filled in on reading and never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from google.protobuf.message import DecodeError

from tidelog.model import TopicId
from tidelog_runtime.metadata_store.errors import StoreCorrupt
from tidelog_runtime.metadata_store.interface import Item
from tidelog_runtime.wire.v1 import cluster_state_pb2 as wire

META: Final = "meta"
CONTROLLER: Final = "ctl/leader"
LIVE_BROKERS: Final = "brokers/live/"
BROKER_STATES: Final = "brokers/state/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
PRODUCER_IDS: Final = "ids/producers"
#: Topics that were deleted: a broker that was away then learns of it here.
DELETED_TOPICS: Final = "deleted/topics/"

NO_LEADER: Final = -1
_Value = TypeVar("_Value")


def live_broker_key(broker_id: int) -> str:
    """The registration of a broker, under its lease."""
    return f"{LIVE_BROKERS}{broker_id}"


def broker_state_key(broker_id: int) -> str:
    """What outlives a broker's lease."""
    return f"{BROKER_STATES}{broker_id}"


def topic_key(name: str) -> str:
    """A topic, by its name."""
    return TOPICS + name


def partitions_prefix(topic_id: TopicId) -> str:
    """All partitions of a topic."""
    return f"{PARTITIONS}{topic_id.hex()}/"


def partition_key(topic_id: TopicId, partition: int) -> str:
    """One partition, by the identity of its topic."""
    return f"{PARTITIONS}{topic_id.hex()}/{partition}"


def deleted_topic_key(topic_id: TopicId) -> str:
    """The word that this topic was deleted; its value is the name it had."""
    return DELETED_TOPICS + topic_id.hex()


@dataclass(frozen=True, slots=True)
class Meta:
    """The cluster itself."""

    cluster_id: str
    features: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The value under `META`."""
        return wire.Meta(cluster_id=self.cluster_id, features=self.features).SerializeToString()


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker that lives: where it listens and what it is made of."""

    broker_id: int
    host: str
    port: int
    internal_host: str
    internal_port: int
    flush_policy: str
    storage_uuid: bytes
    rack: str = ""
    broker_epoch: int = 0

    def encode(self) -> bytes:
        """The value under `live_broker_key`."""
        return wire.BrokerRegistration(
            broker_id=self.broker_id,
            host=self.host,
            port=self.port,
            internal_host=self.internal_host,
            internal_port=self.internal_port,
            flush_policy=self.flush_policy,
            storage_uuid=self.storage_uuid,
            rack=self.rack,
        ).SerializeToString()


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What the cluster remembers of a broker, alive or not."""

    storage_uuid: bytes

    def encode(self) -> bytes:
        """The value under `broker_state_key`."""
        return wire.BrokerState(storage_uuid=self.storage_uuid).SerializeToString()


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic. `configs` holds what was set for it, as text; `revision` its last change."""

    name: str
    topic_id: TopicId
    partitions: int
    internal: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0

    def encode(self) -> bytes:
        """The value under `topic_key`."""
        return wire.Topic(
            name=self.name,
            topic_id=self.topic_id,
            partitions=self.partitions,
            internal=self.internal,
            configs=self.configs,
        ).SerializeToString()


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition, who is in sync, who leads, and since which epoch."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int
    eligible: tuple[int, ...] = ()
    partition_epoch: int = 0

    def encode(self) -> bytes:
        """The value under `partition_key`."""
        return wire.PartitionState(
            replicas=self.replicas,
            in_sync=self.in_sync,
            eligible=self.eligible,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
        ).SerializeToString()


@dataclass(frozen=True, slots=True)
class IdBlock:
    """The next id that nobody holds yet."""

    next_id: int
    revision: int = 0

    def encode(self) -> bytes:
        """The value under `PRODUCER_IDS`."""
        return wire.IdBlock(next=self.next_id).SerializeToString()


def decode_meta(item: Item) -> Meta:
    """Raises StoreCorrupt where the value is none."""
    message = _parsed(item, wire.Meta.FromString)
    return Meta(message.cluster_id, dict(message.features))


def decode_registration(item: Item) -> BrokerRegistration:
    """Raises StoreCorrupt where the value is none."""
    message = _parsed(item, wire.BrokerRegistration.FromString)
    return BrokerRegistration(
        broker_id=message.broker_id,
        host=message.host,
        port=message.port,
        internal_host=message.internal_host,
        internal_port=message.internal_port,
        flush_policy=message.flush_policy,
        storage_uuid=message.storage_uuid,
        rack=message.rack,
        broker_epoch=item.mod_revision,
    )


def decode_broker_state(item: Item) -> BrokerState:
    """Raises StoreCorrupt where the value is none."""
    return BrokerState(_parsed(item, wire.BrokerState.FromString).storage_uuid)


def decode_topic(item: Item) -> TopicState:
    """Raises StoreCorrupt where the value is none."""
    message = _parsed(item, wire.Topic.FromString)
    return TopicState(
        name=message.name,
        topic_id=TopicId(message.topic_id),
        partitions=message.partitions,
        internal=message.internal,
        configs=dict(message.configs),
        revision=item.mod_revision,
    )


def decode_partition(item: Item) -> PartitionState:
    """Raises StoreCorrupt where the value is none."""
    message = _parsed(item, wire.PartitionState.FromString)
    return PartitionState(
        replicas=tuple(message.replicas),
        in_sync=tuple(message.in_sync),
        leader=message.leader,
        leader_epoch=message.leader_epoch,
        eligible=tuple(message.eligible),
        partition_epoch=item.mod_revision,
    )


def decode_id_block(item: Item) -> IdBlock:
    """Raises StoreCorrupt where the value is none."""
    return IdBlock(_parsed(item, wire.IdBlock.FromString).next, item.mod_revision)


def _parsed(item: Item, parse: Callable[[bytes], _Value]) -> _Value:
    try:
        return parse(item.value)
    except DecodeError as error:
        raise StoreCorrupt(
            f"The value of '{item.key}' in the metadata store cannot be read", cause=str(error)
        ) from error
