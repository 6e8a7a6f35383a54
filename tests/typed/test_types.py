"""The SDK's types help: mypy --strict and pyright accept right uses and refuse wrong ones."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from support.tree import ROOT, SOURCE_ROOTS

FOLDER: Final = Path(__file__).parent
APPLICATION: Final = FOLDER / "application.py"
WRONG_USES: Final = FOLDER / "wrong_uses.py"
REFUSED: Final = re.compile(r"#\s*type:\s*ignore\[")


def mypy(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """mypy with the project's settings, which are strict."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def pyright(folder: Path, file: Path) -> list[dict[str, Any]]:
    """What a strict pyright says of a file; comments that ignore errors mean nothing to it."""
    shutil.copy(file, folder)
    settings = {
        "include": [file.name],
        "extraPaths": [str(ROOT / root) for root in SOURCE_ROOTS],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
        "pythonVersion": "3.11",
    }
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson", "--project", project),
            *("--pythonpath", sys.executable),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(ran.stdout)
    assert answer["summary"]["filesAnalyzed"] == 1, ran.stdout + ran.stderr
    found: list[dict[str, Any]] = answer["generalDiagnostics"]
    return [diagnostic for diagnostic in found if diagnostic["severity"] == "error"]


def lines_of(diagnostics: list[dict[str, Any]]) -> set[int]:
    """The lines, counted from 1, that something is said of."""
    return {diagnostic["range"]["start"]["line"] + 1 for diagnostic in diagnostics}


def refused_lines() -> set[int]:
    """The wrong uses, by line."""
    lines = WRONG_USES.read_text().splitlines()
    return {number for number, line in enumerate(lines, start=1) if REFUSED.search(line)}


needs_pyright = pytest.mark.skipif(
    importlib.util.find_spec("pyright") is None, reason="pyright is not installed"
)


def test_mypy_accepts_the_application_and_refuses_each_wrong_use() -> None:
    """An `ignore` of a wrong use that mypy accepts would be an error: it is not needed then."""
    ran = mypy(APPLICATION, WRONG_USES)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_mypy_finds_a_use_that_is_not_wrong(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    right = "producer.flush()  # type: ig" + "nore[arg-type]\n"
    planted.write_text(f'import tidelog\nproducer = tidelog.Producer("localhost:9094")\n{right}')
    assert 'Unused "type: ig' + 'nore" comment' in mypy(planted).stdout


@needs_pyright
def test_pyright_accepts_the_application(tmp_path: Path) -> None:
    said = pyright(tmp_path, APPLICATION)
    assert [f"{found['range']['start']['line'] + 1}: {found['message']}" for found in said] == []


@needs_pyright
def test_pyright_refuses_each_wrong_use(tmp_path: Path) -> None:
    assert refused_lines()
    assert refused_lines() <= lines_of(pyright(tmp_path, WRONG_USES))
