"""The names of options: what is known, what is Spark's own, and what was meant by a wrong one.

Readers and writers check their options here first. Invariant: no option is silently ignored: one
that nobody knows is refused with the nearest name, one of the other side with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean

#: What Spark itself hands to the sink of a stream beside the user's options.
SPARKS_OWN: Final = ("checkpointLocation", "queryName")


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """The options under lower-case names: Spark's options know no case."""
    return {name.lower(): value for name, value in options.items()}


def refuse_unknown(
    options: Mapping[str, str],
    known: Iterable[str],
    *,
    reading_or_writing: str,
    reasons: Mapping[str, str],
) -> None:
    """Raises `InvalidConfig` for the first option that is not among the known ones.

    `reasons` says why an option that exists elsewhere (Kafka, the other side) is none here; its
    names may be written in any case.
    """
    names = {name.lower(): name for name in known}
    why = {name.lower(): (name, reason) for name, reason in reasons.items()}
    for option in options:
        name = option.lower()
        if name in names:
            continue
        if name in why:
            raise InvalidConfig(f"The option {why[name][0]!r} is not possible: {why[name][1]}")
        near = did_you_mean(name, sorted(names))
        meant = next((full for low, full in names.items() if f"'{low}'" in near), "")
        raise InvalidConfig(
            f"There is no option {option!r} for {reading_or_writing}",
            hint=f"Did you mean '{meant}'?" if meant else f"There are {', '.join(sorted(known))}",
        )
