"""`send` and its kin: the part of a producer that runs once a record, in the caller's thread.

`Producer` and `AsyncProducer` inherit it and add what happens rarely. Invariant: a wrong call is
refused here, before anything is sent or stored. Compiled by mypyc, so that a record costs a few
hundred nanoseconds; everything rare is behind a method of the subclass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic

from mypy_extensions import mypyc_attr

from tidelog.engine.partition_names import LARGEST_PARTITION
from tidelog.engine.places import milliseconds, without_zone
from tidelog.engine.time_limits import seconds
from tidelog.errors import (
    InvalidPartitions,
    InvalidRequest,
    InvalidTimestamp,
    InvalidTopic,
    SerializationFailed,
    TidelogError,
)
from tidelog.producer.accumulator import Accumulator, Headers, TopicRoute
from tidelog.producer.delivery import Delivery
from tidelog.producer.partitioner import Partitioner
from tidelog.producer.type_variables import K, V

if TYPE_CHECKING:
    from mypy_extensions import i64

HeadersLike = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
Serializer = Callable[[Any], bytes | None]

_NO_HEADERS: Final[Headers] = ()
_TIMESTAMP_MAX: Final = 2**63 - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class HandingOver(Generic[K, V]):
    """The path of a record from the caller into the accumulator."""

    def __init__(
        self,
        accumulator: Accumulator,
        partitioner: Partitioner,
        key: Serializer | None,
        value: Serializer | None,
    ) -> None:
        self._accumulator: Accumulator = accumulator
        self._partitioner: Partitioner = partitioner
        self._key: Serializer | None = key
        self._value: Serializer | None = value
        self._wall_clock: Callable[[], float] = time.time

    def _find_route(self, topic: str) -> TopicRoute | None:
        """Where a topic's records go, when it isn't known yet; None: stage the record."""
        raise NotImplementedError

    def _route_with(self, route: TopicRoute, partition: int) -> TopicRoute:
        """A partition is named that the route lacks: the topic may have grown."""
        raise NotImplementedError

    def _stage(
        self,
        topic: str,
        record: tuple[bytes | None, bytes | None, Headers, int],
        partition: int | None,
        limit_s: float | None,
    ) -> Delivery:
        """Keeps a record until its topic is known."""
        raise NotImplementedError

    def _make_room(self) -> None:
        """The buffer is full: waits for room, or raises BufferFull."""
        raise NotImplementedError


def hand_over(  # noqa: PLR0912, PLR0913, PLR0917 - called once a record
    path: HandingOver[Any, Any],
    topic: Any,
    value: Any,
    key: Any,
    headers: HeadersLike | None,
    timestamp: int | datetime | None,
    partition: Any,
    on_delivery: Callable[[Delivery], object] | None,
    delivery_timeout: float | timedelta | None,
) -> Delivery:
    """One record into its batch. Topic and partition are checked here, so that words tell."""
    accumulator = path._accumulator
    if not isinstance(topic, str):
        raise no_topic(topic)
    if partition is not None and not isinstance(partition, int):
        raise no_partition(partition)
    if on_delivery is not None and not callable(on_delivery):
        raise no_callback(on_delivery)
    if accumulator.refusal is not None:
        raise copy(accumulator.refusal)
    if path._value is not None or (value is not None and not isinstance(value, bytes)):
        value = to_bytes(value, path._value, "value", topic)
    raw_value: bytes | None = value
    raw_key: bytes | None = None
    if key is not None or path._key is not None:
        raw_key = to_bytes(key, path._key, "key", topic)
    timestamp_ms: i64 = 0
    if timestamp is None:
        timestamp_ms = int(path._wall_clock() * 1000.0)
    else:
        timestamp_ms = to_milliseconds(timestamp)
    pairs = _NO_HEADERS if headers is None else to_headers(headers)
    limit_s = None if delivery_timeout is None else seconds(delivery_timeout)
    route = accumulator.routes.get(topic)
    if route is None:
        route = path._find_route(topic)
    if not accumulator.has_room():
        path._make_room()
    if route is None:
        record = (raw_value, raw_key, pairs, int(timestamp_ms))
        delivery = path._stage(topic, record, possible(partition, topic), limit_s)
    else:
        number: i64 = 0
        if partition is None:
            number = path._partitioner.choose(topic, raw_key, len(route.slots))
        else:
            if partition >= len(route.slots):
                route = path._route_with(route, partition)
            number = checked(partition, route)
        if limit_s is None:
            delivery = accumulator.add(route, number, raw_value, raw_key, pairs, timestamp_ms)
        else:
            delivery = accumulator.add_alone(
                route, number, raw_value, raw_key, pairs, timestamp_ms, limit_s
            )
    if on_delivery is not None:
        delivery.add_done_callback(on_delivery)
    return delivery


def no_topic(topic: Any) -> InvalidTopic:
    """What anything but a text is refused with where a topic is meant."""
    return InvalidTopic(
        f"topic={topic!r:.80} is no name of a topic, but of type {type(topic).__name__}",
        hint="Give a str",
    )


def no_partition(partition: Any) -> InvalidPartitions:
    """What anything but a number is refused with where a partition is meant."""
    return InvalidPartitions(
        f"partition={partition!r:.80} is no partition, but of type {type(partition).__name__}",
        hint="Give an int, or leave it out: then the key decides",
    )


def no_callback(on_delivery: Any) -> InvalidRequest:
    """What can't be called is refused with, before the record is taken."""
    return InvalidRequest(
        f"on_delivery={on_delivery!r:.80} can't be called",
        hint="Give a function of one argument, the record's handle",
    )


