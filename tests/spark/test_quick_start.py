"""Byte code in Spark's archives: what Python runs from them is the same, and starts quicker."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tidelog_spark.quick_start import main

FILES = {
    "pyspark/__init__.py": "",
    "pyspark/worker.py": "def work():\n    return 1 / 0\n",
    "pyspark/newer.py": "def (\n",
    "pyspark/tests/test_worker.py": "assert True\n",
    "pyspark/py.typed": "",
}
FAIL = "import pyspark.worker as w; print(w.__file__); w.work()"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of an installation that looks like Spark's."""
    folder = tmp_path / "python" / "lib"
    folder.mkdir(parents=True)
    path = folder / "pyspark.zip"
    with ZipFile(path, "w") as new:
        for name, text in FILES.items():
            new.writestr(name, text)
    path.chmod(0o640)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return path


def names(archive: Path) -> set[str]:
    """What the archive holds; each file once."""
    with ZipFile(archive) as found:
        assert found.testzip() is None
        assert len(found.namelist()) == len(set(found.namelist()))
        return set(found.namelist())


def run(archive: Path) -> tuple[str, str]:
    """Which file a Python imports from the archive, and what its traceback says."""
    done = subprocess.run(
        [sys.executable, "-c", FAIL],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip(), done.stderr


def test_python_imports_the_byte_code_and_tells_of_the_source(archive: Path) -> None:
    before_file, before_words = run(archive)
    assert main([]) == 0
    assert names(archive) == {*FILES, "pyspark/__init__.pyc", "pyspark/worker.pyc"}
    assert stat.S_IMODE(archive.stat().st_mode) == 0o640
    assert [path.name for path in archive.parent.iterdir()] == ["pyspark.zip"]
    file, words = run(archive)
    assert before_file == f"{archive}/pyspark/worker.py"
    assert file == f"{archive}/pyspark/worker.pyc"
    assert words == before_words
    assert f'"{archive}/pyspark/worker.py", line 2, in work' in words


def test_it_is_done_once_and_can_be_undone(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 0
    assert "2 modules got byte code" in capsys.readouterr().out
    changed = archive.stat().st_mtime_ns
    # A file that is not of this Python stays without, and is no reason to begin again.
    assert main([]) == 0
    assert "0 modules got byte code" in capsys.readouterr().out
    assert archive.stat().st_mtime_ns == changed
    assert main(["--undo"]) == 0
    assert "2 modules lost byte code" in capsys.readouterr().out
    assert names(archive) == set(FILES)
    assert run(archive)[0] == f"{archive}/pyspark/worker.py"


def test_byte_code_of_another_python_is_replaced(archive: Path) -> None:
    with ZipFile(archive, "a") as file:
        file.writestr("pyspark/worker.pyc", b"\0\0\0\0 of another Python")
    assert run(archive)[0] == f"{archive}/pyspark/worker.py"
    assert main([]) == 0
    names(archive)
    assert run(archive)[0] == f"{archive}/pyspark/worker.pyc"


def test_what_stands_in_the_way_is_said(
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = archive.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", read_only)
        assert main([]) == 1
    words = capsys.readouterr().err
    assert f"{archive} can't be replaced: Permission denied. Run this as who" in words
    assert archive.read_bytes() == content

    archive.write_bytes(b"no archive")
    assert main([]) == 1
    assert f"{archive} is damaged" in capsys.readouterr().err

    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "elsewhere"))
    assert main([]) == 1
    assert f"{tmp_path / 'elsewhere'} is no installation of Spark" in capsys.readouterr().err


def read_only(*_: object, **__: object) -> tuple[int, str]:
    """As a folder that somebody else owns."""
    raise PermissionError(13, "Permission denied")
