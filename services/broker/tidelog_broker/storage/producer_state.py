"""What a log remembers of each producer, so that a retried batch is found and not written twice.

The broker asks `check` before it appends; every append and every replay of the log calls
`record`, so that a replica and a restart arrive at the same state. Per producer the last five
batches are kept: a producer has at most five in flight, so a lost reply is always among them.
Ids cost a client nothing, so their number is bounded: past the limit those that were silent for
longest are forgotten, which replicas decide alike, since their logs do.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownProducerId
from tidelog.records.batch import LOG_APPEND_TIME_BIT, BatchHeader
from tidelog_broker.storage.frames import DamagedFile, seal, unseal

_MAGIC: Final = b"TLps"
_VERSION: Final = 2
_PRODUCER: Final = struct.Struct(">qhqB")
_BATCH: Final = struct.Struct(">iiqq")

#: Batches remembered a producer, and the numbers kept of each:
#: base sequence, last sequence, base offset, time of the append.
BATCHES_KEPT: Final = 5
_NUMBERS: Final = 4
_NUMBERS_KEPT: Final = BATCHES_KEPT * _NUMBERS
_SEQUENCES: Final = 1 << 31


class Fresh(NamedTuple):
    """The batch is the next one of its producer: append it."""


class Duplicate(NamedTuple):
    """The batch is in the log already: answer as then, append nothing."""

    base_offset: int
    last_offset: int
    append_timestamp: int


FRESH: Final = Fresh()


class Producer:
    """One producer's epoch and last batches, flat in one array of numbers."""

    __slots__ = ("epoch", "numbers", "seen_offset", "silent_ms")

    def __init__(self, epoch: int, numbers: array[int], silent_ms: int = 0) -> None:
        self.epoch = epoch
        self.numbers = numbers
        #: For how long nothing was appended, and where its last batch stood when that was noted.
        self.silent_ms = silent_ms
        self.seen_offset = numbers[-2] if numbers else -1

    def batches(self) -> Iterator[tuple[int, int, int, int]]:
        """(base sequence, last sequence, base offset, time), oldest first."""
        numbers = self.numbers
        for at in range(0, len(numbers), _NUMBERS):
            yield numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]

    def find(self, base_sequence: int, last_sequence: int) -> Duplicate | None:
        """The batch with exactly these sequences."""
        for first, last, base_offset, timestamp in self.batches():
            if first == base_sequence and last == last_sequence:
                count = (last - first) % _SEQUENCES
                return Duplicate(base_offset, base_offset + count, timestamp)
        return None


