"""What the consumer's tests share: recognisable records, and a thread for sync readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from harness.nodes import LiveNode
from tidelog.consumer.record_types import ConsumerRecord
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression

Result = TypeVar("Result")

#: Timestamps of the records: one millisecond from each to the next.
FIRST_TIMESTAMP: Final = 1_700_000_000_000


class Expected(NamedTuple):
    """A record as it must arrive."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def expected(offset: int) -> Expected:
    """The record at an offset: nulls, empties and headers among them."""
    return Expected(
        offset,
        FIRST_TIMESTAMP + offset,
        None if offset % 5 == 0 else b"key %d" % (offset % 97),
        None if offset % 31 == 0 else b"value %d" % offset * (1 + offset % 3),
        (("number", b"%d" % offset), ("none", None)) if offset % 7 == 0 else (),
    )


def as_expected(record: ConsumerRecord[bytes, bytes]) -> Expected:
    """What arrived, in the same form."""
    return Expected(record.offset, record.timestamp, record.key, record.value, record.headers)


def batches_of(
    start: int, count: int, *, per_batch: int = 1_000, compression: Compression = Compression.NONE
) -> list[bytes]:
    """Batches of the records of these offsets."""
    batches = []
    for first in range(start, start + count, per_batch):
        builder = BatchBuilder(64 << 20)
        for offset in range(first, min(first + per_batch, start + count)):
            record = expected(offset)
            assert builder.append(record.value, record.key, record.headers, record.timestamp)
        batches.append(builder.build(compression))
    return batches


async def fill(node: LiveNode, topic: str, batches: Sequence[bytes], partition: int = 0) -> None:
    """Produces batches one after the other."""
    for batch in batches:
        ack = await node.client.produce(topic, batch, partition=partition)
        assert not ack.HasField("error"), ack.error


async def in_thread(work: Callable[[], Result]) -> Result:
    """Runs what blocks beside the node's loop."""
    return await asyncio.to_thread(work)
