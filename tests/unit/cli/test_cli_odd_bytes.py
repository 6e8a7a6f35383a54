"""Arguments that are not UTF-8: used as the bytes they are where bytes are meant, else refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tidelog.cli.argument_bytes import argument_bytes
from tidelog.cli.formatting import column_formatter
from tidelog.cli.line_reader import LineReader, ParsedLine
from tidelog.cli.perf_figures import date_format
from tidelog.cli.producer_perf import payloads
from tidelog.errors import InvalidConfig, InvalidRecord, InvalidRequest

#: What Python makes of the byte ff in an argument.
BYTE = "\udcff"


def test_a_separator_may_be_any_bytes() -> None:
    reader = LineReader.from_properties({"parse.key": "true", "key.separator": BYTE})
    assert reader.read(b"key\xffvalue", 1) == ParsedLine(b"key", b"value", ())
    assert LineReader.from_properties({"null.marker": BYTE}).read(b"\xff", 1).value is None
    formatter = column_formatter({"key.separator": BYTE, "null.literal": BYTE})
    assert (formatter.key_separator, formatter.null_literal) == (b"\xff", b"\xff")


def test_what_is_neither_text_nor_bytes_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"key.separator='\\ud800' is no Unicode text"):
        argument_bytes("key.separator", "\ud800")
    with pytest.raises(InvalidRequest, match="letters that are not understood"):
        date_format(BYTE)


def test_payloads_may_be_divided_by_any_bytes(tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_bytes(b"same\xffsame")
    options = argparse.Namespace(
        payload_monotonic=False, record_size=None, payload_file=str(file), payload_delimiter=BYTE
    )
    assert payloads(options)(0) == b"same"


def test_a_header_key_that_is_no_text_is_not_changed_silently() -> None:
    reader = LineReader.from_properties({"parse.headers": "true"})
    with pytest.raises(InvalidRecord, match=r"The header key '\\xff' on line number 7 is not"):
        reader.read(b"\xff:x\tv", 7)
    lenient = LineReader.from_properties({"parse.headers": "true", "ignore.error": "true"})
    assert lenient.read(b"\xff:x\tv", 7).headers == (("\\xff", b"x"),)
