"""Creating topics, adding partitions to them, deleting them.

The controller's shell calls these with its view and carries the plans out. A partition's first
leader is its first replica, and all its replicas begin in sync: they are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.errors import (
    InvalidPartitions,
    InvalidRequest,
    StorageError,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
)
from tidelog.model import TopicId
from tidelog.wording import counted
from tidelog_controller.core.configs import checked_configs
from tidelog_controller.core.names import (
    check_name,
    check_no_collision,
    check_open_to,
    existing_topic,
    is_internal,
)
from tidelog_controller.core.placement import RandomSource, check_assignment, place
from tidelog_controller.core.plan import Plan, Transaction, in_transactions
from tidelog_runtime.cluster_state import (
    PartitionState,
    TopicState,
    deleted_topic_key,
    partition_key,
    partitions_prefix,
    topic_key,
)
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.configs.broker import BrokerConfig
from tidelog_runtime.control import NewTopic, PartitionIncrease, TopicOutcome
from tidelog_runtime.metadata_store import Absent, Delete, DeletePrefix, ModRevisionIs, Put
from tidelog_runtime.principal import Principal

#: More than this in one call would keep everybody else waiting.
PARTITIONS_MAX: Final = 10_000
#: What clients send for "the cluster's default"; Kafka's send -1.
DEFAULT_WANTED: Final = (0, -1)


def plan_creation(
    request: NewTopic,
    view: ClusterView,
    config: BrokerConfig,
    random: RandomSource,
    principal: Principal,
) -> Plan:
    """The plan to create one topic; raises the refusal."""
    check_name(request.name)
    check_open_to(request.name, principal)
    if view.topic(request.name) is not None:
        raise TopicAlreadyExists(f"Topic '{request.name}' exists already")
    check_no_collision(request.name, view)
    configs = checked_configs(request.configs, config)
    replicas = _replicas_of(request, view, config, random)
    topic = TopicState(
        request.name, _new_topic_id(view, random), len(replicas), is_internal(request.name), configs
    )
    key = topic_key(topic.name)
    transactions = in_transactions(
        _partition_puts(topic.topic_id, replicas), Absent(key), Put(key, topic.encode())
    )
    return Plan(transactions, _outcome(topic, len(replicas[0])))


def plan_increase(
    request: PartitionIncrease, view: ClusterView, random: RandomSource, principal: Principal
) -> Plan:
    """The plan to add partitions to one topic; raises the refusal."""
    check_open_to(request.name, principal)
    topic = existing_topic(request.name, view)
    if request.total_partitions <= topic.partitions:
        raise InvalidPartitions(
            f"Topic '{topic.name}' has {counted(topic.partitions, 'partition')} already: a total of"
            f" {request.total_partitions} was asked for",
            hint="The number of partitions can only grow",
        )
    added = range(topic.partitions, request.total_partitions)
    _check_count(len(added))
    live = list(view.brokers)
    replication_factor = _replication_factor(topic, view)
    if replication_factor == 0:
        raise StorageError(
            f"Topic '{topic.name}' has lost its first partition in the metadata store",
            hint="It cannot grow any more; it can be deleted",
        )
    if request.assignment:
        replicas = check_assignment(request.assignment, added, live)
        if len(replicas[added.start]) != replication_factor:
            raise InvalidPartitions(
                f"The assignment has {len(replicas[added.start])} replicas for a partition;"
                f" those of topic '{topic.name}' have {replication_factor}"
            )
    else:
        replicas = place(added, replication_factor, live, random)
    grown = TopicState(
        topic.name, topic.topic_id, request.total_partitions, topic.internal, topic.configs
    )
    key = topic_key(topic.name)
    transactions = in_transactions(
        _partition_puts(topic.topic_id, replicas),
        ModRevisionIs(key, topic.revision),
        Put(key, grown.encode()),
    )
    return Plan(transactions, _outcome(grown, replication_factor))


def plan_deletion(
    topic: TopicState, view: ClusterView, config: BrokerConfig, principal: Principal
) -> Plan:
    """The plan to delete one topic with all its partitions; raises the refusal."""
    check_open_to(topic.name, principal)
    if not config.delete_topic_enable:
        raise TopicDeletionDisabled(
            f"Topic '{topic.name}' cannot be deleted: delete.topic.enable is false",
            hint="Set delete.topic.enable=true on the cluster",
        )
    key = topic_key(topic.name)
    transaction = Transaction(
        (ModRevisionIs(key, topic.revision),),
        (
            Delete(key),
            DeletePrefix(partitions_prefix(topic.topic_id)),
            Put(deleted_topic_key(topic.topic_id), topic.name.encode()),
        ),
    )
    return Plan((transaction,), _outcome(topic, _replication_factor(topic, view)))


def topic_of_id(topic_id: TopicId, view: ClusterView) -> TopicState:
    """The topic of this identity; UnknownTopicId where there is none."""
    topic = view.topic_by_id(topic_id)
    if topic is None:
        raise UnknownTopicId(f"No topic has the id {topic_id[:16].hex()}")
    return topic


def _replicas_of(
    request: NewTopic, view: ClusterView, config: BrokerConfig, random: RandomSource
) -> dict[int, tuple[int, ...]]:
    live = list(view.brokers)
    if request.assignment:
        if request.partitions not in DEFAULT_WANTED or (
            request.replication_factor not in DEFAULT_WANTED
        ):
            raise InvalidRequest(
                f"Topic '{request.name}' is asked for with an assignment and with numbers",
                hint="Give the assignment, or partitions and replication factor, not both",
            )
        _check_count(len(request.assignment))
        return check_assignment(request.assignment, range(len(request.assignment)), live)
    partitions = request.partitions
    if partitions in DEFAULT_WANTED:
        partitions = config.num_partitions
    replication_factor = request.replication_factor
    if replication_factor in DEFAULT_WANTED:
        replication_factor = config.default_replication_factor
    _check_count(partitions)
    return place(range(partitions), replication_factor, live, random)


def _check_count(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidPartitions(
            f"{partitions} partitions cannot be created",
            hint=f"Accepted: 1 to {PARTITIONS_MAX} in one call",
        )


def _partition_puts(topic_id: TopicId, replicas: Mapping[int, tuple[int, ...]]) -> list[Put]:
    return [
        Put(
            partition_key(topic_id, partition),
            PartitionState(brokers, brokers, leader=brokers[0], leader_epoch=0).encode(),
        )
        for partition, brokers in replicas.items()
    ]


def _new_topic_id(view: ClusterView, random: RandomSource) -> TopicId:
    while True:
        topic_id = TopicId(random.randbytes(16))
        if any(topic_id) and view.topic_by_id(topic_id) is None:
            return topic_id


def _replication_factor(topic: TopicState, view: ClusterView) -> int:
    """How many replicas the topic's partitions have; 0 where the store has lost the first one."""
    first = view.partition(topic.topic_id, 0)
    return len(first.replicas) if first is not None else 0


def _outcome(topic: TopicState, replication_factor: int) -> TopicOutcome:
    return TopicOutcome(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=topic.partitions,
        replication_factor=replication_factor,
        configs=topic.configs,
    )
