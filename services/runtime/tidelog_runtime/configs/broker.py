"""The configuration of one node: where it listens and stores, and what its topics inherit.

Read once, at start, by the composition root; every service of the process gets the same
`BrokerConfig`. Names are Kafka's wherever the concept is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from tidelog.errors import InvalidConfig
from tidelog_runtime.config import ConfigDefinition, ConfigKey, ConfigValues, Source, SourceKind
from tidelog_runtime.configs.broker_keys import NODE_KEYS
from tidelog_runtime.configs.endpoint import Endpoint, parse_endpoint
from tidelog_runtime.configs.kafka_names import BROKER_NAMES_FOR_LATER
from tidelog_runtime.configs.topic import INHERITED_FROM, TOPIC_CONFIG, TopicConfig, topic_values


def _topic_default_keys() -> tuple[ConfigKey, ...]:
    return tuple(
        replace(
            TOPIC_CONFIG.key(name),
            name=broker_name,
            documentation=f"Default of the topics' {name}. {TOPIC_CONFIG.key(name).documentation}",
            dynamic=False,
        )
        for name, broker_name in INHERITED_FROM.items()
    )


_TOPIC_NAMES: Final = {
    name: f"It is a key of a topic; the broker's default for it is '{broker_name}'"
    for name, broker_name in INHERITED_FROM.items()
    if name != broker_name
}

BROKER_CONFIG: Final = ConfigDefinition(
    "broker",
    (*NODE_KEYS, *_topic_default_keys()),
    known={**_TOPIC_NAMES, **BROKER_NAMES_FOR_LATER},
)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What one node was started with. `values` remembers where each came from.

    What topics inherit (`log.retention.ms` and the like) is reached through `topic_config`.
    """

    values: ConfigValues
    node_id: int
    data_dir: str
    listener: Endpoint
    advertised_listener: Endpoint | None
    internal_port: int
    metrics_port: int
    flush_policy: str
    flush_ms: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int
    socket_request_max_bytes: int
    fetch_max_bytes: int
    queued_max_request_bytes: int
    max_concurrent_rpcs: int
    max_open_files: int
    producer_id_expiration_ms: int
    max_producer_ids_per_partition: int
    log_retention_check_interval_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    memory_tune: bool
    log_level: str
    log_format: str

    @classmethod
    def from_values(cls, values: ConfigValues) -> BrokerConfig:
        """The view of parsed values; raises InvalidConfig where two of them contradict."""
        _check_together(values)
        fields = values.as_fields()
        taken = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        return cls(
            values=values,
            listener=_endpoint(values, "listeners"),
            advertised_listener=_endpoint(values, "advertised.listeners")
            if values["advertised.listeners"]
            else None,
            **taken,
        )

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """What holds for a topic with these overrides; raises InvalidConfig for a bad one."""
        return TopicConfig.from_values(topic_values(overrides, self.values))


_BY_CALLER: Final = Source(SourceKind.FLAG, "by the program")


def default_broker_config(**texts: str) -> BrokerConfig:
    """The defaults, with some keys set by their snake_case names: for programs and tests."""
    by_field = {key.field_name: key.name for key in BROKER_CONFIG.keys}
    named = {by_field.get(field, field): text for field, text in texts.items()}
    return BrokerConfig.from_values(BROKER_CONFIG.parse(named, source=_BY_CALLER))


def _endpoint(values: ConfigValues, key: str) -> Endpoint:
    return parse_endpoint(values.text(key), key=key, where=values.source(key).where)


def _check_together(values: ConfigValues) -> None:
    if "," in values.text("data.dir") or not values["data.dir"]:
        raise InvalidConfig(
            f"Invalid value '{values.text('data.dir')}' for 'data.dir'"
            f" {values.source('data.dir').where}",
            hint="A node has one data directory",
        )
    _check_ports(values)
    _check_at_most(values, "message.max.bytes", "socket.request.max.bytes")
    _check_at_most(values, "socket.request.max.bytes", "queued.max.request.bytes")


def _check_ports(values: ConfigValues) -> None:
    ports = {name: int(values.text(name)) for name in ("internal.port", "metrics.port")}
    ports["listeners"] = _endpoint(values, "listeners").port
    for (first, port), (second, other) in combinations(sorted(ports.items()), 2):
        if port == other != 0:
            raise InvalidConfig(
                f"'{first}' ({values.source(first).where}) and '{second}'"
                f" ({values.source(second).where}) both take port {port}",
                hint="Give each a port of its own, or 0 for any free one",
            )


def _check_at_most(values: ConfigValues, smaller: str, larger: str) -> None:
    if int(values.text(smaller)) > int(values.text(larger)):
        raise InvalidConfig(
            f"'{smaller}' is {values.text(smaller)} ({values.source(smaller).where})"
            f" and '{larger}' only {values.text(larger)} ({values.source(larger).where})",
            hint=f"Lower '{smaller}' or raise '{larger}'",
        )
