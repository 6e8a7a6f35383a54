"""What must not stand in any file: this machine's paths, hosts of others, notes to self, sleeps."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.tree import ROOT, python_files, relative, text_files

#: Patterns with the reason they are refused. Written in pieces, so that this file passes too.
REFUSED: Final = {
    "a path of one machine": r"(?<![\w.~-])/(?:work|root|home|Users)" + r"/\w",
    "a folder beside the repository": r"\.\./" + "shared",
    "a host of a package registry": "py" + r"pi\.org|" + "python" + r"hosted\.org|registry-1\.",
    "a note to oneself": r"\b(?:TO" + "DO|FIX" + r"ME|XX" + r"X)\b",
    "a rule switched off without its name": r"#\s*no" + r"qa(?!: ?[A-Z]+\d+)",
    "a type error ignored without its name": r"#\s*type:\s*ig" + r"nore(?!\[[a-z-]+\])",
}

#: Where the folder beside the repository may be looked for: both do without it.
MAY_LOOK_BESIDE: Final = ("bench/", ".ci/")

#: Generated code is the largest that stands here, with half of it: no packages, data or pictures.
KEPT_BYTES_MAX: Final = 64 << 10

#: Tests that never wait for a clock: there, only the simulator's time passes.
CLOCKLESS: Final = ("tests/unit/", "tests/properties/", "tests/simulation/")


def refused_in(path: str, text: str) -> Iterator[str]:
    """Every line of a file that a pattern refuses, in words."""
    for reason, pattern in REFUSED.items():
        if reason == "a folder beside the repository" and path.startswith(MAY_LOOK_BESIDE):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if re.search(pattern, line):
                yield f"{path}:{number}: {reason}: {line.strip()}"


def sleeps_in(path: str, text: str) -> Iterator[str]:
    """Every call that waits for time to pass; giving way once is none.

    On the simulator's loop `asyncio.sleep` is virtual and costs nothing; `time.sleep` never is.
    """
    simulated = path.startswith("tests/simulation/") or any(
        f"from simulation.{module} import" in text for module in ("loop", "world")
    )
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("sleep"):
            continue
        gives_way = ast.unparse(node) == "asyncio.sleep(0)"
        virtual = simulated and not ast.unparse(node.func).startswith("time.")
        if not gives_way and not virtual:
            yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def too_large(folder: Path) -> list[str]:
    """What git keeps of a repository that nobody can have written by hand."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    names = listed.stdout.split("\0")[:-1]
    # (One that is removed and not committed yet is listed too.)
    kept = [name for name in names if (folder / name).is_file()]
    return [name for name in kept if (folder / name).stat().st_size > KEPT_BYTES_MAX]


@pytest.mark.skipif(shutil.which("git") is None, reason="git lists the files, and is not here")
def test_git_keeps_what_people_write_alone(tmp_path: Path) -> None:
    if (ROOT / ".git").exists():
        assert too_large(ROOT) == []
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "tool.whl").write_bytes(bytes(KEPT_BYTES_MAX + 1))
    (tmp_path / "source.py").write_bytes(bytes(KEPT_BYTES_MAX))
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    assert too_large(tmp_path) == ["tool.whl"]


def test_no_file_holds_what_is_refused() -> None:
    assert [
        line for path in text_files() for line in refused_in(relative(path), path.read_text())
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        "see /ho" + "me/somebody/tidelog",
        "cd ../" + "shared",
        "https://py" + "pi.org/simple",
        "# TO" + "DO later",
        "import os  # no" + "qa",
        "x = 1  # type: ig" + "nore",
    ],
)
def test_what_is_refused_is_found(line: str) -> None:
    assert list(refused_in("clients/python/tidelog/planted.py", line))


def test_clockless_tests_do_not_sleep() -> None:
    assert [
        line
        for path in python_files()
        if relative(path).startswith(CLOCKLESS)
        for line in sleeps_in(relative(path), path.read_text())
    ] == []


def test_a_sleep_is_found() -> None:
    simulated = "from simulation.loop import SimulationLoop\n"
    assert list(sleeps_in("tests/unit/planted.py", "time.sleep(1)"))
    assert list(sleeps_in("tests/unit/planted.py", "await asyncio.sleep(0.1)"))
    assert list(sleeps_in("tests/unit/planted.py", f"{simulated}time.sleep(1)"))
    assert list(sleeps_in("tests/simulation/planted.py", "time.sleep(1)"))
    assert not list(sleeps_in("tests/unit/planted.py", f"{simulated}await asyncio.sleep(5)"))
    assert not list(sleeps_in("tests/unit/planted.py", "await asyncio.sleep(0)"))
    assert not list(sleeps_in("tests/simulation/planted.py", "await asyncio.sleep(5)"))


def test_every_shell_script_stops_at_the_first_failure() -> None:
    scripts = [path for path in (ROOT / "tools").glob("*.sh")] + [ROOT / ".ci" / "run"]
    assert [relative(path) for path in scripts if not stops_at_failure(path)] == []


def stops_at_failure(script: Path) -> bool:
    """Whether a shell script sets -e and -u near its top."""
    return re.search(r"^set -eu", script.read_text(), flags=re.MULTILINE) is not None
