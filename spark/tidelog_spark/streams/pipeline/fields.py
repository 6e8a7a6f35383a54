"""The fields of one mapping of a pipeline's file, each asked for by the kind that it must have.

`reading.py` makes one for every mapping. Invariant: a field that is unknown, missing or of another
kind becomes a `Problem` with its line, and reading goes on, so that one look tells all of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, TypeVar

from tidelog.nearest import did_you_mean
from tidelog_spark.streams.pipeline.document import Node, Problem

UNIT_MS: Final = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
DURATION: Final = re.compile(rf"(\d+)\s+({'|'.join(UNIT_MS)})s?", re.IGNORECASE)

Word = TypeVar("Word", bound=str)


def duration_ms(text: str) -> int | None:
    """The milliseconds that a time like "10 minutes" means; None when it is written otherwise."""
    match = DURATION.fullmatch(text.strip())
    return int(match[1]) * UNIT_MS[match[2].lower()] if match else None


class Fields:
    """What stands in one mapping; problems are added to the list that all share."""

    def __init__(
        self, node: Node, where: str, known: Collection[str], problems: list[Problem]
    ) -> None:
        self.node = node
        self._where = where
        self._problems = problems
        if not node.is_mapping:
            self.complain(f"must have fields ({', '.join(known)}), not {node.kind}")
            return
        for name in node.entries:
            if name not in known:
                hint = did_you_mean(name, known) or f"It may have {', '.join(known)}."
                self.complain(f"has no field '{name}'. {hint}", node.lines[name])

    def complain(self, message: str, line: int | None = None) -> None:
        """Notes a problem of this mapping."""
        self._problems.append(Problem(line or self.node.line, f"{self._where} {message}"))

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return name in self.node.entries

    def line_of(self, name: str) -> int:
        """Where the field stands; where the mapping does, when it is missing."""
        return self.node.lines.get(name, self.node.line)

    def child(self, name: str) -> Node | None:
        """The field as it is."""
        return self.node.entries.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        """One value as text; without a default it must be there."""
        child = self.child(name)
        if child is None:
            if default is None:
                self.complain(f"lacks the field '{name}'")
            return default or ""
        if not child.is_scalar or not child.text.strip():
            self.complain(f"needs one value as '{name}', not {child.kind}", self.line_of(name))
            return default or ""
        return child.text.strip()

    def texts(self, name: str) -> tuple[str, ...]:
        """One value, or a list of some."""
        child = self.child(name)
        if child is None:
            return ()
        if not child.is_list:
            return (self.text(name),)
        if not child.items or not all(item.is_scalar for item in child.items):
            self.complain(f"needs a list of names as '{name}'", self.line_of(name))
            return ()
        return tuple(item.text.strip() for item in child.items)

    def number(self, name: str, default: int | None, *, least: int, most: int) -> int | None:
        """A whole number within bounds."""
        if not self.has(name):
            return default
        text = self.text(name)
        if not re.fullmatch(r"-?\d{1,18}", text) or not least <= int(text) <= most:
            self.complain(
                f"needs a whole number from {least} to {most} as '{name}', not {text!r}",
                self.line_of(name),
            )
            return default
        return int(text)

    def choice(self, name: str, words: tuple[Word, ...], default: Word) -> Word:
        """One of a few words."""
        if not self.has(name):
            return default
        text = self.text(name)
        for word in words:
            if word == text.lower():
                return word
        hint = did_you_mean(text, words) or f"It is one of {', '.join(words)}."
        self.complain(f"cannot have {text!r} as '{name}'. {hint}", self.line_of(name))
        return default

    def duration(self, name: str, default: str | None = None) -> str:
        """A time such as "10 minutes", as it stands."""
        text = self.text(name, default)
        if text and duration_ms(text) is None:
            self.complain(
                f"needs a time like '10 minutes' as '{name}', not {text!r}", self.line_of(name)
            )
        return text

    def switch(self, name: str) -> bool:
        """True or false; false when it is missing."""
        child = self.child(name)
        if child is None:
            return False
        if child.kind != "true or false":
            self.complain(f"needs true or false as '{name}'", self.line_of(name))
        return child.text.lower() in ("true", "yes", "on")

    def settings(self, name: str) -> dict[str, str]:
        """Names with one value each, as Spark's options are; switches in Spark's spelling."""
        child = self.child(name)
        if child is None:
            return {}
        if not child.is_mapping:
            self.complain(f"needs names with values as '{name}'", self.line_of(name))
            return {}
        for key, value in child.entries.items():
            if not value.is_scalar:
                self.complain(f"needs one value for '{key}', not {value.kind}", child.lines[key])
        return {
            key: value.text.lower() if value.kind == "true or false" else value.text
            for key, value in child.entries.items()
        }
