"""Wrong calls of a producer are refused in words that say what to type instead."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.errors import InvalidRequest, SerializationFailed
from tidelog.producer.base import several
from tidelog.producer.handing_over import to_headers


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"a": 5}, "The header 'a' must be bytes, str or None, not int"),
        ("a", "'a' is no header. Headers are a dict"),
        ([("a", b"1", b"2")], "is no header"),
        ([("a", b"1"), 7], "7 is no header"),
    ],
)
def test_headers_that_are_none(headers: Any, words: str) -> None:
    with pytest.raises(SerializationFailed, match=words):
        to_headers(headers)


def test_headers_take_every_kind_of_bytes() -> None:
    assert to_headers([("a", bytearray(b"1")), ("b", memoryview(b"2"))]) == [  # type: ignore[list-item]
        ("a", b"1"),
        ("b", b"2"),
    ]


@pytest.mark.parametrize("values", ["abc", b"abc", bytearray(b"abc")])
def test_one_text_is_not_many_records(values: Any) -> None:
    with pytest.raises(InvalidRequest, match="send_many takes a list of values"):
        several(values)
    several([values])
    several(None)
