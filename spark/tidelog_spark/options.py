"""The options of a source, read and checked once: what both the batch and the stream reader obey.

`batch_options` and `stream_options` make a `SourceOptions` of what the user wrote. Invariant: each
option is obeyed, refused with a reason, or, where Spark's Kafka connector does no more, warned
about; names and values are Kafka's wherever Kafka's connector has them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.consumer.settings import ConsumerSettings
from tidelog.errors import InvalidConfig
from tidelog.settings import read
from tidelog_spark.client_options import (
    BOOTSTRAP_NAMES,
    COMMON_SETTINGS,
    KAFKA_PREFIX,
    bootstrap_of,
    client_settings,
)
from tidelog_spark.option_names import SPARKS_OWN, refuse_unknown
from tidelog_spark.option_values import OptionValues
from tidelog_spark.position_options import END_NAMES, START_NAMES, ending, starting
from tidelog_spark.positions import LatestEachRead, Position
from tidelog_spark.selection import NAMES as SELECTION_NAMES
from tidelog_spark.selection import Selection, selection_of

logger = logging.getLogger(__name__)

DEFAULT_ROWS: Final = 16_384
DEFAULT_BYTES: Final = 2 << 20
MINUTE_MS: Final = 60_000

CONSUMER_SETTINGS: Final = COMMON_SETTINGS | {
    "check.crcs": ("check_crcs", bool),
    "client.rack": ("client_rack", str),
    "fetch.max.bytes": ("fetch_max_bytes", int),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", int),
    "fetch.min.bytes": ("fetch_min_bytes", int),
    "isolation.level": ("isolation_level", str),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", int),
}
TRIGGER_NAMES: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "latestOffset.pollMs",
)
SPLIT_NAMES: Final = ("minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition")
SOURCE_NAMES: Final = (
    *BOOTSTRAP_NAMES,
    *SELECTION_NAMES,
    *START_NAMES,
    *END_NAMES,
    *TRIGGER_NAMES,
    *SPLIT_NAMES,
    "failOnDataLoss",
    "includeHeaders",
    "isolation.level",
    "onInvalidUtf8",
    "batchRows",
    "batchBytes",
    "pushFilters",
    "commitOffsets",
    "kafkaConsumer.pollTimeoutMs",
    "partition.metadata.cache.ttl.ms",
)
_GROUPS_LATER: Final = (
    "consumer groups come later; until then the query's checkpoint alone keeps its offsets"
)
_SINKS_OWN: Final = "it is one of writing"
_RETRIES: Final = "questions are repeated until kafka.default.api.timeout.ms has passed"
REASONS: Final = {
    "group.id": _GROUPS_LATER,
    "groupIdPrefix": _GROUPS_LATER,
    "fetchOffset.numRetries": _RETRIES,
    "fetchOffset.retryIntervalMs": _RETRIES,
    "topic": _SINKS_OWN,
    "deliveryGuarantee": _SINKS_OWN,
    "sinkId": _SINKS_OWN,
    "txnAppId": _SINKS_OWN,
    "txnVersion": _SINKS_OWN,
    **dict.fromkeys(SPARKS_OWN, "it is one of the query: give it to writeStream"),
    **{name: f"write it '{KAFKA_PREFIX}{name}'" for name in CONSUMER_SETTINGS},
}


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much one micro-batch takes; None where nothing limits it."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    bytes_max: int | None = None
    delay_ms: int = 15 * MINUTE_MS

    @property
    def are_given(self) -> bool:
        """Whether anything is limited."""
        return any((self.offsets_max, self.offsets_min, self.bytes_max))


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """How ranges are cut into tasks; None where they are not."""

    partitions_min: int | None = None
    records_max: int | None = None
    bytes_max: int | None = None

    @property
    def are_given(self) -> bool:
        """Whether ranges are cut at all."""
        return any((self.partitions_min, self.records_max, self.bytes_max))


@dataclass(frozen=True, slots=True)
class RowOptions:
    """How records become rows."""

    rows_max: int = DEFAULT_ROWS
    bytes_max: int = DEFAULT_BYTES
    null_on_invalid_utf8: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a user wants to be read, and how."""

    bootstrap: str
    admin_settings: Mapping[str, object]
    consumer_settings: Mapping[str, object]
    selection: Selection
    start: Position
    end: Position
    limits: TriggerLimits
    split: SplitLimits
    rows: RowOptions
    fail_on_data_loss: bool
    push_filters: bool
    read_timeout_ms: int
    poll_ms: int
    metadata_ttl_ms: int


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of one read from here to there."""
    values = OptionValues(options)
    ignored = values.given(*TRIGGER_NAMES)
    if ignored:
        logger.warning("%s: without effect in a batch, which has no triggers", ", ".join(ignored))
    return _source_options(options, values, is_stream=False)


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a stream."""
    values = OptionValues(options)
    ends = values.given(*END_NAMES)
    if ends:
        raise InvalidConfig(
            f"The option {ends[0]!r} is not possible in a stream, which has no end",
            hint="trigger(availableNow=True) stops at what is there now",
        )
    if values.given("pushFilters"):
        raise InvalidConfig(
            "The option 'pushFilters' is not possible in a stream: Spark pushes no filters there"
        )
    return _source_options(options, values, is_stream=True)


