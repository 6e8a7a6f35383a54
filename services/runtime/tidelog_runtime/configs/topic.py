"""The configuration of one topic: Kafka's keys as far as this version honours them.

The controller checks here what a client asks for before it stands in the metadata store; brokers
build `TopicConfig` from what stands there over their own `log.*` defaults. A key of Kafka's that
has no effect here yet is refused in words, never accepted in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog_runtime.config import (
    INT_MAX,
    OF_TOPIC,
    ConfigDefinition,
    ConfigKey,
    ConfigType,
    ConfigValues,
    Setting,
)
from tidelog_runtime.configs.kafka_names import TOPIC_NAMES_FOR_LATER

#: No topic takes larger batches: in a log, a header that claims more is damage.
BATCH_BYTES_MAX: Final = 128 << 20

#: Topic key to the broker key that it inherits from, where nobody set it for the topic.
INHERITED_FROM: Final[Mapping[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
}

_COMPACTION = "Compaction comes in a later version; this one only deletes old segments"
_PRODUCER_COMPRESSES = (
    "A batch is stored as its producer compressed it: set the compression on the producer"
)

KEYS: Final = (
    ConfigKey(
        "cleanup.policy",
        ConfigType.LIST,
        ("delete",),
        "What happens to old segments: 'delete' drops them by age and size.",
        choices=("delete",),
        later={"compact": _COMPACTION},
        dynamic=True,
    ),
    ConfigKey(
        "compression.type",
        ConfigType.STRING,
        "producer",
        "How batches are stored: 'producer' keeps them as they were sent.",
        choices=("producer",),
        later=dict.fromkeys(
            ("uncompressed", "none", "gzip", "snappy", "lz4", "zstd"), _PRODUCER_COMPRESSES
        ),
        dynamic=True,
    ),
    ConfigKey(
        "file.delete.delay.ms",
        ConfigType.DURATION,
        60_000,
        "How long the files of a deleted segment stay before their space is freed.",
        minimum=0,
        dynamic=True,
    ),
    ConfigKey(
        "index.interval.bytes",
        ConfigType.SIZE,
        4_096,
        "How many bytes of log lie between two entries of the offset index.",
        minimum=0,
        maximum=INT_MAX,
        dynamic=True,
    ),
    ConfigKey(
        "max.message.bytes",
        ConfigType.SIZE,
        1_048_588,
        "The largest batch that is accepted, after compression.",
        minimum=0,
        maximum=BATCH_BYTES_MAX,
        dynamic=True,
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        ConfigType.DURATION,
        3_600_000,
        "How far a batch's greatest timestamp may lie after the broker's clock.",
        minimum=0,
        dynamic=True,
    ),
    ConfigKey(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=True,
    ),
    ConfigKey(
        "min.insync.replicas",
        ConfigType.INT,
        1,
        "How many replicas must be in sync for a produce with acks=all to be accepted.",
        minimum=1,
        dynamic=True,
    ),
    ConfigKey(
        "retention.bytes",
        ConfigType.SIZE,
        -1,
        "How large a partition may grow before its oldest segments are dropped; -1: no limit.",
        minimum=-1,
        dynamic=True,
    ),
    ConfigKey(
        "retention.ms",
        ConfigType.DURATION,
        604_800_000,
        "How old records may become before their segment is dropped; -1: no limit.",
        minimum=-1,
        dynamic=True,
    ),
    ConfigKey(
        "segment.bytes",
        ConfigType.SIZE,
        1_073_741_824,
        "How large a segment grows before the next one is begun.",
        minimum=1 << 20,
        maximum=INT_MAX,
        dynamic=True,
    ),
    ConfigKey(
        "segment.ms",
        ConfigType.DURATION,
        604_800_000,
        "How old a segment grows before the next one is begun, full or not.",
        minimum=1,
        dynamic=True,
    ),
)

_BROKER_NAMES: Final = {
    broker_name: f"It is a key of the broker; the topic's is '{name}'"
    for name, broker_name in INHERITED_FROM.items()
    if broker_name not in INHERITED_FROM
}

TOPIC_CONFIG: Final = ConfigDefinition(
    "topic", KEYS, known={**_BROKER_NAMES, **TOPIC_NAMES_FOR_LATER}
)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What holds for one topic: its own settings over the broker's over the defaults."""

    cleanup_policy: tuple[str, ...]
    compression_type: str
    file_delete_delay_ms: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_type: str
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_ms: int

    @classmethod
    def from_values(cls, values: ConfigValues) -> TopicConfig:
        """The view of parsed values."""
        return cls(**values.as_fields())

    @property
    def stamps_append_time(self) -> bool:
        """True where the broker's clock, not the producer's, stamps the records."""
        return self.message_timestamp_type == "LogAppendTime"


def topic_values(overrides: Mapping[str, str], broker: ConfigValues) -> ConfigValues:
    """A topic's values with their sources: its overrides over what the broker was started with.

    Raises InvalidConfig for an override that is not accepted.
    """
    inherited = [
        Setting(name, broker.text(broker_name), broker.source(broker_name))
        for name, broker_name in INHERITED_FROM.items()
        if broker.source(broker_name).kind.is_static
    ]
    own = [Setting(name, text, OF_TOPIC) for name, text in overrides.items()]
    return TOPIC_CONFIG.resolve(own, inherited)
