"""Offsets of many partitions, as Spark keeps them in a checkpoint and people write them in JSON.

    {"#ids": {"orders": "0f3c..."}, "orders": {"0": 23, "1": 17}}

The form is that of Spark's Kafka connector, the next offset to read, with one more key for the
identity of each topic, which no topic can have as its name. Invariant: equal offsets are equal
text, since Spark compares texts: keys are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.errors import InvalidRequest
from tidelog.model import TopicPartition

IDS_KEY: Final = "#ids"

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """The next offset of each partition, and which topics these are."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, dict[str, Any]]:
        """What Spark writes down."""
        named: dict[str, dict[str, Any]] = {}
        topics = {partition.topic for partition in self.offsets}
        ids = {topic: self.topic_ids[topic] for topic in sorted(topics & self.topic_ids.keys())}
        if ids:
            named[IDS_KEY] = ids
        for partition in sorted(self.offsets):
            numbers = named.setdefault(partition.topic, {})
            numbers[str(partition.partition)] = self.offsets[partition]
        return named

    @staticmethod
    def from_json(named: Mapping[str, Any]) -> OffsetMap:
        """What `to_json` made; also what Spark's Kafka connector made."""
        offsets: Offsets = {}
        try:
            for topic, numbers in named.items():
                if topic != IDS_KEY:
                    for number, offset in numbers.items():
                        offsets[TopicPartition(topic, int(number))] = int(offset)
            return OffsetMap(offsets, {**named.get(IDS_KEY, {})})
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"The offsets {named!r} of the checkpoint are none of this connector",
                cause=str(error),
                hint="Give the query another checkpointLocation",
            ) from error
