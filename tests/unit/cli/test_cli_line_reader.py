"""A line becomes the record that Kafka's console producer makes of it."""

from __future__ import annotations

import pytest

from tidelog.cli.line_reader import LineReader, ParsedLine
from tidelog.errors import InvalidConfig, InvalidRecord

KEYED = {"parse.key": "true"}
HEADED = {"parse.headers": "true"}


def parsed(line: bytes, **properties: str) -> ParsedLine:
    """The record of a line; properties by names with underscores."""
    named = {name.replace("_", "."): text for name, text in properties.items()}
    return LineReader.from_properties(named).read(line, 7)


def test_a_line_is_a_value() -> None:
    assert parsed(b"a\tb:c") == ParsedLine(None, b"a\tb:c", ())


def test_an_empty_line_is_an_empty_value() -> None:
    assert parsed(b"") == ParsedLine(None, b"", ())


@pytest.mark.parametrize(
    ("line", "properties", "record"),
    [
        (b"k\tv", KEYED, ParsedLine(b"k", b"v", ())),
        (b"k\tv\tw", KEYED, ParsedLine(b"k", b"v\tw", ())),
        (b"\tv", KEYED, ParsedLine(b"", b"v", ())),
        (b"k::v", KEYED | {"key.separator": "::"}, ParsedLine(b"k", b"v", ())),
        (b"h:1\tv", HEADED, ParsedLine(None, b"v", (("h", b"1"),))),
        (
            b"h:1,g:2\tk\tv",
            KEYED | HEADED,
            ParsedLine(b"k", b"v", (("h", b"1"), ("g", b"2"))),
        ),
        (
            b"h=1;g=2|k-v",
            KEYED
            | HEADED
            | {
                "headers.delimiter": "|",
                "headers.separator": ";",
                "headers.key.separator": "=",
                "key.separator": "-",
            },
            ParsedLine(b"k", b"v", (("h", b"1"), ("g", b"2"))),
        ),
        (b"h:a:b\tv", HEADED, ParsedLine(None, b"v", (("h", b"a:b"),))),
        (b"NIL\tNIL", KEYED | {"null.marker": "NIL"}, ParsedLine(None, None, ())),
        (
            b"NIL\tk\tNIL",
            KEYED | HEADED | {"null.marker": "NIL"},
            ParsedLine(b"k", None, ()),
        ),
        (b"h:NIL\tv", HEADED | {"null.marker": "NIL"}, ParsedLine(None, b"v", (("h", None),))),
        (b"\xff\t\xfe", KEYED, ParsedLine(b"\xff", b"\xfe", ())),
    ],
)
def test_the_parts_are_found(line: bytes, properties: dict[str, str], record: ParsedLine) -> None:
    assert LineReader.from_properties(properties).read(line, 1) == record


@pytest.mark.parametrize(
    ("line", "properties", "words"),
    [
        (b"v", KEYED, "No key separator found on line number 7: 'v'"),
        (b"v", HEADED, "No headers delimiter found on line number 7: 'v'"),
        (b"h:1\tv", KEYED | HEADED, "No key separator found on line number 7: 'h:1\tv'"),
        (b"h\tv", HEADED, "No header key separator found in pair 'h' on line number 7"),
        (
            b"NIL:1\tv",
            HEADED | {"null.marker": "NIL"},
            "Header keys should not be equal to the null marker 'NIL' as they can't be null",
        ),
    ],
)
def test_a_line_without_its_parts_is_refused(
    line: bytes, properties: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidRecord) as error:
        LineReader.from_properties(properties).read(line, 7)
    assert error.value.message == words


def test_what_a_line_lacks_is_told_with_the_way_out() -> None:
    with pytest.raises(InvalidRecord) as error:
        LineReader.from_properties(KEYED | {"key.separator": "::"}).read(b"k:v", 7)
    assert error.value.hint.startswith("key.separator is '::'; ignore.error=true")


@pytest.mark.parametrize(
    ("line", "properties", "record"),
    [
        (b"v", KEYED, ParsedLine(None, b"v", ())),
        (b"v", HEADED, ParsedLine(None, b"v", ())),
        (b"h\tv", HEADED, ParsedLine(None, b"v", (("h", None),))),
    ],
)
def test_errors_can_be_ignored(line: bytes, properties: dict[str, str], record: ParsedLine) -> None:
    reader = LineReader.from_properties(properties | {"ignore.error": "true"})
    assert reader.read(line, 1) == record


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"parse.keys": "true"}, "Did you mean 'parse.key'"),
        ({"parse.key": "yes"}, "parse.key=yes is neither true nor false"),
        (HEADED | {"headers.separator": "\t"}, "headers.delimiter and headers.separator"),
        (HEADED | {"headers.separator": ":"}, "headers.separator and headers.key.separator"),
        (HEADED | {"headers.delimiter": ":"}, "headers.delimiter and headers.key.separator"),
        (HEADED | {"null.marker": ","}, "headers.separator and null.marker"),
        (KEYED | {"null.marker": "\t"}, "key.separator and null.marker"),
        (KEYED | {"key.separator": ""}, "key.separator is empty"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        LineReader.from_properties(properties)
    assert words in str(error.value)
