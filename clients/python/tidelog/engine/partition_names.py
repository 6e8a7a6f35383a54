"""Partitions as callers name them, checked before anything is asked of a broker.

Admin and consumer come here. Invariant: behind it a topic is text and a number is whole and fits
into the wire's 32 bits.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.errors import InvalidRequest, InvalidTopic
from tidelog.model import TopicPartition
from tidelog.wording import is_unicode

#: What 32 bits hold: no partition has a larger number, and no topic more of them.
LARGEST_PARTITION: Final = 2**31 - 1


def partition_named(given: Any) -> TopicPartition:
    """The partition; InvalidRequest for what names none."""
    if not isinstance(given, TopicPartition):
        raise InvalidRequest(
            f"{given!r:.80} names no partition", hint="Give TopicPartition('orders', 0)"
        )
    topic: Any = given.topic
    number: Any = given.partition
    is_number = isinstance(number, int) and not isinstance(number, bool)
    is_name = isinstance(topic, str) and is_unicode(topic)
    if not is_name or not is_number or abs(number) > LARGEST_PARTITION:
        raise InvalidRequest(
            f"TopicPartition({topic!r:.80}, {number!r:.80}) names no partition",
            hint="The topic is a str, the partition an int from 0 on",
        )
    return given


def topic_or_partition(given: Any) -> str | TopicPartition:
    """A name that means all partitions of a topic, or one of them; InvalidTopic for neither.

    Whoever keeps these as keys asks first: a list, which is easily given, can be none.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, TopicPartition):
        return partition_named(given)
    raise InvalidTopic(
        f"{given!r:.80} is no name of a topic, but of type {type(given).__name__}",
        hint="Give 'orders' or TopicPartition('orders', 0)",
    )
