"""The settings of a consumer: Kafka's names in snake_case, checked before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypedDict

from tidelog.records.source import DECOMPRESSED_LIMIT_BYTES
from tidelog.settings import (
    WIRE_SIZE_MAX,
    choice,
    count,
    duration_ms,
    flag,
    head_text,
    size_bytes,
    text,
)

MIB: Final = 1024 * 1024
LARGEST_SIZE: Final = 2**31 - 1

#: The isolation levels with their numbers on the wire.
ISOLATION_LEVELS: Final[dict[object, object]] = {"read_uncommitted": 0, "read_committed": 1}


class ConsumerKeywords(TypedDict, total=False):
    """The settings of a consumer as keyword arguments; `ConsumerSettings` has the defaults.

    Durations are milliseconds or a timedelta, sizes are bytes or text such as "64 MiB".
    """

    #: The name that brokers see in logs and metrics.
    client_id: str
    #: What becomes of a position outside of the log: "none" raises, "earliest" and "latest" go on
    #: there, "by_duration:PT1H" goes on an hour back from now.
    auto_offset_reset: str
    #: What may be fetched ahead of the reader.
    prefetch_bytes: int | str
    #: What one partition adds to an answer.
    max_partition_fetch_bytes: int | str
    #: What one answer may hold; a batch that is larger comes alone.
    fetch_max_bytes: int | str
    #: A broker gathers at least so much ...
    fetch_min_bytes: int | str
    #: ... but not for longer than this.
    fetch_max_wait_ms: float | timedelta
    #: The records of one `poll`.
    max_poll_records: int
    #: Whether each batch is checked against its checksum.
    check_crcs: bool
    #: What the records of one batch may take once decompressed.
    max_decompressed_bytes: int | str
    #: "read_uncommitted" or "read_committed".
    isolation_level: str
    #: Where this client stands.
    client_rack: str
    #: The time limit of one question to a broker.
    request_timeout_ms: float | timedelta
    #: The time limit of a call, its retries included.
    default_api_timeout_ms: float | timedelta


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of a consumer, checked."""

    client_id: str = head_text("tidelog-consumer")
    auto_offset_reset: str = text("none")
    prefetch_bytes: int = size_bytes(16 * MIB, least=1)
    max_partition_fetch_bytes: int = size_bytes(MIB, least=1, most=WIRE_SIZE_MAX)
    fetch_max_bytes: int = size_bytes(MIB, least=1, most=WIRE_SIZE_MAX)
    fetch_min_bytes: int = size_bytes(1, most=WIRE_SIZE_MAX)
    fetch_max_wait_ms: float = duration_ms(500)
    max_poll_records: int = count(500, least=1, most=LARGEST_SIZE)
    check_crcs: bool = flag(True)
    max_decompressed_bytes: int = size_bytes(DECOMPRESSED_LIMIT_BYTES, least=1)
    isolation_level: int = choice(0, ISOLATION_LEVELS)
    client_rack: str = text("")
    request_timeout_ms: float = duration_ms(30_000, least=1)
    default_api_timeout_ms: float = duration_ms(60_000, least=1)
