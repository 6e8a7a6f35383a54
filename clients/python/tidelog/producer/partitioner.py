"""Which partition a record goes to: by its key, in turn, or as the user's own function says.

`accumulator` asks for each record that names no partition itself. Invariant: a key goes to the
partition that Kafka's Java client would choose, so that both can write to one topic. Records
without a key stay with one partition for a batch, then go on to the next. Compiled by mypyc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidelog.errors import InvalidConfig, InvalidPartitions, TidelogError
from tidelog.nearest import did_you_mean

if TYPE_CHECKING:
    from mypy_extensions import i64

#: `(topic, key, partition count) -> partition`.
PartitionFunction = Callable[[str, bytes | None, int], int]

#: What stands for a partition that the accumulator is to choose.
STICKY: Final = -1
IN_TURN: Final = -2

BY_KEY: Final = 0
ROUND_ROBIN: Final = 1
OWN_FUNCTION: Final = 2
_NAMES: Final = {"default": BY_KEY, "murmur2": BY_KEY, "round_robin": ROUND_ROBIN}

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def murmur2(key: bytes) -> int:
    """MurmurHash2 of 32 bits, seeded as Kafka does."""
    length: i64 = len(key)
    seed: i64 = _SEED
    hashed: i64 = seed ^ length
    whole: i64 = length - (length & 3)
    position: i64 = 0
    while position < whole:
        word: i64 = key[position]
        byte: i64 = key[position + 1]
        word |= byte << 8
        byte = key[position + 2]
        word |= byte << 16
        byte = key[position + 3]
        word |= byte << 24
        word = _times(word)
        word ^= word >> 24
        hashed = _times(hashed) ^ _times(word)
        position += 4
    rest: i64 = 0
    while position < length:
        byte = key[position]
        rest |= byte << (8 * (position - whole))
        position += 1
    if whole < length:
        hashed = _times(hashed ^ rest)
    hashed ^= hashed >> 13
    hashed = _times(hashed)
    return hashed ^ (hashed >> 15)


def _times(word: i64) -> i64:
    """The product with the multiplier in 32 bits, in halves so that 64 bits never overflow."""
    low: i64 = (word & 0xFFFF) * _MULTIPLIER
    high: i64 = ((word >> 16) * _MULTIPLIER) & 0xFFFF
    return (low + (high << 16)) & _MASK


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition that a key belongs to."""
    return (murmur2(key) & _POSITIVE) % partition_count


class Partitioner:
    """A choice that was checked: one of the named ones, or the user's function."""

    __slots__ = ("function", "kind")

    def __init__(self, choice: str | PartitionFunction) -> None:
        self.function: PartitionFunction | None = None
        if not isinstance(choice, str):
            self.kind: i64 = OWN_FUNCTION
            self.function = choice
            return
        kind = _NAMES.get(choice)
        if kind is None:
            raise InvalidConfig(
                f"There is no partitioner {choice!r}",
                hint=did_you_mean(choice, _NAMES)
                or f"Use one of {', '.join(_NAMES)}, or a function of topic, key and count",
            )
        self.kind = kind

    def choose(self, topic: str, key: bytes | None, partition_count: int) -> int:
        """The partition of a record, or STICKY or IN_TURN."""
        function = self.function
        if function is not None:
            return _ask(function, topic, key, partition_count)
        if self.kind == ROUND_ROBIN:
            return IN_TURN
        return STICKY if key is None else partition_of_key(key, partition_count)


def _ask(function: Any, topic: str, key: bytes | None, partition_count: int) -> int:
    """What the user's function says; the record is refused when it fails or names no number."""
    try:
        chosen = function(topic, key, partition_count)
    except TidelogError:
        raise
    except Exception as failure:
        raise InvalidPartitions(
            f"The partitioner failed for the key {key!r:.80} of topic {topic!r}",
            cause=f"{type(failure).__name__}: {failure}",
        ) from failure
    if not isinstance(chosen, int) or not 0 <= chosen < partition_count:
        raise InvalidPartitions(
            f"The partitioner gave {chosen!r:.80} for topic {topic!r}, which is no partition",
            hint=f"It returns an int from 0 to {partition_count - 1}",
        )
    return chosen
