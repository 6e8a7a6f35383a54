"""Record batches for tests of storage, small and recognisable."""

from __future__ import annotations

from tidelog.records.batch import BatchHeader, batch_headers, read_header
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression


def batch(
    *values: bytes,
    timestamp: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    compression: Compression = Compression.NONE,
) -> bytes:
    """A batch of these values (one `x` when there are none), by this producer."""
    builder = BatchBuilder(64 << 20)
    for value in values or (b"x",):
        builder.append(value, None, (), timestamp)
    producer_id, epoch, sequence = producer
    return builder.build(
        compression, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def headers(content: bytes) -> list[BatchHeader]:
    """The headers of the batches in what a read returned; there must be whole batches only."""
    return list(batch_headers(content, whole=True))


def header_of(content: bytes) -> BatchHeader:
    """The header of one batch."""
    return read_header(content)