class ProducerStates:
    """The producers of one log, at most `limit`."""

    __slots__ = ("_by_id", "_limit")

    def __init__(self, limit: int) -> None:
        self._by_id: dict[int, Producer] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._by_id)

    def summary(self) -> dict[int, tuple[int, list[tuple[int, int, int]]]]:
        """Epoch and batches by producer id, without the times: what replicas agree on."""
        return {
            producer_id: (producer.epoch, [batch[:3] for batch in producer.batches()])
            for producer_id, producer in sorted(self._by_id.items())
        }

    def check(self, header: BatchHeader, partition: object) -> Fresh | Duplicate:
        """Whether to append this batch; raises when it must not be."""
        producer_id = header.producer_id
        if producer_id < 0:
            return FRESH
        producer = self._by_id.get(producer_id)
        if producer is None:
            if header.base_sequence != 0:
                # What came before was refused, or forgotten: taken now, it would stand before it.
                raise UnknownProducerId(
                    f"Producer {producer_id} began with sequence {header.base_sequence} in"
                    f" {partition}, where nothing of it is known",
                    hint="Its next epoch may begin with sequence 0",
                )
            return FRESH
        epoch = header.producer_epoch
        base_sequence = header.base_sequence
        if epoch == producer.epoch:
            last = producer.numbers[-3]
            if base_sequence == last + 1 or (base_sequence == 0 and last == _SEQUENCES - 1):
                return FRESH
            duplicate = producer.find(base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
            raise OutOfOrderSequence(
                f"Producer {producer_id} sent sequence {base_sequence} to {partition} "
                f"after {last}; {(last + 1) % _SEQUENCES} was expected",
                cause="A batch before this one did not arrive, or is too old to be recognised",
            )
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"Producer {producer_id} sent epoch {epoch} to {partition}, "
                f"where its epoch is already {producer.epoch}"
            )
        if base_sequence != 0:
            raise OutOfOrderSequence(
                f"Producer {producer_id} began epoch {epoch} in {partition} with sequence "
                f"{base_sequence} instead of 0"
            )
        return FRESH

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """The batch stands in the log; never refuses, since the log is the truth."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            if len(self._by_id) >= self._limit:
                self._make_room()
            producer = self._by_id[header.producer_id] = Producer(header.producer_epoch, array("q"))
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.numbers = array("q")
        numbers = producer.numbers
        if len(numbers) == _NUMBERS_KEPT:
            del numbers[:_NUMBERS]
        numbers.extend((header.base_sequence, header.last_sequence, base_offset, now_ms))

    def _make_room(self) -> None:
        """Forget a tenth of them at once, so that looking for them costs each next one little."""
        silent_for_longest = sorted(self._by_id, key=self._last_offset)
        kept = self._limit - self._limit // 10 - 1
        for producer_id in silent_for_longest[: len(self._by_id) - kept]:
            del self._by_id[producer_id]

    def _last_offset(self, producer_id: int) -> int:
        return self._by_id[producer_id].numbers[-2]

    def replay(self, header: BatchHeader, now_ms: int) -> None:
        """The batch was found in the log; its own append time counts where the broker stamped it.

        So a repeat is answered as the first time, also after a restart.
        """
        stamped = header.attributes & LOG_APPEND_TIME_BIT
        self.record(header, header.base_offset, header.max_timestamp if stamped else now_ms)

    def expire(self, elapsed_ms: int, limit_ms: int) -> int:
        """Forget producers that stayed silent for so long; how many that were.

        `elapsed_ms` is the time that really passed since the last call. Neither the records'
        timestamps count, since a producer that loads old data is as alive as any other, nor the
        broker's wall clock, since one jump of it would make a repeat a new batch.
        """
        silent = []
        for producer_id, producer in self._by_id.items():
            last_offset = producer.numbers[-2]
            if last_offset != producer.seen_offset:
                producer.seen_offset, producer.silent_ms = last_offset, 0
                continue
            producer.silent_ms += elapsed_ms
            if producer.silent_ms > limit_ms:
                silent.append(producer_id)
        for producer_id in silent:
            del self._by_id[producer_id]
        return len(silent)

    def encode(self) -> bytes:
        """The content of a snapshot file."""
        parts = [struct.pack(">I", len(self._by_id))]
        for producer_id, producer in self._by_id.items():
            batches = list(producer.batches())
            known = (producer_id, producer.epoch, producer.silent_ms, len(batches))
            parts.append(_PRODUCER.pack(*known))
            parts += [_BATCH.pack(*batch) for batch in batches]
        return seal(_MAGIC, _VERSION, b"".join(parts))

    @classmethod
    def decode(cls, content: bytes, path: str, limit: int) -> ProducerStates:
        """The state in a snapshot file; DamagedFile when it cannot be trusted."""
        payload = unseal(content, _MAGIC, _VERSION, path)
        found = cls(limit)
        try:
            (count,) = struct.unpack_from(">I", payload)
            position = 4
            for _ in range(count):
                producer_id, epoch, silent_ms, batches = _PRODUCER.unpack_from(payload, position)
                position += _PRODUCER.size
                numbers = array("q")
                for _ in range(batches):
                    numbers.extend(_BATCH.unpack_from(payload, position))
                    position += _BATCH.size
                if not 1 <= batches <= BATCHES_KEPT:
                    raise DamagedFile(f"{path} holds {batches} batches of producer {producer_id}")
                found._by_id[producer_id] = Producer(epoch, numbers, silent_ms)
        except struct.error as error:
            raise DamagedFile(f"{path} ends within a producer", cause=str(error)) from None
        if len(found) > limit:
            found._make_room()
        return found
