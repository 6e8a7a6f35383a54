"""Property files are read as Java reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.cli.property_files import parse_properties, read_properties
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("linger.ms=5\nacks=all\n", {"linger.ms": "5", "acks": "all"}),
        ("linger.ms = 5", {"linger.ms": "5"}),
        ("linger.ms: 5", {"linger.ms": "5"}),
        ("linger.ms 5", {"linger.ms": "5"}),
        ("# a comment\n! another\n\n  acks=1", {"acks": "1"}),
        ("key.separator==", {"key.separator": "="}),
        ("key.separator=\\t", {"key.separator": "\t"}),
        ("key.separator=\\u007c", {"key.separator": "|"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("bootstrap.servers=one:1,\\\n    two:2", {"bootstrap.servers": "one:1,two:2"}),
        ("path=c:\\\\temp", {"path": "c:\\temp"}),
        ("acks=1\nacks=all", {"acks": "all"}),
        ("null.marker=", {"null.marker": ""}),
        ("empty", {"empty": ""}),
        ("held=1\\", {"held": "1"}),
        ("=5", {"": "5"}),
        ("a=1\x0cb\nc=2", {"a": "1\x0cb", "c": "2"}),
        ("a=1\u2028b\rc=2\r\nd=3", {"a": "1\u2028b", "c": "2", "d": "3"}),
        (" \t\x0ca \t\x0cb", {"a": "b"}),
        ("\xa0a\u2028b\x0b=\xa0c", {"\xa0a\u2028b\x0b": "\xa0c"}),
        ("a=1,\\\n\xa0b", {"a": "1,\xa0b"}),
        ("\\", {"": ""}),
        ("a=1\n \\\n", {"a": "1", "": ""}),
        ("\\\n\na=1", {"a": "1"}),
        ("\\\n#a=1", {}),
        ("a=1,\\\n\\\n  2\nb=3", {"a": "1,2", "b": "3"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=\\ud83c\\udf0a", {"a": "\U0001f30a"}),
    ],
)
def test_lines_become_properties(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_no_file_means_no_properties() -> None:
    assert read_properties(None) == {}


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("acks=1\n")
    assert read_properties(str(file)) == {"acks": "1"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"gone\.properties' can't be read.*No such file"):
        read_properties(str(tmp_path / "gone.properties"))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidConfig, match="it is not UTF-8"):
        read_properties(str(file))


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xef\xbb\xbfacks=all\n")
    assert read_properties(str(file)) == {"acks": "all"}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "\\u=a"])
def test_half_an_escape_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="without four digits behind it"):
        parse_properties(text)
