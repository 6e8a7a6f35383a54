"""The options of a sink, read and checked once: what the batch and the stream writer obey.

Both writers make one before any task runs. Invariant: each option is obeyed or refused with a
reason; names and values are those of Spark's Kafka connector wherever it has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.errors import InvalidConfig
from tidelog.producer.producer_settings import producer_settings
from tidelog_spark.client_options import (
    BOOTSTRAP_NAMES,
    KAFKA_PREFIX,
    bootstrap_of,
    client_settings,
)
from tidelog_spark.option_names import SPARKS_OWN, refuse_unknown
from tidelog_spark.option_values import OptionValues

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"
DEFAULT_SINK: Final = "default"

#: Kafka's names of a producer's settings: our keyword, and what its text becomes.
PRODUCER_SETTINGS: Final[dict[str, tuple[str, type]]] = {
    "acks": ("acks", str),
    "batch.size": ("batch_size", int),
    "buffer.memory": ("buffer_memory", int),
    "client.id": ("client_id", str),
    "compression.type": ("compression", str),
    "compression.gzip.level": ("compression_level", int),
    "compression.lz4.level": ("compression_level", int),
    "compression.zstd.level": ("compression_level", int),
    "delivery.timeout.ms": ("delivery_timeout_ms", int),
    "enable.idempotence": ("enable_idempotence", bool),
    "linger.ms": ("linger_ms", int),
    "max.block.ms": ("max_block_ms", int),
    "max.in.flight.requests.per.connection": ("max_in_flight", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
    "partitioner.class": ("partitioner", str),
    "request.timeout.ms": ("request_timeout_ms", int),
}
_LEVEL: Final = re.compile(r"kafka\.compression\.(\w+)\.level")
_PARTITIONERS: Final = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
}

_TRANSACTIONS_LATER: Final = (
    "it needs transactions, which come later; until then writing is at least once: what a task or"
    " a batch that is run again had written before stands in the topic twice"
)
_SOURCES_OWN: Final = "it is one of reading"
_REASONS: Final = {
    "txnAppId": _TRANSACTIONS_LATER,
    "txnVersion": _TRANSACTIONS_LATER,
    "transaction.timeout.ms": _TRANSACTIONS_LATER,
    "kafka.transactional.id": _TRANSACTIONS_LATER,
    "kafka.transaction.timeout.ms": _TRANSACTIONS_LATER,
    **{name: f"write it '{KAFKA_PREFIX}{name}'" for name in PRODUCER_SETTINGS},
    **dict.fromkeys(("subscribe", "subscribePattern", "assign", "includeHeaders"), _SOURCES_OWN),
    **dict.fromkeys(("startingOffsets", "endingOffsets", "failOnDataLoss"), _SOURCES_OWN),
}
SINK_NAMES: Final = (*BOOTSTRAP_NAMES, "topic", "path", "sinkId", "deliveryGuarantee")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where a user wants rows to be written, and how."""

    bootstrap: str
    #: Where all rows go; None where their own column says it.
    topic: str | None
    #: Tells two sinks of one query apart.
    sink_id: str
    #: Keyword arguments of the producer.
    settings: Mapping[str, Any]


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options as they are meant; `InvalidConfig` says what is wrong with one."""
    refused = {name.lower() for name in _REASONS}
    rest = {
        name: value
        for name, value in options.items()
        if not name.lower().startswith(KAFKA_PREFIX) or name.lower() in refused
    }
    refuse_unknown(rest, (*SINK_NAMES, *SPARKS_OWN), reading_or_writing="writing", reasons=_REASONS)
    values = OptionValues(options)
    _check_guarantee(values)
    settings = _settings(options)
    producer_settings(dict(settings))
    return SinkOptions(
        bootstrap=bootstrap_of(values),
        topic=_topic(values),
        sink_id=values.text("sinkId") or DEFAULT_SINK,
        settings=settings,
    )


def _check_guarantee(values: OptionValues) -> None:
    name = "deliveryGuarantee"
    choices = {AT_LEAST_ONCE: AT_LEAST_ONCE, EXACTLY_ONCE: EXACTLY_ONCE}
    if values.choice(name, choices, default=AT_LEAST_ONCE) == EXACTLY_ONCE:
        raise InvalidConfig(f"{name}={EXACTLY_ONCE!r} is not possible: {_TRANSACTIONS_LATER}")


def _topic(values: OptionValues) -> str | None:
    given = {values.text(name) for name in values.given("topic", "path")}
    if len(given) > 1:
        raise InvalidConfig(
            f"The option topic={values.text('topic')!r} and the path {values.text('path')!r} name"
            " different topics",
            hint="Give one of them",
        )
    topic = given.pop() if given else None
    if topic == "":
        raise InvalidConfig(
            "The option 'topic' is empty", hint="Name a topic, or leave it out for a topic column"
        )
    return topic


def _settings(options: Mapping[str, str]) -> dict[str, object]:
    settings = client_settings(options, PRODUCER_SETTINGS)
    _refuse_foreign_levels(options, str(settings.get("compression", "none")))
    if settings.get("acks") == "-1":
        settings["acks"] = "all"
    named = settings.get("partitioner")
    if isinstance(named, str):
        settings["partitioner"] = _PARTITIONERS.get(named, named)
    return settings


def _refuse_foreign_levels(options: Mapping[str, str], compression: str) -> None:
    """One level is all that a producer has, and what is meant for another codec is none of it."""
    for option in options:
        level = _LEVEL.fullmatch(option.lower())
        if level is not None and level[1] != compression.lower():
            raise InvalidConfig(
                f"The option {option!r} sets nothing: kafka.compression.type is {compression!r}",
                hint=f'Give .option("kafka.compression.type", "{level[1]}"), or leave it out',
            )
