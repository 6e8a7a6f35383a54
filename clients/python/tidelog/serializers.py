"""Keys and values as Python objects: how a producer writes them and a consumer reads them back.

A `Serializer` goes both ways: producer and consumer of a topic name the same one. Invariant:
None stays None (a record without a value is a deletion mark), whatever the serializer.
"""

from __future__ import annotations

import dataclasses
import json as standard_json
from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_type_hints

from tidelog.errors import InvalidConfig

T = TypeVar("T")


class Serializer(Generic[T]):
    """A pair of functions: objects to bytes, and back."""

    __slots__ = ("deserialize", "name", "serialize")

    def __init__(
        self,
        name: str,
        serialize: Callable[[T | None], bytes | None],
        deserialize: Callable[[bytes | None], T | None],
    ) -> None:
        self.name = name
        self.serialize = serialize
        self.deserialize = deserialize

    def __repr__(self) -> str:
        return f"tidelog.{self.name}"


def _utf8_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _utf8_text(payload: bytes | None) -> str | None:
    return None if payload is None else payload.decode()


#: Text, as UTF-8.
utf8: Serializer[str] = Serializer("utf8", _utf8_bytes, _utf8_text)


def _same(payload: bytes | None) -> bytes | None:
    return payload


#: Bytes as they are: the same as naming no serializer.
none: Serializer[bytes] = Serializer("none", _same, _same)


def json(kind: type[T]) -> Serializer[T]:
    """JSON of a dataclass, or of what JSON knows itself (`dict`, `list`, `str`, numbers).

    A dataclass is written as an object of its fields and read back by calling it with them;
    a field that is a dataclass itself is built as well.
    """

    def serialize(thing: T | None) -> bytes | None:
        if thing is None:
            return None
        if not isinstance(thing, kind):
            raise TypeError(f"expected {kind.__name__}, got {type(thing).__name__}")
        plain: Any = thing
        if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
            plain = dataclasses.asdict(thing)
        return standard_json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()

    def deserialize(payload: bytes | None) -> T | None:
        if payload is None:
            return None
        found: T = _built(kind, standard_json.loads(payload))
        return found

    return Serializer(f"json({kind.__name__})", serialize, deserialize)


def _built(kind: Any, plain: Any) -> Any:
    """`plain` as an instance of `kind` where that is a dataclass; as it is elsewhere."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        if isinstance(kind, type) and not isinstance(plain, kind):
            raise TypeError(f"expected {kind.__name__}, got {type(plain).__name__}")
        return plain
    if not isinstance(plain, dict):
        raise TypeError(f"{kind.__name__} needs an object, got {type(plain).__name__}")
    hints = _field_types(kind)
    return kind(**{name: _field(hints.get(name), value) for name, value in plain.items()})


def _field_types(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _field(kind: Any, plain: Any) -> Any:
    is_nested = isinstance(kind, type) and dataclasses.is_dataclass(kind)
    return _built(kind, plain) if is_nested and plain is not None else plain


def writer_of(
    serializer: Serializer[Any] | Callable[[Any], bytes | None] | None, name: str
) -> Callable[[Any], bytes | None] | None:
    """The function that a producer calls for each key or value; None where bytes are given."""
    if serializer is None or serializer is none:
        return None
    if isinstance(serializer, Serializer):
        return serializer.serialize
    _check_callable(serializer, name)
    return serializer


def reader_of(
    serializer: Serializer[Any] | Callable[[bytes | None], Any] | None, name: str
) -> Callable[[bytes | None], Any] | None:
    """The function that a consumer calls for each key or value; None where bytes are wanted."""
    if serializer is None or serializer is none:
        return None
    if isinstance(serializer, Serializer):
        return serializer.deserialize
    _check_callable(serializer, name)
    return serializer


def _check_callable(function: object, name: str) -> None:
    if not callable(function):
        raise InvalidConfig(
            f"{name}={function!r} is no serializer",
            hint="Use tidelog.utf8, tidelog.json(...), or a function of one argument",
        )
