"""Which partition each row of a column goes to, decided for all rows at once.

`columns` splits what `send_columns` is given by it; whoever splits rows by something else uses
`grouped` too. Invariant: a key goes where `partitioner.partition_of_key` would send it, and rows
that go to one place stay in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidPartitions, InvalidRecord
from tidelog.producer.partitioner import BY_KEY, IN_TURN, STICKY, Partitioner, murmur2
from tidelog.records.rows import payload_column

Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
#: Words are hashed for all keys at once, as long as many keys have so many; the rest of the very
#: long ones would be one step after the other for few.
_LONG_KEY_BYTES: Final = 256


def key_column(key: Any) -> Any:
    """Keys as one array of large binary."""
    return payload_column(key, "key")


def numbers(column: Any) -> Any:
    """Partitions as one Arrow array."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        try:
            column = pa.array(column, pa.int64())
        except (pa.ArrowException, TypeError, OverflowError) as failure:
            raise _no_partitions(column, failure) from failure
    array = column
    if not pa.types.is_integer(array.type):
        raise InvalidRecord(f"The partition column has the type {array.type}, not integers")
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid as failure:
        raise _no_partitions(column, failure) from failure


def _no_partitions(column: Any, failure: Exception) -> InvalidRecord:
    given = repr(column.to_pylist() if isinstance(column, pa.Array) else column)
    return InvalidRecord(
        f"partition={given:.80} is no column of partitions",
        cause=str(failure),
        hint="Give whole numbers, and None for rows whose key decides",
    )


def highest(column: Any) -> int:
    """The highest partition in a column; 0 where it names none."""
    return int(np.asarray(numbers(column).fill_null(0)).max(initial=0))


def chosen_partitions(
    partitioner: Partitioner, topic: str, partition_count: int, key: Any, rows: range
) -> Numbers:
    """The partition of each of these rows as its key says, or the partitioner; maybe STICKY."""
    if partitioner.kind == BY_KEY:
        if key is None:
            return np.full(len(rows), STICKY, np.int64)
        return key_partitions(key, partition_count)
    keys = [None] * len(rows) if key is None else key.to_pylist()
    chosen = [partitioner.choose(topic, one, partition_count) for one in keys]
    turns = [row % partition_count for row in rows]
    return np.where(np.equal(chosen, IN_TURN), turns, chosen)


def key_partitions(key: Any, partition_count: int) -> Numbers:
    """The partition of each key of a large binary array; STICKY for those that are null."""
    chosen = ((murmur2_of(key) & _POSITIVE) % np.uint32(partition_count)).astype(np.int64)
    if key.null_count:
        chosen[np.asarray(key.is_null())] = STICKY
    return chosen


def named_partitions(
    partition: Any, topic: str, partition_count: int, otherwise: Numbers
) -> Numbers:
    """The partitions that a column names, and those of `otherwise` where it is null.

    Raises `InvalidPartitions` for one that the topic has not.
    """
    is_named = np.asarray(partition.is_valid())
    named = np.asarray(partition.fill_null(0))
    bad = np.flatnonzero((named < 0) | (named >= partition_count))
    if bad.size:
        raise InvalidPartitions(
            f"Topic {topic!r} has no partition {named[bad[0]]}: it has {partition_count}, from 0 on"
        )
    return np.where(is_named, named, otherwise)


def settled(chosen: Numbers, turn: int) -> Numbers:
    """The same with `turn` for STICKY, unless all are, which then are a batch to each partition."""
    is_sticky = chosen == STICKY
    if is_sticky.all():
        return chosen
    return np.where(is_sticky, turn, chosen)


def grouped(chosen: npt.NDArray[Any]) -> Iterator[tuple[int, Numbers | None]]:
    """Each number that occurs, with its rows in their order; None where that is all of them."""
    least, most = int(chosen.min()), int(chosen.max())
    if least == most:
        yield least, None
        return
    narrow = np.int16 if least >= -(1 << 15) and most < 1 << 15 else np.int64
    order = np.argsort(chosen.astype(narrow), kind="stable")  # of 16 bits it is a radix sort
    ordered = chosen[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(order)]):
        yield int(ordered[start]), order[start:stop]


def murmur2_of(key: Any) -> Hashes:
    """The hash of each key of a large binary array; of a null whatever."""
    count = len(key)
    places = np.frombuffer(key.buffers()[1], np.int64, count + 1, key.offset * 8)
    start, length = places[:-1], np.diff(places)
    hashed = (length ^ _SEED).astype(np.uint32)
    content = key.buffers()[2]
    if content is None or not count or places[-1] == places[0]:
        return _finished(hashed)
    octets = np.frombuffer(content, np.uint8)
    short = np.minimum(length, _LONG_KEY_BYTES)
    _add_words(hashed, octets, start, short)
    _add_rest(hashed, octets, start, short)
    hashed = _finished(hashed)
    for row in np.flatnonzero(length > _LONG_KEY_BYTES):
        hashed[row] = murmur2(key[int(row)].as_py() or b"")
    return hashed


def _add_words(hashed: Hashes, octets: Any, start: Numbers, length: Numbers) -> None:
    """Mixes in the whole words of each key, the first of all keys, then the second of all."""
    longest, all_have = int(length.max()) // 4, int(length.min()) // 4
    if not longest:
        return
    words = np.ndarray((len(octets) - 3,), "<u4", octets, 0, (1,))
    for index in range(longest):
        every = index < all_have
        rows: Any = slice(None) if every else np.flatnonzero(length >= 4 * index + 4)
        word = words[start[rows] + 4 * index] * _MULTIPLIER
        word ^= word >> np.uint32(24)
        word *= _MULTIPLIER
        hashed[rows] = (hashed[rows] * _MULTIPLIER) ^ word


def _add_rest(hashed: Hashes, octets: Any, start: Numbers, length: Numbers) -> None:
    """Mixes in the one to three bytes that are left of each key."""
    rest = length & 3
    end = start + length - rest
    for index in (2, 1, 0):
        rows = np.flatnonzero(rest > index)
        byte = octets[end[rows] + index].astype(np.uint32)
        hashed[rows] ^= byte << np.uint32(8 * index)
    hashed[rest > 0] *= _MULTIPLIER


def _finished(hashed: Hashes) -> Hashes:
    hashed ^= hashed >> np.uint32(13)
    hashed *= _MULTIPLIER
    hashed ^= hashed >> np.uint32(15)
    return hashed
