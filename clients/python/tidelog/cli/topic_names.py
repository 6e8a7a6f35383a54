"""Topics by regular expression, as Kafka's tools name them: the whole name must match.

Used by every verb that takes a pattern. A comma means "or", as in Kafka's lists of topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelog.errors import InvalidRequest, UnknownTopic
from tidelog.nearest import did_you_mean


def topic_pattern(text: str) -> re.Pattern[str]:
    """The pattern that a flag means; InvalidRequest says where it is wrong."""
    written = text.strip().strip("\"'").replace(",", "|").replace(" ", "")
    try:
        return re.compile(written)
    except re.error as error:
        raise InvalidRequest(
            f"{text!r} is no regular expression", cause=str(error), hint="Write '.*' for any name"
        ) from error


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names that a pattern matches, sorted; all without one."""
    if pattern is None:
        return sorted(names)
    compiled = topic_pattern(pattern)
    return sorted(name for name in names if compiled.fullmatch(name))


def matching_topics(bootstrap: str, pattern: str) -> list[str]:
    """The topics of a cluster that a pattern matches; UnknownTopic when there is none."""
    from tidelog.admin.admin import Admin  # noqa: PLC0415 - grpc is slow to import

    topic_pattern(pattern)
    with Admin(bootstrap) as admin:
        names = admin.list_topics()
    found = matching(names, pattern)
    if not found:
        raise UnknownTopic(
            f"No topic matches {pattern!r}",
            hint=did_you_mean(pattern, names) or "`tidelog topics --list` shows all",
        )
    return found
