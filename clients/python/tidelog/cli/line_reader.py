"""Turns lines into records for `console-producer`: `headers<delimiter>key<separator>value`.

The layout comes from reader properties with Kafka's names and defaults. Works on bytes, so that
what is no UTF-8 goes through unharmed. Pure; the verb does the reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tidelog.cli.argument_bytes import argument_bytes
from tidelog.cli.switches import boolean
from tidelog.errors import InvalidConfig, InvalidRecord
from tidelog.nearest import did_you_mean

PROPERTIES: Final = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "ignore.error",
    "null.marker",
)

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """What one line says."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class LineReader:
    """How a line is taken apart."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LineReader:
        """The reader that these properties describe; InvalidConfig for one that is unknown."""
        settings: dict[str, bool | bytes] = {}
        for name, text in properties.items():
            if name not in PROPERTIES:
                raise InvalidConfig(
                    f"There is no reader property {name!r}",
                    hint=did_you_mean(name, PROPERTIES) or f"There are {', '.join(PROPERTIES)}",
                )
            field = name.replace(".", "_")
            is_switch = name.startswith(("parse.", "ignore."))
            settings[field] = boolean(name, text) if is_switch else argument_bytes(name, text)
        reader = cls(**settings)  # type: ignore[arg-type] # each by its kind, see above
        reader._check()
        return reader

    def _check(self) -> None:
        named = {
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.headers_key_separator,
        }
        marks = named if self.parse_headers else {}
        if self.parse_key and self.null_marker is not None:
            _check_differ({"key.separator": self.key_separator, "null.marker": self.null_marker})
        if self.null_marker is not None and marks:
            marks = marks | {"null.marker": self.null_marker}
        _check_differ(marks)
        for name, mark in (named | {"key.separator": self.key_separator}).items():
            if not mark:
                raise InvalidConfig(f"The reader property {name} is empty")

    def read(self, line: bytes, number: int) -> ParsedLine:
        """The record of a line without its end; InvalidRecord names the line when it has none."""
        headers_text: bytes | None = None
        key: bytes | None = None
        rest = line
        if self.parse_headers:
            headers_text, rest = self._split(
                rest, self.headers_delimiter, "headers delimiter", line, number
            )
        if self.parse_key:
            key, rest = self._split(rest, self.key_separator, "key separator", line, number)
        headers: tuple[Header, ...] = ()
        if headers_text is not None and headers_text != self.null_marker:
            headers = self._headers(headers_text, number)
        return ParsedLine(self._or_null(key), self._or_null(rest), headers)

    def _split(
        self, text: bytes, mark: bytes, mark_name: str, line: bytes, number: int
    ) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(mark)
        if found:
            return before, after
        if self.ignore_error:
            return None, text
        raise InvalidRecord(
            f"No {mark_name} found on line number {number}: '{_shown(line)}'",
            hint=f"{mark_name.replace(' ', '.')} is {_shown(mark)!r}; ignore.error=true takes"
            " a line without one as a value",
        )

    def _headers(self, text: bytes, number: int) -> tuple[Header, ...]:
        return tuple(self._header(one, number) for one in text.split(self.headers_separator))

    def _header(self, text: bytes, number: int) -> Header:
        name, found, value = text.partition(self.headers_key_separator)
        if not self.ignore_error and not _is_text(name):
            raise InvalidRecord(
                f"The header key '{_shown(name)}' on line number {number} is not UTF-8",
                hint="ignore.error=true takes it as it is shown",
            )
        if not found:
            if self.ignore_error:
                return _shown(text), None
            raise InvalidRecord(
                f"No header key separator found in pair '{_shown(text)}' on line number {number}"
            )
        if self.null_marker is not None and name == self.null_marker:
            raise InvalidRecord(
                f"Header keys should not be equal to the null marker '{_shown(name)}'"
                " as they can't be null"
            )
        return _shown(name), self._or_null(value)

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text


def _check_differ(marks: Mapping[str, bytes]) -> None:
    for (name, mark), (other_name, other) in combinations(marks.items(), 2):
        if mark == other:
            raise InvalidConfig(f"{name} and {other_name} may not be equal")


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")
