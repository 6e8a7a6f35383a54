"""The page of the configuration shows the whole range of each key, as the code has it."""

from __future__ import annotations

import pytest

from support.tree import ROOT
from tidelog.errors import InvalidConfig
from tidelog_runtime.config import LONG_MAX, ConfigDefinition, ConfigKey, ConfigType
from tidelog_runtime.configs.broker import BROKER_CONFIG
from tidelog_runtime.configs.topic import TOPIC_CONFIG

PAGE = ROOT / "docs" / "configuration.md"
NUMBERS = {ConfigType.INT, ConfigType.LONG, ConfigType.SIZE, ConfigType.DURATION}


def numbers_of(definition: ConfigDefinition) -> list[ConfigKey]:
    return [key for key in definition.keys if key.type in NUMBERS]


@pytest.mark.parametrize("definition", [TOPIC_CONFIG, BROKER_CONFIG], ids=["topic", "broker"])
def test_each_number_is_shown_with_both_its_bounds(definition: ConfigDefinition) -> None:
    topics, _, broker = PAGE.read_text().partition("## Broker")
    lines = (topics if definition is TOPIC_CONFIG else broker).splitlines()
    for key in numbers_of(definition):
        (row,) = [line for line in lines if line.startswith(f"| `{key.name}` | `")][:1]
        low, high = key.limits
        assert (f", {low} or more |" if high == LONG_MAX else f", {low} to {high} |") in row
        assert key.parse(str(high)) == high
        with pytest.raises(InvalidConfig):
            key.parse(str(high + 1))
    assert str(LONG_MAX) in topics
