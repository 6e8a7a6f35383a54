"""A record as the reader receives it: the last thing the codec makes and the first a person sees.

`decoder` makes one for each record of a batch. What all records of a batch share (topic,
partition, ...) is kept once, in their `Origin`, so that a record is six fields and not nine.
Invariant: nothing changes a record, and it keeps no buffer alive but its own key and value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from mypy_extensions import i64

#: Names are text, values are bytes or None; the order of a record's headers is kept.
Headers = tuple[tuple[str, bytes | None], ...]

NO_HEADERS: Final[Headers] = ()

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

_SHOWN_BYTES: Final = 48


@mypyc_attr(acyclic=True)
class Origin:
    """Where the records of one batch come from."""

    __slots__ = ("leader_epoch", "partition", "timestamp_type", "topic")

    def __init__(
        self, topic: str, partition: i64, leader_epoch: i64 = -1, timestamp_type: i64 = CREATE_TIME
    ) -> None:
        self.topic: str = topic
        self.partition: i64 = partition
        self.leader_epoch: i64 = leader_epoch
        self.timestamp_type: i64 = timestamp_type

    def fields(self) -> tuple[str, int, int, int]:
        """The arguments that make this origin again."""
        return self.topic, self.partition, self.leader_epoch, self.timestamp_type

    def __reduce__(self) -> tuple[Any, ...]:
        return Origin, self.fields()


# Neither class can be part of a reference cycle, so the compiled twin spares the collector them:
# lists of a hundred thousand records are what it would otherwise walk again and again.
@mypyc_attr(acyclic=True)
class Record:
    """One record of a partition.

    `key` and `value` are bytes or None, `timestamp` is in milliseconds since 1970 (UTC),
    `headers` pairs of a name and bytes or None.
    """

    __slots__ = ("headers", "key", "offset", "origin", "timestamp", "value")

    def __init__(  # noqa: PLR0917 - keywords would cost the decoder more than the record
        self,
        origin: Origin,
        offset: i64,
        timestamp: i64,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        self.origin: Origin = origin
        self.offset: i64 = offset
        self.timestamp: i64 = timestamp
        self.key: bytes | None = key
        self.value: bytes | None = value
        self.headers: Headers = headers

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self.origin.topic

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.origin.partition

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that took the record; -1 where it is not known."""
        return self.origin.leader_epoch

    @property
    def timestamp_type(self) -> int:
        """`CREATE_TIME` (the producer's clock) or `LOG_APPEND_TIME` (the broker's)."""
        return self.origin.timestamp_type

    def fields(self) -> tuple[Origin, int, int, bytes | None, bytes | None, Headers]:
        """The arguments that make this record again."""
        return self.origin, self.offset, self.timestamp, self.key, self.value, self.headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return False
        return (
            self.fields()[1:] == other.fields()[1:]
            and self.origin.fields() == other.origin.fields()
        )

    def __hash__(self) -> int:
        return hash((self.origin.topic, self.origin.partition, self.offset))

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, self.fields()

    def __repr__(self) -> str:
        return (
            f"Record(topic={self.origin.topic!r}, partition={self.origin.partition}, "
            f"offset={self.offset}, timestamp={self.timestamp}, key={_shown(self.key)}, "
            f"value={_shown(self.value)}, headers={self.headers!r})"
        )


def _shown(payload: bytes | None) -> str:
    if payload is None or len(payload) <= _SHOWN_BYTES:
        return repr(payload)
    return f"{payload[:_SHOWN_BYTES]!r}... ({len(payload)} bytes)"