def checked(partition: Any, route: TopicRoute) -> int:
    """A partition that was named by the caller."""
    if not isinstance(partition, int):
        raise no_partition(partition)
    if partition < 0 or partition >= len(route.slots):
        raise InvalidPartitions(
            f"Topic {route.topic!r} has no partition {partition}: it has {len(route.slots)},"
            " from 0 on"
        )
    return partition


def possible(partition: Any, topic: str) -> int | None:
    """A partition that was named by the caller, or none, where nobody knows yet how many exist."""
    if partition is not None and not 0 <= partition <= LARGEST_PARTITION:
        raise InvalidPartitions(
            f"Topic {topic!r} can have no partition {partition}: they go from 0 to"
            f" {LARGEST_PARTITION}"
        )
    named: int | None = partition
    return named


def to_bytes(payload: Any, serializer: Serializer | None, name: str, topic: str) -> bytes | None:
    """A key or value as it will stand in the log."""
    if serializer is not None:
        try:
            encoded = serializer(payload)
        except TidelogError:
            raise
        except Exception as failure:
            raise SerializationFailed(
                f"The {name} {payload!r:.80} for topic {topic!r} could not be turned into bytes",
                cause=f"{type(failure).__name__}: {failure}",
            ) from failure
        payload = encoded
    if payload is None or isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return encoded_text(payload, name)
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise SerializationFailed(
        f"A {name} for topic {topic!r} must be bytes, str or None, not {type(payload).__name__}",
        hint=f"Give the producer a serializer: {name}=tidelog.json(...) or a function",
    )


def encoded_text(text: str, what: str) -> bytes:
    """Text as UTF-8; half of a pair of surrogates, which a file's name may hold, has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as failure:
        raise SerializationFailed(
            f"The {what} {text!r:.80} could not be turned into bytes",
            cause=str(failure),
            hint="Give bytes, or text that is Unicode",
        ) from failure


def to_milliseconds(timestamp: int | datetime) -> int:
    """Milliseconds since 1970. A datetime must say its zone, as in every call that takes one."""
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise without_zone(timestamp)
        return milliseconds(timestamp)
    if not isinstance(timestamp, int):
        raise InvalidTimestamp(
            f"timestamp={timestamp!r:.80} is no time, but of type {type(timestamp).__name__}",
            hint="Give milliseconds since 1970 as an int, or a datetime with a time zone",
        )
    if not 0 <= timestamp <= _TIMESTAMP_MAX:
        raise InvalidTimestamp(
            f"The timestamp {timestamp} is not possible; milliseconds since 1970 are meant"
        )
    return timestamp


def to_headers(headers: HeadersLike) -> Headers:
    """Headers as pairs of a name and bytes."""
    if not isinstance(headers, Iterable):
        raise SerializationFailed(
            f"headers={headers!r:.80} are no headers",
            hint="Headers are a dict, or pairs of a name and a value",
        )
    pairs: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    found: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SerializationFailed(
                f"{pair!r:.80} is no header",
                hint="Headers are a dict, or pairs of a name and a value",
            )
        name, value = pair
        if not isinstance(name, str):
            raise SerializationFailed(f"The name of a header must be str, not {name!r}")
        if not name.isascii():
            encoded_text(name, "name of a header")
        if isinstance(value, str):
            value = encoded_text(value, "value of a header")
        elif isinstance(value, bytearray | memoryview):
            value = bytes(value)
        elif value is not None and not isinstance(value, bytes):
            raise SerializationFailed(
                f"The header {name!r} must be bytes, str or None, not {type(value).__name__}",
                hint="Encode it: headers pass through no serializer",
            )
        found.append((name, value))
    return found
