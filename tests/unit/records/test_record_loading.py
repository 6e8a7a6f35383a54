"""Which twin of the codec is used, how it is compiled, and what happens without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from support.record_twins import WHY_NOT_COMPILED, has_compiled
from support.tree import ROOT
from tidelog.records.crc import crc32c
from tools import compile_hot_paths

SHOW: Final = """
import sys
import tidelog.records
from tidelog.records import batch, builder, chain, decoder, record, source, varint
heavy = {"cramjam", "crc32c", "numpy", "pyarrow"} & set(sys.modules)
print(tidelog.records.COMPILED, decoder.__file__.endswith(".py"), sorted(heavy))
"""


def shown(**environment: str) -> str:
    """What a fresh process says of its codec."""
    command = [sys.executable, "-c", SHOW]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


def test_the_sources_are_used_when_asked_for() -> None:
    assert shown(TIDELOG_PURE="1") == "False True []\n"


def test_the_compiled_twin_is_used_when_it_is_there() -> None:
    if not has_compiled():
        pytest.skip(WHY_NOT_COMPILED)
    assert shown(TIDELOG_PURE="0") == shown(TIDELOG_PURE="") == "True False []\n"


def test_every_compiled_module_has_its_source() -> None:
    for module in compile_hot_paths.MODULES:
        assert compile_hot_paths.source_of(module).exists()


def test_without_a_compiler_the_tool_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(compile_hot_paths, "PACKAGES", {"tidelog": tmp_path})
    (tmp_path / "stale.so").touch()
    assert compile_hot_paths.main() == 0
    said = capsys.readouterr().out
    assert "no C compiler found (no-such-compiler): pure Python is used (slower)" in said
    assert "install gcc and python3-dev" in said
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_the_wheel_is_pure(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "-o", str(tmp_path)]
    env = {**os.environ, "CC": "no-such-compiler"}
    built = subprocess.run(
        [*command, str(ROOT)], capture_output=True, text=True, check=False, env=env
    )
    assert built.returncode == 0, built.stderr
    assert "holds pure Python" in built.stdout + built.stderr
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "tidelog/records/decoder.py" in names
    assert [name for name in names if name.endswith(".so")] == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_checksum_is_castagnolis(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283
    assert crc32c(kind(b"6789"), crc32c(b"12345")) == 0xE3069283
