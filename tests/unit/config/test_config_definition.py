"""Typed keys: what is accepted, what is refused, and that a refusal says everything it knows."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidConfig
from tidelog_runtime.config import (
    BY_DEFAULT,
    ConfigDefinition,
    ConfigKey,
    ConfigType,
    Setting,
    Source,
    SourceKind,
)

LIMITS = ConfigDefinition(
    "sample",
    [
        ConfigKey("some.bytes", ConfigType.SIZE, 10, "A size.", minimum=-1),
        ConfigKey("some.ms", ConfigType.DURATION, 20, "A duration.", minimum=0, aliases=("ms",)),
        ConfigKey("some.number", ConfigType.INT, 3, "A number."),
        ConfigKey("some.flag", ConfigType.BOOLEAN, False, "Yes or no."),
        ConfigKey(
            "some.list",
            ConfigType.LIST,
            ("a",),
            "A list.",
            choices=("a", "b"),
            later={"c": "c comes later"},
        ),
        ConfigKey("some.text", ConfigType.STRING, "", "Anything."),
    ],
    known={"old.key": "It is called some.text now"},
)
FILE = Source(SourceKind.FILE, "in file x.properties line 3")
FLAG = Source(SourceKind.FLAG, "in flag --some-bytes")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("some.bytes", "64 MiB", 64 << 20),
        ("some.bytes", "64MB", 64_000_000),
        ("some.bytes", "2 KiB", 2_048),
        ("some.bytes", "3GB", 3_000_000_000),
        ("some.bytes", " -1 ", -1),
        ("some.ms", "7 d", 604_800_000),
        ("some.ms", "90s", 90_000),
        ("some.ms", "5 m", 300_000),
        ("some.ms", "250 ms", 250),
        ("some.number", "-2147483648", -(1 << 31)),
        ("some.flag", "TRUE", True),
        ("some.list", "b, a,b", ("b", "a")),
        ("some.text", "  ein Text ", "ein Text"),
    ],
)
def test_accepted_values(name: str, text: str, value: object) -> None:
    assert LIMITS.parse({name: text})[name] == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("some.bytes", "-2"),
        ("some.bytes", "1.5 GiB"),
        ("some.bytes", "64 mib"),
        ("some.bytes", "7 d"),
        ("some.bytes", "9223372036854775808"),
        ("some.bytes", "9" * 5_000),
        ("some.ms", "5 MiB"),
        ("some.ms", ""),
        ("some.number", "2147483648"),
        ("some.number", "1_000"),
        ("some.number", "٣"),
        ("some.flag", "yes"),
        ("some.list", ""),
        ("some.list", "a,z"),
        ("some.text", "x" * 20_000),
    ],
)
def test_refused_values_name_key_value_and_what_is_accepted(name: str, text: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        LIMITS.parse({name: text}, source=FILE)
    assert f"'{name}' in file x.properties line 3" in refusal.value.message
    assert refusal.value.hint.startswith("Accepted: ")
    assert text[:100] in refusal.value.message
    assert len(str(refusal.value)) < 500


def test_a_value_for_later_says_so() -> None:
    with pytest.raises(InvalidConfig, match="c comes later"):
        LIMITS.parse({"some.list": "a,c"})


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidConfig) as refusal:
        LIMITS.parse({"some.byts": "1"})
    assert str(refusal.value).startswith("Unknown key 'some.byts'")
    assert str(refusal.value).endswith("Did you mean 'some.bytes'?")


def test_a_key_near_to_nothing_is_refused_with_all_of_them() -> None:
    with pytest.raises(InvalidConfig, match=r"some\.bytes, some\.ms, some\.number"):
        LIMITS.parse({"zzzzzzzzzz": "1"})


def test_a_known_key_without_effect_is_explained() -> None:
    with pytest.raises(InvalidConfig, match=r"not supported.*some\.text now"):
        LIMITS.parse({"old.key": "1"})


def test_stronger_layers_win_and_values_remember_their_source() -> None:
    values = LIMITS.resolve(
        [Setting("some.bytes", "1 KiB", FLAG)],
        [Setting("some.bytes", "2", FILE), Setting("some.ms", "3", FILE)],
    )
    assert (values["some.bytes"], values.source("some.bytes")) == (1_024, FLAG)
    assert (values["some.ms"], values.source("some.ms")) == (3, FILE)
    assert (values["some.number"], values.source("some.number")) == (3, BY_DEFAULT)
    assert values.set_texts() == {"some.bytes": "1024", "some.ms": "3"}


def test_a_weaker_layer_is_checked_although_it_loses() -> None:
    with pytest.raises(InvalidConfig, match=r"x\.properties line 3"):
        LIMITS.resolve([Setting("some.bytes", "1", FLAG)], [Setting("some.bytes", "?", FILE)])


def test_an_alias_sets_its_key_but_not_both_at_once() -> None:
    assert LIMITS.parse({"ms": "5"})["some.ms"] == 5
    with pytest.raises(InvalidConfig, match=r"'some.ms' is set twice: as 'some.ms'.* as 'ms'"):
        LIMITS.parse({"some.ms": "5", "ms": "5"})


def test_text_reads_back_as_the_same_value() -> None:
    values = LIMITS.parse({"some.flag": "true", "some.list": "b,a", "some.ms": "1 h"})
    assert {name: LIMITS.key(name).parse(values.text(name)) for name in values} == {
        name: values[name] for name in values
    }
