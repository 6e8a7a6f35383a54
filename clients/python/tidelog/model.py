"""The vocabulary of Tidelog: names for the plain values that travel between all its parts.

No behaviour lives here. Client, services and connectors import these, so that an offset, an
epoch and a partition number cannot be mixed up without the type checker noticing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
BrokerId = NewType("BrokerId", int)

#: A topic's identity: 16 bytes, never reused. A topic deleted and created again is another topic.
TopicId = NewType("TopicId", bytes)

NO_TOPIC_ID: Final = TopicId(b"")
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

#: The special timestamps of a list-offsets request.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition by the name of its topic, as people write it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class PartitionId:
    """A partition by the identity of its topic, as brokers keep it."""

    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id.hex()}-{self.partition}"
