"""Which partitions `get-offsets` means, and the file of `delete-records`."""

from __future__ import annotations

import json

import pytest

from tidelog.cli.delete_records import parse_offsets
from tidelog.cli.partition_patterns import is_meant, rules_of_flags, rules_of_patterns
from tidelog.errors import InvalidRequest
from tidelog.model import TopicPartition


def meant(pattern: str) -> list[str]:
    """What a pattern means, of three topics with five partitions each."""
    rules = rules_of_patterns(pattern)
    return [
        f"{topic}{partition}"
        for topic in ("a", "ab", "c")
        for partition in range(5)
        if is_meant(rules, topic, partition)
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a:0", ["a0"]),
        ("a:1-3", ["a1", "a2"]),
        ("a:3-", ["a3", "a4"]),
        ("a:-2", ["a0", "a1"]),
        ("a:-", ["a0", "a1", "a2", "a3", "a4"]),
        ("a", ["a0", "a1", "a2", "a3", "a4"]),
        ("a.*:0", ["a0", "ab0"]),
        (":4", ["a4", "ab4", "c4"]),
        ("a:0,c:1-2", ["a0", "c1"]),
        ("d", []),
    ],
)
def test_patterns(pattern: str, found: list[str]) -> None:
    assert meant(pattern) == found


@pytest.mark.parametrize("pattern", ["a:x", "a:1:2", "a:1-2-3", "a:" + "9" * 5000, "a:\u0663"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="is no pattern of partitions"):
        rules_of_patterns(pattern)


def test_flags_mean_the_same() -> None:
    rules = rules_of_flags("a.*", "0,2")
    assert is_meant(rules, "ab", 2)
    assert not is_meant(rules, "ab", 1)
    assert not is_meant(rules, "c", 0)
    assert is_meant(rules_of_flags(None, None), "c", 4)
    with pytest.raises(InvalidRequest, match="'x' in --partitions is no number"):
        rules_of_flags(None, "0,x")
    with pytest.raises(InvalidRequest, match="in --partitions is no number"):
        rules_of_flags(None, "9" * 5000)


def test_offsets_are_read() -> None:
    text = json.dumps(
        {
            "partitions": [
                {"topic": "a", "partition": 0, "offset": 5},
                {"topic": "a", "partition": 1, "offset": -1},
            ],
            "version": 1,
        }
    )
    assert parse_offsets(text) == {TopicPartition("a", 0): 5, TopicPartition("a", 1): -1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "has no list of partitions"),
        ('{"version": 1}', "has no list of partitions"),
        ('{"partitions": [], "version": 2}', "has version 2, not 1"),
        ('{"partitions": [], "version": true}', "has version True, not 1"),
        ('{"partitions": [], "version": 1.0}', "has version 1.0, not 1"),
        (
            '{"partitions": [], "versoin": 1}',
            "Unknown key 'versoin' in the offset file. Did you mean 'version'",
        ),
        (
            '{"partitions": [], "x": 1}',
            "Unknown key 'x' in the offset file. There are partitions, version",
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "offset": 2, "offset": 5}]}',
            "gives 'offset' twice",
        ),
        (
            '{"partitoins": []}',
            "Unknown key 'partitoins' in the offset file. Did you mean 'partitions'",
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "offset": 2, "offest": 3}]}',
            "Unknown key 'offest' in an entry of the offset file. Did you mean 'offset'",
        ),
        ('{"partitions": [{"topic": "a"}]}', "is not understood"),
        ('{"partitions": [{"topic": "a", "partition": 0, "offset": -2}]}', "is not understood"),
        ('{"partitions": [{"topic": "a", "partition": -1, "offset": 2}]}', "is not understood"),
        ('{"partitions": [{"topic": "a", "partition": "0", "offset": 2}]}', "is not understood"),
        ('{"partitions": [{"topic": "a", "partition": true, "offset": 2}]}', "is not understood"),
        ('{"partitions": [{"topic": "a", "partition": 0, "offset": true}]}', "is not understood"),
        (f'{{"partitions": [{{"topic": "a", "partition": 0, "offset": {2**63}}}]}}', "is not und"),
        (f'{{"partitions": [{{"topic": "a", "partition": {2**31}, "offset": 0}}]}}', "is not und"),
        ('{"partitions": [{"offset": ' + "9" * 5000 + "}]}", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "offset": 2},'
            ' {"topic": "a", "partition": 0, "offset": 3}]}',
            "contains duplicate topic partitions: a-0",
        ),
    ],
)
def test_a_file_that_is_wrong_says_how(text: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parse_offsets(text)
