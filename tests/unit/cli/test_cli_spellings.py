"""Flags that Kafka 4.2 renamed: both spellings are one flag, in every tool that has them."""

from __future__ import annotations

import re

import pytest

from tidelog.cli.command import main

SPELLINGS = {
    "console-producer": [
        ("--property", "--reader-property"),
        ("--producer-property", "--command-property"),
        ("--producer.config", "--command-config"),
    ],
    "console-consumer": [
        ("--property", "--formatter-property"),
        ("--consumer-property", "--command-property"),
        ("--consumer.config", "--command-config"),
    ],
    "producer-perf-test": [
        ("--producer-props", "--command-property"),
        ("--producer.config", "--command-config"),
    ],
    "consumer-perf-test": [
        ("--messages", "--num-records"),
        ("--consumer.config", "--command-config"),
    ],
}


@pytest.mark.parametrize("verb", SPELLINGS)
def test_old_and_new_spelling_are_one_flag(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    # An option begins a line of its own; its help may follow on the same.
    options = [
        {word.split()[0] for word in line.split(", ")}
        for line in re.findall(r"^ {2}(--.*)$", capsys.readouterr().out, re.MULTILINE)
    ]
    for old, new in SPELLINGS[verb]:
        assert [option for option in options if {old, new} <= option], (old, new)
