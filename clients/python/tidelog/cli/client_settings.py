"""Kafka's client properties as settings of our clients, and the address to begin with.

Verbs hand over what their flags, `--command-config` and `--command-property` say. Invariant: a
property is used, or it is refused with the nearest name, or a line on stderr says that it has no
effect here; none is ever ignored silently.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.cli.flags import DECIMAL, DEFAULT_BOOTSTRAP, WHOLE_NUMBER
from tidelog.cli.property_files import read_properties
from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean
from tidelog.settings import addresses, read

#: Where our name isn't Kafka's in snake_case.
RENAMED: Final = {
    "compression.type": "compression",
    "compression.gzip.level": "compression_level",
    "compression.lz4.level": "compression_level",
    "compression.zstd.level": "compression_level",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "partitioner.class": "partitioner",
}

#: Kafka's properties that nothing here depends on, with the reason.
WITHOUT_EFFECT: Final = {
    "retries": "sending is repeated until delivery.timeout.ms has passed",
    "retry.backoff.ms": "the client chooses how long it waits before it repeats",
    "retry.backoff.max.ms": "the client chooses how long it waits before it repeats",
    "reconnect.backoff.ms": "the client chooses how long it waits before it reconnects",
    "reconnect.backoff.max.ms": "the client chooses how long it waits before it reconnects",
    "connections.max.idle.ms": "connections stay open",
    "socket.connection.setup.timeout.ms": "request.timeout.ms covers connecting",
    "send.buffer.bytes": "the system chooses the socket's buffers",
    "receive.buffer.bytes": "the system chooses the socket's buffers",
    "key.serializer": "these tools write bytes as they are",
    "value.serializer": "these tools write bytes as they are",
    "key.deserializer": "--key-deserializer chooses it",
    "value.deserializer": "--value-deserializer chooses it",
    "enable.auto.commit": "nothing is committed without a group",
    "auto.commit.interval.ms": "nothing is committed without a group",
}

#: Properties that promise what does not exist yet: to go on without them would be wrong.
NOT_YET: Final = {
    "transactional.id": "transactions",
    "group.id": "consumer groups",
    "group.instance.id": "consumer groups",
    "sasl.": "authentication",
    "ssl.": "encryption",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """Where to begin, and with which settings."""

    bootstrap: str
    settings: dict[str, Any]

    def reach(self) -> None:
        """Raises at once, and in words, when no broker is there: clients would wait for one."""
        import asyncio  # noqa: PLC0415 - as slow to import as all the rest of help

        asyncio.run(_reach(self.bootstrap))


def connection(
    options: argparse.Namespace,
    kind: type[Any],
    *property_lists: Iterable[tuple[str, str]] | None,
    client_id: str,
) -> Connection:
    """What the options say for a client whose settings are of this kind; later lists win."""
    properties = {"client.id": client_id} | read_properties(options.command_config)
    for properties_given in property_lists:
        properties |= dict(properties_given or ())
    named = properties.pop("bootstrap.servers", None)
    given = (options.bootstrap_server, named, DEFAULT_BOOTSTRAP)
    # An empty one is a script's unset variable: it must not end at some other cluster.
    bootstrap = next(address for address in given if address is not None)
    addresses(bootstrap)
    return Connection(bootstrap, settings_of(kind, properties))


def settings_of(kind: type[Any], properties: Mapping[str, str]) -> dict[str, Any]:
    """The keyword arguments that these properties mean, for clients with settings of this kind."""
    known = {field.name for field in dataclasses.fields(kind)}
    settings: dict[str, Any] = {}
    for name, text in properties.items():
        setting = RENAMED.get(name, name.replace(".", "_"))
        if setting in known:
            settings[setting] = _meant(kind, setting, text)
        elif name in WITHOUT_EFFECT:
            print(f"{name} has no effect here: {WITHOUT_EFFECT[name]}.", file=sys.stderr)
        else:
            _refuse(name, text, known)
    return settings


def _meant(kind: type[Any], setting: str, text: str) -> object:
    """The value that the setting takes among those that the text may mean."""
    refusals: list[InvalidConfig] = []
    for value in _values(text):
        try:
            read(kind, {setting: value}, "The client")
        except InvalidConfig as refusal:
            refusals.append(refusal)
        else:
            return value
    # A number that is too large must not be called no number, which its text is.
    raise refusals[0]


def _values(text: str) -> list[object]:
    words: dict[str, object] = {"true": True, "false": False}
    word = text.strip().lower()
    values: list[object] = [words[word]] if word in words else []
    if WHOLE_NUMBER.fullmatch(word):
        values.append(int(word))
    elif DECIMAL.fullmatch(word):
        values.append(float(word))
    return [*values, text]


def _refuse(name: str, text: str, known: Collection[str]) -> None:
    if name == "security.protocol" and text == "PLAINTEXT":
        return
    for beginning, what in {**NOT_YET, "security.protocol": "encryption"}.items():
        if name.startswith(beginning):
            raise InvalidConfig(
                f"{name}={text}: this Tidelog has no {what} yet", hint="Leave the property out"
            )
    names = {one.replace("_", ".") for one in known}
    names |= {renamed for renamed, setting in RENAMED.items() if setting in known}
    raise InvalidConfig(
        f"There is no client property {name!r}",
        hint=did_you_mean(name, names) or f"There are {', '.join(sorted(names))}",
    )


async def _reach(bootstrap: str) -> None:
    from tidelog.channel_grpc import grpc_channel_factory  # noqa: PLC0415 - grpc is slow to import
    from tidelog.engine.cluster import Cluster  # noqa: PLC0415

    cluster = Cluster(
        addresses(bootstrap), grpc_channel_factory(), client_id="tidelog-cli", request_timeout_s=5
    )
    try:
        await cluster.any_broker()
    finally:
        await cluster.close()
