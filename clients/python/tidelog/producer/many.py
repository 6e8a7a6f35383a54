"""`send_many`: a list of values into batches with one call, one handle, and no object a record.

Both producers step through it, each pushing back in its own way when the buffer is full.
Invariant: all keys and values are checked before the first of them is taken. Compiled by mypyc.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidelog.errors import InvalidRecord, InvalidRequest
from tidelog.producer.accumulator import Accumulator, TopicRoute
from tidelog.producer.delivery import Deliveries
from tidelog.producer.handing_over import (
    HandingOver,
    Serializer,
    checked,
    to_bytes,
    to_milliseconds,
)
from tidelog.producer.partitioner import STICKY, Partitioner
from tidelog.wording import counted

if TYPE_CHECKING:
    from mypy_extensions import i64


class ManyRecords:
    """The records of one call, and how many of them are handed over."""

    __slots__ = (
        "_accumulator",
        "_done",
        "_keys",
        "_partition",
        "_partitioner",
        "_route",
        "_timestamp_ms",
        "_timestamps",
        "_values",
        "deliveries",
    )

    def __init__(  # noqa: PLR0917 - only the producers call it
        self,
        path: HandingOver[Any, Any],
        route: TopicRoute,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        timestamp: int | datetime | None,
        timestamps: Sequence[int | datetime] | None,
        partition: Any,
    ) -> None:
        self._accumulator: Accumulator = path._accumulator
        if self._accumulator.refusal is not None:
            raise copy(self._accumulator.refusal)
        self._partitioner: Partitioner = path._partitioner
        self._route: TopicRoute = route
        self._values: list[bytes | None] = payloads(values, path._value, "value", route.topic)
        self._keys: list[bytes | None] | None = None
        if keys is not None:
            self._keys = payloads(keys, path._key, "key", route.topic)
            if len(self._keys) != len(self._values):
                raise InvalidRecord(
                    f"There are {counted(len(self._values), 'value')} and"
                    f" {counted(len(self._keys), 'key')}"
                )
        if timestamps is not None and timestamp is not None:
            raise InvalidRequest("timestamp= and timestamps= are both given", hint="Give one")
        self._timestamps: list[int] | None = None
        if timestamps is not None:
            self._timestamps = [to_milliseconds(one) for one in timestamps]
            if len(self._timestamps) != len(self._values):
                raise InvalidRecord(
                    f"There are {counted(len(self._values), 'value')} and"
                    f" {counted(len(self._timestamps), 'timestamp')}"
                )
        if timestamp is None:
            self._timestamp_ms: i64 = int(path._wall_clock() * 1000.0)
        else:
            self._timestamp_ms = to_milliseconds(timestamp)
        self._partition: int | None = None
        if partition is not None:
            self._partition = checked(partition, route)
        self._done: i64 = 0
        self.deliveries: Deliveries = Deliveries(self._timestamp_ms, self._timestamps)

    def step(self) -> bool:
        """Hands over records while there is room; True when that were all of them."""
        accumulator = self._accumulator
        while self._done < len(self._values):
            if accumulator.refusal is not None:
                raise copy(accumulator.refusal)
            if not accumulator.has_room():
                return False
            self._some()
        return True

    def _some(self) -> None:
        partition = self._partition
        number: i64 = STICKY
        if partition is not None:
            number = partition
        elif self._keys is None:
            number = self._partitioner.choose(self._route.topic, None, len(self._route.slots))
        if self._keys is None and (partition is not None or number == STICKY):
            self._done += self._accumulator.add_many(
                self._route,
                number,
                self._values,
                self._done,
                self._timestamp_ms,
                self._timestamps,
                self.deliveries,
            )
            return
        self._one(number)

    def _one(self, number: i64) -> None:
        index = self._done
        key = None if self._keys is None else self._keys[index]
        if self._keys is not None and self._partition is None:
            number = self._partitioner.choose(self._route.topic, key, len(self._route.slots))
        timestamp_ms = self._timestamp_ms
        if self._timestamps is not None:
            timestamp_ms = self._timestamps[index]
        delivery = self._accumulator.add(
            self._route, number, self._values[index], key, (), timestamp_ms
        )
        self.deliveries.add(delivery._batch, delivery._index, 1)
        self._done = index + 1


def payloads(
    given: Sequence[Any], serializer: Serializer | None, name: str, topic: str
) -> list[bytes | None]:
    """Keys or values as they will stand in the log."""
    found: list[bytes | None] = []
    for payload in given:
        if serializer is None and (payload is None or isinstance(payload, bytes)):
            found.append(payload)
        else:
            found.append(to_bytes(payload, serializer, name, topic))
    return found
