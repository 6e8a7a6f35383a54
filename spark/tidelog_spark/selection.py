"""Which topics and partitions are read: `subscribe`, `subscribePattern` or `assign`.

Planning asks it at each trigger, so that a topic that begins to match and a partition that is added
are read from then on. Invariant: exactly one of the three says what is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.errors import InvalidConfig, InvalidPartitions, UnknownTopic
from tidelog.model import TopicPartition
from tidelog_spark.option_values import OptionValues, json_object
from tidelog_spark.topics import Logs, TopicSeen

NAMES: Final = ("subscribe", "subscribePattern", "assign", "path")
_ASSIGN_EXAMPLE: Final = '{"orders": [0, 1]}'


@dataclass(frozen=True, slots=True)
class Found:
    """The partitions that there are, and which topics do not exist although they were named."""

    partitions: list[TopicPartition]
    topic_ids: dict[str, str]
    missing: Mapping[str, UnknownTopic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """One of `topics` (all their partitions), `pattern`, or `assigned` partitions by topic."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def names(self, topic: str) -> bool:
        """Whether it asks for a topic of this name, be there one or not."""
        if self.pattern:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics or topic in self.assigned

    def find(self, logs: Logs) -> Found:
        """What there is of it now."""
        if self.pattern:
            matches = re.compile(self.pattern).fullmatch
            names = [name for name in logs.names() if matches(name)]
        else:
            names = sorted(self.assigned or self.topics)
        described = logs.describe(names)
        partitions = []
        ids = {}
        for name in names:
            topic = described[name]
            if isinstance(topic, TopicSeen):
                ids[name] = topic.topic_id
                numbers = self.assigned.get(name, range(topic.partition_count))
                if max(numbers, default=0) >= topic.partition_count:
                    raise InvalidPartitions(
                        f"assign: topic {name!r} has no partition {max(numbers)}: it has"
                        f" {topic.partition_count}, from 0 on"
                    )
                partitions += [TopicPartition(name, number) for number in numbers]
        gone = {name: error for name, error in described.items() if isinstance(error, UnknownTopic)}
        return Found(partitions, ids, {} if self.pattern else gone)


def selection_of(values: OptionValues) -> Selection:
    """What the options select."""
    given = values.given(*NAMES)
    if len(given) != 1:
        raise InvalidConfig(
            f"{' and '.join(given)} say each what to read"
            if given
            else "Nothing says what to read",
            hint="Give one of subscribe, subscribePattern and assign; load('orders') is subscribe",
        )
    (name,) = given
    value = values.text(name) or ""
    if name == "subscribePattern":
        return Selection(pattern=_pattern(value))
    if name == "assign":
        return Selection(assigned=_assigned(value))
    topics = tuple(sorted({part.strip() for part in value.split(",") if part.strip()}))
    if not topics:
        raise InvalidConfig(f"{name}={value!r} names no topic", hint='Write "orders,customers"')
    return Selection(topics=topics)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise InvalidConfig(
            f"subscribePattern={value!r} is no regular expression of Python", cause=str(error)
        ) from None
    if not value:
        raise InvalidConfig("subscribePattern is empty", hint='Write "orders-.*"')
    return value


def _assigned(value: str) -> dict[str, tuple[int, ...]]:
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, numbers in json_object("assign", value, _ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list) or not all(
            isinstance(number, int) and not isinstance(number, bool) and number >= 0
            for number in numbers
        ):
            raise InvalidConfig(
                f"assign: {topic!r} has {numbers!r} instead of partition numbers",
                hint=f"Write it like {_ASSIGN_EXAMPLE}",
            )
        assigned[topic] = tuple(sorted(set(numbers)))
    if not any(assigned.values()):
        raise InvalidConfig(
            f"assign={value!r} names no partition", hint=f"Write it like {_ASSIGN_EXAMPLE}"
        )
    return assigned
