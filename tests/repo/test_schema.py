"""The generated code is what proto/ says, and proto/ keeps every promise it ever made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_protos, gen_protos

BEFORE = """
syntax = "proto3";
package planted.v1;
enum Colour { NONE = 0; RED = 1; }
message Inner { string name = 1; }
message Outer {
  reserved 9;
  int32 count = 1;
  Inner inner = 2;
  oneof choice { string text = 3; bytes data = 4; }
  optional int32 epoch = 5;
}
service Planted { rpc Ask(Inner) returns (stream Outer); }
"""


def described(folder: Path, schema: str) -> bytes:
    """The descriptors of a one-file schema."""
    folder.mkdir(exist_ok=True)
    (folder / "planted.proto").write_text(schema)
    return check_protos.describe(folder)


@pytest.mark.parametrize("package", sorted(gen_protos.OWNERS))
def test_generated_code_matches_the_schema(package: str) -> None:
    assert gen_protos.differences(package, gen_protos.OWNERS[package]) == []


def test_the_schema_keeps_what_it_promised() -> None:
    baseline = check_protos.BASELINE.read_bytes()
    schema = check_protos.describe(check_protos.PROTO)
    assert check_protos.breaks(baseline, schema) == []
    assert check_protos.additions(baseline, schema) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("  int32 count = 1;\n", "", "field 1 of .planted.v1.Outer: removed"),
        ("int32 count = 1", "int32 number = 1", "field 1 of .planted.v1.Outer: changed"),
        ("int32 count = 1", "int64 count = 1", "field 1 of .planted.v1.Outer: changed"),
        ("int32 count = 1", "repeated int32 count = 1", "field 1 of .planted.v1.Outer: changed"),
        ("int32 count = 1", "int32 count = 6", "field 1 of .planted.v1.Outer: removed"),
        ("optional int32 epoch", "int32 epoch", "field 5 of .planted.v1.Outer: changed"),
        ("bytes data = 4; }", "} bytes data = 4;", "field 4 of .planted.v1.Outer: changed"),
        ("RED = 1", "ROSE = 1", "value RED of .planted.v1.Colour: removed"),
        ("RED = 1", "RED = 2", "value RED of .planted.v1.Colour: changed"),
        ("reserved 9;", "int32 nine = 9;", "reserved numbers 9 to 9 of .planted.v1.Outer: removed"),
        ("returns (stream Outer)", "returns (Outer)", "method Ask of .planted.v1.Planted: changed"),
        ("package planted.v1", "package planted.v2", "message .planted.v1.Inner: removed"),
    ],
)
def test_a_broken_promise_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in BEFORE
    before = described(tmp_path / "before", BEFORE)
    after = described(tmp_path / "after", BEFORE.replace(old, new))
    assert any(line.startswith(complaint) for line in check_protos.breaks(before, after))


def test_growth_is_welcome(tmp_path: Path) -> None:
    grown = BEFORE.replace("int32 count = 1;", "int32 count = 1; string note = 6;")
    grown = grown.replace("RED = 1;", "RED = 1; BLUE = 2;")
    before, after = described(tmp_path / "before", BEFORE), described(tmp_path / "after", grown)
    assert check_protos.breaks(before, after) == []
    assert check_protos.additions(before, after) == [
        "field 6 of .planted.v1.Outer",
        "value BLUE of .planted.v1.Colour",
    ]
