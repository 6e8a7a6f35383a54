"""The words for a topic that is not the one that was meant: deleted, or created anew.

A topic's name may be taken by another topic; its id never is. Whoever pins a topic by its id raises
these, so that nothing continues silently in a log that holds other records.
"""

from __future__ import annotations

from tidelog.errors import UnknownTopicId


class TopicIsAnother(UnknownTopicId):
    """The topic that was meant is gone; nothing that is repeated brings it back."""

    retriable = False


def recreated(topic: str) -> TopicIsAnother:
    """The error for a name that another topic has taken."""
    return TopicIsAnother(
        f"Topic {topic!r} was deleted and created anew since it was assigned",
        hint="Its offsets mean other records now: assign it again to read the new one",
    )


def deleted(topic: str) -> TopicIsAnother:
    """The error for a name that no topic has any more."""
    return TopicIsAnother(f"Topic {topic!r} was deleted since it was assigned")
