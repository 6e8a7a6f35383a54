"""Writes docs/configuration.md from the definitions of the keys (`make gen`).

The tables in the code are the only place where a key's default, limits and meaning are written;
`--check` (a test) says when the page no longer shows them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tidelog_runtime.config import LONG_MAX, ConfigDefinition, ConfigKey, ConfigType
from tidelog_runtime.configs.broker import BROKER_CONFIG
from tidelog_runtime.configs.topic import INHERITED_FROM, TOPIC_CONFIG

NUMBERS: Final = {
    ConfigType.INT: "number",
    ConfigType.LONG: "number",
    ConfigType.SIZE: "size",
    ConfigType.DURATION: "duration",
}
PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

INTRODUCTION: Final = """\
# Configuration

Names, meanings and defaults are Kafka's wherever the concept is the same. A node reads its keys
from flags (`tidelog up --config KEY=VALUE`, and shorter ones: `tidelog up --help`), from the
environment (`flush.policy` is `TIDELOG_FLUSH_POLICY`), from a file (`--config-file`: `key=value`
lines, or TOML by its ending), and from the defaults below, in this order. Sizes are bytes and
take a unit (`64 MiB`), durations are milliseconds and take a unit (`7 d`). "Or more" goes up to
9223372036854775807, the largest number of 64 bits. An unknown key is refused with the nearest one,
and a key of Kafka's that has no effect here yet is refused in words.

This page is written by `make gen`.
"""


def table(keys: Iterable[ConfigKey]) -> str:
    """One row a key."""
    lines = ["| key | default | accepted | meaning |", "| --- | --- | --- | --- |"]
    for key in keys:
        default = key.format(key.default) or "(empty)"
        lines.append(f"| `{key.name}` | `{default}` | {accepted(key)} | {key.documentation} |")
    return "\n".join(lines)


def accepted(key: ConfigKey) -> str:
    """What a key takes, shorter than its refusals say it."""
    if key.type not in NUMBERS:
        return key.accepted
    low, high = key.limits
    bounds = f"{low} or more" if high == LONG_MAX else f"{low} to {high}"
    return f"{NUMBERS[key.type]}, {bounds}"


def sorted_keys(definition: ConfigDefinition) -> list[ConfigKey]:
    """In the order in which people look them up."""
    return sorted(definition.keys, key=lambda key: key.name)


def page() -> str:
    """The whole page."""
    inherited = "\n".join(
        f"| `{topic}` | `{broker}` |" for topic, broker in sorted(INHERITED_FROM.items())
    )
    return (
        f"{INTRODUCTION}\n## Topics\n\n"
        "Set when a topic is created, or altered while it is used.\n\n"
        f"{table(sorted_keys(TOPIC_CONFIG))}\n\n"
        "What a topic does not set it inherits from its broker:\n\n"
        f"| topic | broker |\n| --- | --- |\n{inherited}\n\n"
        f"## Broker\n\n{table(sorted_keys(BROKER_CONFIG))}\n"
    )


def main() -> int:
    """Writes the page, or with --check says whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, change nothing")
    if parser.parse_args().check:
        if PAGE.exists() and PAGE.read_text() == page():
            return 0
        print("docs/configuration.md does not show the keys as they are: run `make gen`.")
        return 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
