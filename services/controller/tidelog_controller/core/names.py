"""Which topic names are allowed: Kafka's rules, and ours for internal topics.

Checked before a topic is created, changed or deleted. The shell adds the nearest name to an
error message, which is too dear for each of thousands.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.errors import InvalidTopic, UnknownTopic
from tidelog.nearest import did_you_mean
from tidelog_runtime.cluster_state import TopicState
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.principal import Principal

NAME_LENGTH_MAX: Final = 249
INTERNAL_PREFIX: Final = "__"
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_SHOWN_LENGTH_MAX: Final = 300


def check_name(name: str) -> None:
    """InvalidTopic unless the name is one that a topic may have."""
    shown = repr(name[:_SHOWN_LENGTH_MAX])
    if not name:
        raise InvalidTopic("A topic must have a name", hint="The name is empty")
    if name in (".", ".."):
        raise InvalidTopic(f"A topic cannot be called {shown}", hint="Choose another name")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopic(
            f"The topic name {shown} has {len(name)} characters",
            hint=f"At most {NAME_LENGTH_MAX} are possible",
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopic(
            f"The topic name {shown} has characters that are not allowed",
            hint="Allowed are ASCII letters, digits, '.', '_' and '-'",
        )


def is_internal(name: str) -> bool:
    """Whether the name is one of the cluster's own topics."""
    return name.startswith(INTERNAL_PREFIX)


def check_open_to(name: str, principal: Principal) -> None:
    """InvalidTopic where a client reaches for an internal topic."""
    if is_internal(name) and not principal.is_internal:
        raise InvalidTopic(
            f"The topic '{name[:_SHOWN_LENGTH_MAX]}' is closed to {principal}",
            hint=f"Names that begin with '{INTERNAL_PREFIX}' are the cluster's own",
        )


def check_no_collision(name: str, view: ClusterView) -> None:
    """InvalidTopic where the name differs from another only in '.' and '_'.

    Metrics write both as '_', and could not tell the two topics apart.
    """
    if "." not in name and "_" not in name:
        return
    folded = name.replace(".", "_")
    for other in view.topic_names:
        if other != name and other.replace(".", "_") == folded:
            raise InvalidTopic(
                f"The topic name '{name}' collides with '{other}'",
                hint="Names must differ in more than '.' and '_': metrics write both as '_'",
            )


def existing_topic(name: str, view: ClusterView) -> TopicState:
    """The topic of this name; UnknownTopic where there is none."""
    topic = view.topic(name)
    if topic is None:
        raise UnknownTopic(f"Topic '{name[:_SHOWN_LENGTH_MAX]}' does not exist")
    return topic


def nearest_topic(name: str, view: ClusterView) -> str:
    """The hint for a name that no topic has; it takes milliseconds."""
    return did_you_mean(name, (other for other in view.topic_names if not is_internal(other)))
