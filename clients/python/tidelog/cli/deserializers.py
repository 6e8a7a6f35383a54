"""Bytes as text for the console consumer, by the names that Kafka gives to its deserializers.

`--key-deserializer`, `--value-deserializer` and the formatter's properties choose one; a function
of one's own is named `module:function`. What can't be read so raises SerializationFailed.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from importlib import import_module
from typing import Final

from tidelog.errors import InvalidConfig, SerializationFailed
from tidelog.nearest import did_you_mean

Deserializer = Callable[[bytes], bytes]

KAFKA_PACKAGE: Final = "org.apache.kafka.common.serialization."
SUFFIX: Final = "Deserializer"


def deserializer_named(name: str) -> Deserializer:
    """The deserializer of this name; InvalidConfig with the nearest when there is none."""
    if ":" in name:
        return _own(name)
    short = name.removeprefix(KAFKA_PACKAGE).removesuffix(SUFFIX)
    for known, deserializer in _KNOWN.items():
        if short.lower() == known.lower():
            return deserializer
    raise InvalidConfig(
        f"There is no deserializer {name!r}",
        hint=did_you_mean(short, _KNOWN)
        or f"There are {', '.join(_KNOWN)}, and module:function for one of your own",
    )


def _own(name: str) -> Deserializer:
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(import_module(module_name), function_name)
    except Exception as error:  # a module of the user's: anything may be wrong in it
        kind = (
            "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
        )
        raise InvalidConfig(
            f"The deserializer {name!r} can't be loaded",
            cause=f"{kind}{error}",
            hint="Write module:function; the module must be importable from here",
        ) from error

    def deserialize(payload: bytes) -> bytes:
        try:
            made = function(payload)
            return made if isinstance(made, bytes) else str(made).encode()
        except Exception as error:
            raise SerializationFailed(
                f"{name} failed", cause=f"{type(error).__name__}: {error}"
            ) from error

    return deserialize


def _text(payload: bytes) -> bytes:
    return payload.decode("utf-8", "replace").encode()


def _as_it_is(payload: bytes) -> bytes:
    return payload


def _number(kind: str, layout: str) -> Deserializer:
    packed = struct.Struct(layout)

    def deserialize(payload: bytes) -> bytes:
        if len(payload) != packed.size:
            raise SerializationFailed(
                f"{kind}{SUFFIX} needs {packed.size} bytes, there are {len(payload)}"
            )
        return str(packed.unpack(payload)[0]).encode()

    return deserialize


def _uuid(payload: bytes) -> bytes:
    try:
        return str(uuid.UUID(payload.decode())).encode()
    except ValueError as error:
        raise SerializationFailed(f"{payload!r} is no UUID", cause=str(error)) from error


_KNOWN: Final[dict[str, Deserializer]] = {
    "String": _text,
    "ByteArray": _as_it_is,
    "Bytes": _as_it_is,
    "Short": _number("Short", ">h"),
    "Integer": _number("Integer", ">i"),
    "Long": _number("Long", ">q"),
    "Float": _number("Float", ">f"),
    "Double": _number("Double", ">d"),
    "UUID": _uuid,
}
