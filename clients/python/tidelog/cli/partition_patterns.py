"""Which partitions `get-offsets` means: `--topic-partitions orders:0-3,orders-.*:5-`.

A rule is a pattern of topic names, then a number, or a range whose end does not belong to it, or
nothing. Kafka's notation; pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.cli.topic_names import topic_pattern
from tidelog.errors import InvalidRequest

_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]{0,10})|(?:([0-9]{0,10})-([0-9]{0,10}))))?")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """One rule: partitions from `first` on, below `end`, of topics that match."""

    topic: re.Pattern[str] | None
    first: int = 0
    end: int | None = None

    def allows(self, topic: str, partition: int) -> bool:
        """Whether the rule means this partition."""
        if self.topic is not None and not self.topic.fullmatch(topic):
            return False
        return partition >= self.first and (self.end is None or partition < self.end)


def rules_of_patterns(text: str) -> list[PartitionRule]:
    """The rules of `--topic-partitions`."""
    return [_rule(part.strip()) for part in text.split(",")]


def _rule(text: str) -> PartitionRule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            f"{text!r:.80} is no pattern of partitions",
            hint="Write topic:0, topic:0-3 (without 3), topic:5-, topic:-3 or topic",
        )
    name, number, first, end = match.groups()
    topic = topic_pattern(name) if name else None
    if number:
        return PartitionRule(topic, int(number), int(number) + 1)
    return PartitionRule(topic, int(first) if first else 0, int(end) if end else None)


def rules_of_flags(topic: str | None, partitions: str | None) -> list[PartitionRule]:
    """The rules of `--topic` and `--partitions`."""
    pattern = topic_pattern(topic) if topic is not None else None
    if partitions is None:
        return [PartitionRule(pattern)]
    rules = []
    for part in partitions.split(","):
        if not _NUMBER.fullmatch(part.strip()):
            raise InvalidRequest(
                f"{part!r:.80} in --partitions is no number", hint="Write them as 0,1,2"
            )
        rules.append(PartitionRule(pattern, int(part), int(part) + 1))
    return rules


def is_meant(rules: Sequence[PartitionRule], topic: str, partition: int) -> bool:
    """Whether any rule means this partition."""
    return any(rule.allows(topic, partition) for rule in rules)
