"""The values of options: text from a user into numbers, flags, durations, sizes and JSON.

`options` and `sink` options read theirs here. Invariant: what can't be meant is refused with the
option's name and its value, so that the message alone tells what to change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tidelog.errors import InvalidConfig
from tidelog.nearest import did_you_mean

_DURATION: Final = re.compile(r"(-?\d+)\s*([a-z]*)")
#: Spark's suffixes of durations, in milliseconds; without one it is milliseconds.
_DURATION_UNITS: Final = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
#: Offsets, times and limits are numbers of 64 bits wherever they go.
LARGEST: Final = 2**63 - 1
_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?")
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class OptionValues:
    """The options of one reader or writer under lower-case names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        """The option as it was written, without blanks around it; None where it was not."""
        value = self._options.get(name.lower())
        return None if value is None else value.strip()

    def given(self, *names: str) -> list[str]:
        """Those of the names that were given."""
        return [name for name in names if name.lower() in self._options]

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false."""
        return bool(self.choice(name, {"true": True, "false": False}, default=default))

    def choice(self, name: str, choices: Mapping[str, Any], *, default: Any) -> Any:
        """One of some words, in any case."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in choices:
            near = did_you_mean(value, choices)
            raise InvalidConfig(
                f"{name}={value!r} is not possible", hint=near or f"Give {' or '.join(choices)}"
            )
        return choices[value.lower()]

    def number(self, name: str, *, least: int = 1) -> int | None:
        """A whole number from a bound on, up to what 64 bits hold."""
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise InvalidConfig(f"{name}={value!r} is no whole number") from None
        return _at_least(name, value, number, least)

    def duration_ms(self, name: str, *, default: int, least: int = 0) -> int:
        """A duration as Spark writes them: "10s", "15m", a number of milliseconds."""
        value = self.text(name)
        if value is None:
            return default
        match = _DURATION.fullmatch(value.lower())
        if match is None or match[2] not in _DURATION_UNITS:
            raise InvalidConfig(
                f"{name}={value!r} is no duration", hint='Give milliseconds, "10s", "15m" or "1h"'
            )
        return _at_least(name, value, int(match[1]) * _DURATION_UNITS[match[2]], least)

    def size_bytes(self, name: str) -> int | None:
        """A size: bytes, or text such as "64m"."""
        value = self.text(name)
        if value is None:
            return None
        match = _SIZE.fullmatch(value.lower())
        if match is None:
            raise InvalidConfig(f"{name}={value!r} is no size", hint='Give bytes, or "64m", "1g"')
        return _at_least(name, value, int(match[1]) * _SIZE_UNITS[match[2]], 1)


def _at_least(name: str, value: str, number: int, least: int) -> int:
    if number < least:
        raise InvalidConfig(f"{name}={value!r} is too small: at least {least}")
    if number > LARGEST:
        raise InvalidConfig(f"{name}={value!r} is too large: at most {LARGEST}")
    return number


def json_object(name: str, value: str, example: str) -> dict[str, Any]:
    """The JSON object that an option holds."""
    try:
        found = json.loads(value)
    except json.JSONDecodeError as error:
        raise InvalidConfig(
            f"{name}={value!r} is no JSON", cause=str(error), hint=f"Write it like {example}"
        ) from None
    if not isinstance(found, dict):
        raise InvalidConfig(f"{name}={value!r} is no JSON object", hint=f"Write it like {example}")
    return found


def numbers_by_partition(name: str, value: str, example: str) -> dict[str, dict[int, int]]:
    """A number for each partition: `{"orders": {"0": 23}}`."""
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in json_object(name, value, example).items():
        if topic.startswith("#"):
            continue
        if not isinstance(partitions, dict):
            raise InvalidConfig(
                f"{name}: {topic!r} has {partitions!r} instead of its partitions",
                hint=f"Write it like {example}",
            )
        found[topic] = {}
        for partition, number in partitions.items():
            if not partition.isdecimal() or isinstance(number, bool) or not isinstance(number, int):
                raise InvalidConfig(
                    f"{name}: {partition!r}: {number!r} of {topic!r} are no partition and number",
                    hint=f"Write it like {example}",
                )
            if number > LARGEST:
                raise InvalidConfig(
                    f"{name}: {topic}-{partition} has {number}", hint=f"{LARGEST} is the largest"
                )
            found[topic][int(partition)] = number
    return found
