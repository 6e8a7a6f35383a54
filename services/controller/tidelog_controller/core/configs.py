"""Checking and changing what is set for a topic.

What the metadata store holds has passed `checked_configs`: canonical text, no aliases, only keys
that this version honours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.errors import InvalidConfig, InvalidRequest
from tidelog_controller.core.names import check_open_to, existing_topic
from tidelog_controller.core.plan import Plan, Transaction
from tidelog_runtime.cluster_state import TopicState, topic_key
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.config import ConfigType
from tidelog_runtime.configs.broker import BrokerConfig
from tidelog_runtime.configs.topic import TOPIC_CONFIG
from tidelog_runtime.control import (
    AlterOperation,
    ConfigAlteration,
    TopicAlteration,
    TopicOutcome,
)
from tidelog_runtime.metadata_store import ModRevisionIs, Put
from tidelog_runtime.principal import Principal

_ON_LISTS: Final = (AlterOperation.APPEND, AlterOperation.SUBTRACT)


def checked_configs(configs: Mapping[str, str], config: BrokerConfig) -> dict[str, str]:
    """These settings in canonical text; InvalidConfig where one cannot be accepted."""
    values = TOPIC_CONFIG.parse(configs)
    effective = config.topic_config(configs)
    if effective.max_message_bytes > config.socket_request_max_bytes:
        raise InvalidConfig(
            f"max.message.bytes={effective.max_message_bytes} is more than a request may hold",
            hint=f"The cluster's socket.request.max.bytes is {config.socket_request_max_bytes}",
        )
    return values.set_texts()


def plan_alteration(
    request: TopicAlteration, view: ClusterView, config: BrokerConfig, principal: Principal
) -> Plan:
    """The plan to change the configuration of one topic; raises the refusal."""
    check_open_to(request.name, principal)
    topic = existing_topic(request.name, view)
    configs = checked_configs(_altered(topic, request.alterations), config)
    changed = TopicState(topic.name, topic.topic_id, topic.partitions, topic.internal, configs)
    key = topic_key(topic.name)
    transaction = Transaction((ModRevisionIs(key, topic.revision),), (Put(key, changed.encode()),))
    outcome = TopicOutcome(
        topic.name, topic_id=topic.topic_id, partitions=topic.partitions, configs=configs
    )
    return Plan((transaction,) if configs != topic.configs else (), outcome)


def _altered(topic: TopicState, alterations: Sequence[ConfigAlteration]) -> dict[str, str]:
    configs = dict(topic.configs)
    seen: set[str] = set()
    for alteration in alterations:
        key = TOPIC_CONFIG.key(alteration.key)
        if key.name in seen:
            raise InvalidRequest(f"'{key.name}' of topic '{topic.name}' is altered twice at once")
        seen.add(key.name)
        if alteration.operation is AlterOperation.DELETE:
            configs.pop(key.name, None)
        elif alteration.operation is AlterOperation.SET:
            configs[key.name] = alteration.value
        else:
            present = configs.get(key.name, key.format(key.default))
            configs[key.name] = _on_list(key.name, key.type, alteration, present)
    return configs


def _on_list(name: str, type_: ConfigType, alteration: ConfigAlteration, present: str) -> str:
    operation = alteration.operation
    assert operation in _ON_LISTS
    if type_ is not ConfigType.LIST:
        raise InvalidConfig(
            f"'{name}' is no list: it cannot be changed by {operation.value}",
            hint="Set the whole value",
        )
    items = [item.strip() for item in present.split(",") if item.strip()]
    named = [item.strip() for item in alteration.value.split(",") if item.strip()]
    if operation is AlterOperation.APPEND:
        return ",".join([*items, *(item for item in named if item not in items)])
    return ",".join(item for item in items if item not in named)
