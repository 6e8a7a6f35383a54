"""The settings of a producer: names, defaults, and what they promise.

`Producer` and `AsyncProducer` take them as keyword arguments; `ProducerOptions` types these for the
user's editor, `ProducerSettings` is what they become. A test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypedDict

from tidelog import settings
from tidelog.errors import InvalidConfig
from tidelog.producer.partitioner import Partitioner, PartitionFunction
from tidelog.records.compression import Compression, check_level
from tidelog.settings import Duration, Size

MIB: Final = 1024 * 1024
ACKS_ALL: Final = "all"
_ACKS: Final[dict[object, object]] = {"all": ACKS_ALL, -1: ACKS_ALL, "1": 1, 1: 1, "0": 0, 0: 0}
_COMPRESSIONS: Final[dict[object, object]] = {
    **{known.name.lower(): known for known in Compression},
    **{known: known for known in Compression},
    None: Compression.NONE,
}
#: What brokers remember of a producer and partition, so what may be unanswered at once.
IN_FLIGHT_MAX: Final = 5
#: What may be unanswered where brokers need not remember it.
REQUESTS_MAX: Final = 1_000


class ProducerOptions(TypedDict, total=False):
    """The keyword arguments of a producer."""

    acks: Literal["all", 0, 1, -1]
    batch_size: Size
    buffer_memory: Size
    client_id: str
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    compression_level: int | None
    delivery_timeout_ms: Duration
    enable_idempotence: bool
    linger_ms: Duration
    max_block_ms: Duration
    max_in_flight: int
    metadata_max_age_ms: Duration
    partitioner: str | PartitionFunction
    request_timeout_ms: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """See the module; durations are in milliseconds, sizes in bytes."""

    #: "all": every replica in sync has the record; 1: the leader has; 0: nobody is asked.
    acks: str | int = settings.choice(ACKS_ALL, _ACKS)
    #: A batch is sent at the latest when it has so many bytes, before compression.
    batch_size: int = settings.size_bytes(MIB, least=1)
    #: Records that have no verdict yet take at most about this much.
    buffer_memory: int = settings.size_bytes(32 * MIB, least=1)
    client_id: str = settings.head_text("tidelog-producer")
    compression: Compression = settings.choice(  # noqa: RUF009 - a field, as the others
        Compression.NONE, _COMPRESSIONS
    )
    compression_level: int | None = settings.anything(None)
    #: Each record has its verdict within this time.
    delivery_timeout_ms: float = settings.duration_ms(120_000, least=1)
    #: Nothing is written twice, whatever is repeated.
    enable_idempotence: bool = settings.flag(True)
    #: How long a batch waits for more records while nothing of its partition is under way.
    linger_ms: float = settings.duration_ms(5)
    #: How long `send` waits for a topic to be known, or for room in the buffer.
    max_block_ms: float = settings.duration_ms(60_000)
    #: Requests a broker, and batches a partition, that may be unanswered at once; without
    #: idempotence a partition has one, which keeps the order, and a broker as many as is said.
    max_in_flight: int = settings.count(IN_FLIGHT_MAX, least=1, most=REQUESTS_MAX)
    #: The cluster is asked again after this time even if nothing failed.
    metadata_max_age_ms: float = settings.duration_ms(300_000, least=100)
    #: "default" (Kafka's murmur2 of the key), "round_robin", or a function.
    partitioner: Any = settings.anything("default")  # noqa: RUF009 - a field, as the others
    #: A request without an answer counts as lost after this time.
    request_timeout_ms: float = settings.duration_ms(30_000, least=1)

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry an identity; without answers it would be of no use."""
        return self.enable_idempotence and self.acks != 0

    @property
    def client_timeout_s(self) -> float:
        """How long a call may take."""
        return self.request_timeout_ms / 1000


def producer_settings(given: dict[str, Any]) -> tuple[ProducerSettings, Partitioner]:
    """The settings, and the partitioner that they name; InvalidConfig says what is wrong."""
    found = settings.read(ProducerSettings, given, "A producer")
    check_level(found.compression, found.compression_level)
    if found.batch_size > found.buffer_memory and "batch_size" not in given:
        found = replace(found, batch_size=found.buffer_memory)
    if found.batch_size > found.buffer_memory:
        raise InvalidConfig(
            f"batch_size={found.batch_size} is larger than buffer_memory={found.buffer_memory}",
            hint="A batch must fit into the buffer",
        )
    if found.is_idempotent and found.max_in_flight > IN_FLIGHT_MAX:
        raise InvalidConfig(
            f"max_in_flight={found.max_in_flight} is more than the {IN_FLIGHT_MAX} batches of a"
            " producer that brokers remember",
            hint="enable_idempotence=False allows more, and gives up that nothing is written twice",
        )
    if not (isinstance(found.partitioner, str) or callable(found.partitioner)):
        raise InvalidConfig(f"partitioner={found.partitioner!r} is neither a name nor a function")
    return found, Partitioner(found.partitioner)
