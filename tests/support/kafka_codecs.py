"""Record batches as two other clients write and read them: kafka-python and aiokafka.

The contract tests hold ours against theirs, and `golden/make_golden.py` keeps some of their bytes.
"""

from __future__ import annotations

import warnings
from typing import Any, Final, NamedTuple

from aiokafka.record import default_records as aiokafka_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.record import default_records as kafka_python_records

PEERS: Final[dict[str, Any]] = {
    "aiokafka": aiokafka_records,
    "kafka-python": kafka_python_records,
}


class Sample(NamedTuple):
    """A record as all codecs understand it."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


#: Nulls, empties, headers, every width of a varint that a small batch can have, going back in time.
SAMPLES: Final = [
    Sample(1_700_000_000_000, None, b"first", []),
    Sample(1_700_000_000_000, b"", b"", []),
    Sample(1_700_000_000_063, b"key", None, []),
    Sample(1_700_000_000_064, None, None, [("only", None)]),
    Sample(1_699_999_999_000, b"k" * 63, b"v" * 64, [("a", b"1"), ("a", b""), ("ü", b"\x00\xff")]),
    Sample(1_700_000_100_000, b"k" * 64, b"v" * 8_191, []),
    Sample(1_700_100_000_000, b"k", b"0123456789" * 900, [("h" * 70, b"x" * 200)]),
    *(Sample(1_700_000_000_000 + 7 * i, None, b"value %d" % i, []) for i in range(120)),
]


def peer_batch(
    peer: str,
    samples: list[Sample],
    compression: int,
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """The batch that another client builds of these records."""
    builder = PEERS[peer].DefaultRecordBatchBuilder(
        2, compression, int(transactional), *producer, 1 << 30
    )
    for index, sample in enumerate(samples):
        builder.append(index, sample.timestamp, sample.key, sample.value, sample.headers)
    return bytes(builder.build())


def peer_records(peer: str, batch: bytes) -> list[tuple[int, Sample]]:
    """Offsets and records that another client reads from a batch, its checksum checked."""
    read = PEERS[peer].DefaultRecordBatch(batch)
    assert read.validate_crc()
    return [
        (record.offset, Sample(record.timestamp, record.key, record.value, list(record.headers)))
        for record in read
    ]