def _source_options(
    options: Mapping[str, str], values: OptionValues, *, is_stream: bool
) -> SourceOptions:
    rest = {name: value for name, value in options.items() if not _is_kafkas(name)}
    refuse_unknown(rest, SOURCE_NAMES, reading_or_writing="reading", reasons=REASONS)
    if values.flag("commitOffsets", default=False):
        raise InvalidConfig(f"commitOffsets=true is not possible: {_GROUPS_LATER}")
    consumer = client_settings(options, CONSUMER_SETTINGS)
    isolation = values.text("isolation.level")
    if isolation is not None:
        if consumer.get("isolation_level", isolation) != isolation:
            raise InvalidConfig(
                "isolation.level and kafka.isolation.level differ: give one of them"
            )
        consumer["isolation_level"] = isolation
    read(ConsumerSettings, consumer, "The consumer of a task")  # a wrong value is refused here
    admin_names = {keyword for keyword, _ in COMMON_SETTINGS.values()}
    found = SourceOptions(
        bootstrap=bootstrap_of(values),
        admin_settings={name: value for name, value in consumer.items() if name in admin_names},
        consumer_settings=consumer,
        selection=selection_of(values),
        start=starting(values, is_stream=is_stream),
        end=ending(values),
        limits=_trigger_limits(values),
        split=SplitLimits(
            values.number("minPartitions"),
            values.number("maxRecordsPerPartition"),
            values.size_bytes("maxBytesPerPartition"),
        ),
        rows=_row_options(values),
        fail_on_data_loss=values.flag("failOnDataLoss", default=True),
        push_filters=values.flag("pushFilters", default=False),
        read_timeout_ms=values.duration_ms(
            "kafkaConsumer.pollTimeoutMs", default=2 * MINUTE_MS, least=1
        ),
        poll_ms=values.duration_ms("latestOffset.pollMs", default=100),
        metadata_ttl_ms=values.duration_ms(
            "partition.metadata.cache.ttl.ms", default=5_000, least=-1
        ),
    )
    values.flag("includeHeaders", default=False)  # it decides the schema; here it is only checked
    if isinstance(found.end, LatestEachRead) and found.split.are_given:
        raise InvalidConfig(
            f"endingOffsets=latest-each-read does not go with {values.given(*SPLIT_NAMES)[0]}",
            hint="What ends where it is read can't be cut before",
        )
    return found


def _is_kafkas(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith(KAFKA_PREFIX) and lowered not in BOOTSTRAP_NAMES


def _trigger_limits(values: OptionValues) -> TriggerLimits:
    limits = TriggerLimits(
        offsets_max=values.number("maxOffsetsPerTrigger"),
        offsets_min=values.number("minOffsetsPerTrigger"),
        bytes_max=values.size_bytes("maxBytesPerTrigger"),
        delay_ms=values.duration_ms("maxTriggerDelay", default=15 * MINUTE_MS),
    )
    least, most = limits.offsets_min, limits.offsets_max
    if least is not None and most is not None and least > most:
        raise InvalidConfig(
            f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}"
        )
    return limits


def _row_options(values: OptionValues) -> RowOptions:
    return RowOptions(
        rows_max=values.number("batchRows") or DEFAULT_ROWS,
        bytes_max=values.size_bytes("batchBytes") or DEFAULT_BYTES,
        null_on_invalid_utf8=values.choice(
            "onInvalidUtf8", {"error": False, "null": True}, default=False
        ),
    )
