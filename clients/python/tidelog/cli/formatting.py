"""Records as `console-consumer` prints them: Kafka's columns, or one JSON object a line.

The columns come from formatter properties with Kafka's names and defaults; keys, values and
headers go out as the bytes they are. Pure; the verb does the printing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidelog.cli.argument_bytes import argument_bytes
from tidelog.cli.deserializers import Deserializer, deserializer_named
from tidelog.cli.switches import boolean
from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean

if TYPE_CHECKING:
    from tidelog.records.record import Record

#: A record as bytes, its line's end included.
Formatter = Callable[["Record"], bytes]

COLUMNS: Final = (
    "timestamp",
    "partition",
    "offset",
    "delivery",
    "epoch",
    "headers",
    "key",
    "value",
)
SEPARATORS: Final = ("key.separator", "line.separator", "headers.separator", "null.literal")
DESERIALIZERS: Final = ("key.deserializer", "value.deserializer", "headers.deserializer")
PROPERTIES: Final = (*(f"print.{column}" for column in COLUMNS), *SEPARATORS, *DESERIALIZERS)

TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
#: Kafka's class, by its names over time, and shorter.
DEFAULT_NAMES: Final = (
    "default",
    "kafka.tools.DefaultMessageFormatter",
    "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
)
NO_OP_NAMES: Final = (
    "noop",
    "kafka.tools.NoOpMessageFormatter",
    "org.apache.kafka.tools.consumer.NoOpMessageFormatter",
)


@dataclass(frozen=True, slots=True)
class ColumnFormatter:
    """Kafka's default formatter."""

    columns: frozenset[str] = frozenset({"value"})
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    deserializers: Mapping[str, Deserializer] = field(default_factory=dict)

    def __call__(self, record: Record) -> bytes:
        """The record's line; nothing when every column is switched off."""
        parts = [
            getattr(self, f"_{column}")(record) for column in COLUMNS if column in self.columns
        ]
        return self.key_separator.join(parts) + self.line_separator if parts else b""

    def _timestamp(self, record: Record) -> bytes:
        if record.timestamp < 0:
            return b"NO_TIMESTAMP"
        return f"{TIMESTAMP_TYPES[record.timestamp_type]}:{record.timestamp}".encode()

    def _partition(self, record: Record) -> bytes:
        return b"Partition:%d" % record.partition

    def _offset(self, record: Record) -> bytes:
        return b"Offset:%d" % record.offset

    def _delivery(self, _: Record) -> bytes:
        return b"Delivery:NONE"  # counted for share groups only

    def _epoch(self, record: Record) -> bytes:
        return b"Epoch:%d" % record.leader_epoch if record.leader_epoch >= 0 else b"Epoch:NONE"

    def _headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self._shown("headers", value) for name, value in record.headers
        )

    def _key(self, record: Record) -> bytes:
        return self._shown("key", record.key)

    def _value(self, record: Record) -> bytes:
        return self._shown("value", record.value)

    def _shown(self, part: str, payload: bytes | None) -> bytes:
        if payload is None:
            return self.null_literal
        deserializer = self.deserializers.get(part)
        return payload if deserializer is None else deserializer(payload)


def column_formatter(properties: Mapping[str, str]) -> ColumnFormatter:
    """The formatter that these properties describe; InvalidConfig for one that is unknown."""
    columns = {"value"}
    separators: dict[str, bytes] = {}
    deserializers: dict[str, Deserializer] = {}
    for name, text in properties.items():
        part = name.removeprefix("print.").removesuffix(".deserializer")
        if name not in PROPERTIES:
            raise InvalidConfig(
                f"There is no formatter property {name!r}",
                hint=did_you_mean(name, PROPERTIES) or f"There are {', '.join(PROPERTIES)}",
            )
        if name in SEPARATORS:
            separators[name.replace(".", "_")] = argument_bytes(name, text)
        elif name in DESERIALIZERS:
            deserializers[part] = deserializer_named(text)
        elif boolean(name, text):
            columns.add(part)
        else:
            columns.discard(part)
    return ColumnFormatter(frozenset(columns), deserializers=deserializers, **separators)


def formatter_named(name: str, properties: Mapping[str, str]) -> Formatter:
    """The formatter that `--formatter` names."""
    if name in DEFAULT_NAMES:
        return column_formatter(properties)
    if name in NO_OP_NAMES:
        if properties:
            raise InvalidConfig(
                f"The formatter {name!r} prints nothing", hint="Leave its properties out"
            )
        return lambda record: b""
    raise InvalidConfig(
        f"There is no formatter {name!r}",
        hint=did_you_mean(name, (*DEFAULT_NAMES, *NO_OP_NAMES))
        or "There are default and noop (and Kafka's names for them); --json prints objects",
    )


def json_line(record: Record) -> bytes:
    """The record as one JSON object; bytes that are no UTF-8 stand as base64 under `..._base64`."""
    return (json.dumps(record_as_json(record), ensure_ascii=False) + "\n").encode()


def record_as_json(record: Record) -> dict[str, object]:
    """What `json_line` prints."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[record.timestamp_type],
        "leader_epoch": record.leader_epoch,
        **payload_as_json("key", record.key),
        **payload_as_json("value", record.value),
        "headers": [
            {"name": name, **payload_as_json("value", value)} for name, value in record.headers
        ],
    }


def payload_as_json(name: str, payload: bytes | None) -> dict[str, str | None]:
    """A key or value under its name, or as base64 under another where it is no text."""
    if payload is None:
        return {name: None}
    try:
        return {name: payload.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(payload).decode()}
