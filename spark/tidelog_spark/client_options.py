"""The options that become settings of the client: where the cluster is, and Kafka's `kafka.*` ones.

Sources and sinks share this. Invariant: a `kafka.*` option either becomes the setting of the same
meaning or is refused in words; a job that comes from Kafka never runs with half of its settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog.settings import addresses
from tidelog_spark.option_values import OptionValues

KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP_NAMES: Final = ("kafka.bootstrap.servers", "bootstrap.servers")

#: The settings that every client has.
COMMON_SETTINGS: Final = {
    "client.id": ("client_id", str),
    "request.timeout.ms": ("request_timeout_ms", int),
    "default.api.timeout.ms": ("default_api_timeout_ms", int),
}
_LATER: Final = "this version of Tidelog speaks plain text without authentication"
#: Settings of Kafka's clients that have no counterpart, with what to do instead.
KAFKA_REASONS: Final = {
    "auto.offset.reset": "startingOffsets says where to begin",
    "enable.auto.commit": "the query's checkpoint keeps its offsets",
    "interceptor.classes": "there are no interceptors",
    "key.deserializer": "keys are bytes: cast the column, or declare it `key string`",
    "value.deserializer": "values are bytes: cast the column, or declare it `value string`",
    "key.serializer": "keys are bytes or strings of the DataFrame",
    "value.serializer": "values are bytes or strings of the DataFrame",
    "group.id": "consumer groups come later; the query's checkpoint keeps its offsets",
    "max.poll.records": "batchRows says how many rows an Arrow batch holds",
}


def bootstrap_of(values: OptionValues) -> str:
    """The address of the cluster, under one of its two names."""
    given = {values.text(name) for name in values.given(*BOOTSTRAP_NAMES)}
    if len(given) > 1:
        raise InvalidConfig(
            f"{' and '.join(BOOTSTRAP_NAMES)} name different clusters", hint="Give one of them"
        )
    bootstrap = given.pop() if given else None
    if not bootstrap:
        raise InvalidConfig(
            "The option 'kafka.bootstrap.servers' is missing: it says where the cluster is",
            hint='For example .option("kafka.bootstrap.servers", "localhost:9094")',
        )
    return ",".join(addresses(bootstrap))


def client_settings(
    options: Mapping[str, str], known: Mapping[str, tuple[str, type]]
) -> dict[str, object]:
    """The `kafka.*` options as keyword arguments of a client; `known` maps what it takes."""
    values = OptionValues(options)
    settings: dict[str, object] = {}
    for option in options:
        name = option.lower().removeprefix(KAFKA_PREFIX)
        if not option.lower().startswith(KAFKA_PREFIX) or name == "bootstrap.servers":
            continue
        if name == "security.protocol":
            values.choice(option, {"plaintext": None}, default=None)
        elif name in known:
            keyword, kind = known[name]
            settings[keyword] = _typed(values, option, kind)
        else:
            raise _refused(option, name, known)
    return settings


def _typed(values: OptionValues, option: str, kind: type) -> object:
    if kind is bool:
        return values.flag(option, default=True)
    return values.number(option, least=0) if kind is int else values.text(option)


def _refused(option: str, name: str, known: Mapping[str, object]) -> InvalidConfig:
    if name.startswith(("ssl.", "sasl.")):
        return InvalidConfig(f"The option {option!r} is not possible: {_LATER}")
    if name in KAFKA_REASONS:
        return InvalidConfig(f"The option {option!r} is not possible: {KAFKA_REASONS[name]}")
    near = did_you_mean(option.lower(), [f"{KAFKA_PREFIX}{one}" for one in sorted(known)])
    return InvalidConfig(
        f"The option {option!r} sets nothing here",
        hint=near or f"After 'kafka.' there are bootstrap.servers, {', '.join(sorted(known))}",
    )
