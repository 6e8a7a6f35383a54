"""Records as a consumer hands them out: as they are, or with deserialized keys and values.

`decoding` wraps records here when a consumer has deserializers. Invariant: nothing is deserialized
before it is asked for, and what can't be says which record it was and leaves the bytes at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tidelog.errors import SerializationFailed, TidelogError
from tidelog.records.record import Headers, Record

Key = TypeVar("Key")
Value = TypeVar("Value")
Key_co = TypeVar("Key_co", covariant=True)
Value_co = TypeVar("Value_co", covariant=True)
Decoded = TypeVar("Decoded")

Reader = Callable[[bytes | None], Decoded | None]


class ConsumerRecord(Protocol[Key_co, Value_co]):
    """What a consumer hands out: a record with its place in the log.

    Without deserializers it is a `tidelog.Record`, whose key and value are bytes or None.
    """

    @property
    def topic(self) -> str:
        """The name of the topic."""

    @property
    def partition(self) -> int:
        """The number of the partition."""

    @property
    def offset(self) -> int:
        """The record's place in its partition."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""

    @property
    def timestamp_type(self) -> int:
        """0: the producer's clock; 1: the broker's."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that took the record; -1 where it is not known."""

    @property
    def headers(self) -> Headers:
        """Pairs of a name and bytes or None."""

    @property
    def key(self) -> Key_co | None:
        """The key; None where the record has none."""

    @property
    def value(self) -> Value_co | None:
        """The value; None where the record has none."""


class Deserializers(Generic[Key, Value]):
    """What turns the bytes of keys and values into what the application works with."""

    __slots__ = ("key", "value")

    def __init__(self, key: Reader[Key] | None, value: Reader[Value] | None) -> None:
        self.key = key
        self.value = value

    @property
    def are_needed(self) -> bool:
        """False where records are handed out as they are."""
        return self.key is not None or self.value is not None


class TypedRecord(Generic[Key, Value]):
    """A record whose key and value are deserialized when they are asked for."""

    __slots__ = ("_deserializers", "record")

    def __init__(self, record: Record, deserializers: Deserializers[Key, Value]) -> None:
        self.record = record
        self._deserializers = deserializers

    @property
    def key(self) -> Key | None:
        """The key; `SerializationFailed` says why it can't be had."""
        return _deserialized(self.record, "key", self.record.key, self._deserializers.key)

    @property
    def value(self) -> Value | None:
        """The value; `SerializationFailed` says why it can't be had."""
        return _deserialized(self.record, "value", self.record.value, self._deserializers.value)

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self.record.topic

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.record.partition

    @property
    def offset(self) -> int:
        """The record's place in its partition."""
        return self.record.offset

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
        return self.record.timestamp

    @property
    def timestamp_type(self) -> int:
        """0: the producer's clock; 1: the broker's."""
        return self.record.timestamp_type

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that took the record; -1 where it is not known."""
        return self.record.leader_epoch

    @property
    def headers(self) -> Headers:
        """Pairs of a name and bytes or None."""
        return self.record.headers

    def __repr__(self) -> str:
        return f"Typed{self.record!r}"


def _deserialized(
    record: Record,
    field: str,
    payload: bytes | None,
    deserializer: Reader[Decoded] | None,
) -> Decoded | None:
    if payload is None:
        return None
    if deserializer is None:
        return payload  # type: ignore[return-value] # without one, bytes are what was asked for
    try:
        return deserializer(payload)
    except TidelogError:
        raise
    except Exception as error:
        raise SerializationFailed(
            f"The {field} of the record at offset {record.offset} of"
            f" {record.topic}-{record.partition} can't be deserialized",
            cause=f"{type(error).__name__}: {error}",
            hint=f"record.record.{field} has its bytes",
        ) from error
