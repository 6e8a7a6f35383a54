"""The files of this repository as its own tests see them: what is written here, not what is made.

Generated code, environments, caches and build results are left out, so that the rules of the
house bind what people write and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent

#: Where the top-level package of each part lives.
SOURCE_ROOTS: Final = (
    "clients/python",
    "services/runtime",
    "services/broker",
    "services/controller",
    "services/group-coordinator",
    "services/node",
    "spark",
)

#: Folders that hold what was made or installed.
MADE: Final = frozenset(
    {
        ".git",
        ".hypothesis",
        ".import_linter_cache",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".venv",
        "__pycache__",
        "build",
        "dist",
        "results",
        "tidelog-data",
    }
)

#: What is read as text when a rule concerns every file.
TEXT_SUFFIXES: Final = frozenset(
    {"", ".cfg", ".ini", ".md", ".proto", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
)


def relative(path: Path) -> str:
    """The path as people write it: from the root, with slashes."""
    return path.relative_to(ROOT).as_posix()


def is_generated(path: Path) -> bool:
    """Whether `make gen` writes this file."""
    return path.parent.match("wire/v1") and "_pb2" in path.name


def written_files() -> Iterator[Path]:
    """Every file somebody wrote, in a stable order."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in MADE)
        for name in sorted(names):
            path = Path(folder) / name
            if not is_generated(path) and not path.is_symlink():
                yield path


def python_files() -> Iterator[Path]:
    """Every Python module somebody wrote: sources, tests, tools, benches."""
    return (path for path in written_files() if path.suffix == ".py")


def text_files() -> Iterator[Path]:
    """Every text somebody wrote; the licence is not ours to word."""
    return (
        path
        for path in written_files()
        if path.suffix in TEXT_SUFFIXES and path.name not in {"LICENSE", ".coverage"}
    )


def package_files() -> Iterator[Path]:
    """Every Python module that an installation carries, generated ones included."""
    for root in SOURCE_ROOTS:
        yield from sorted(
            path for path in (ROOT / root).rglob("*.py") if "__pycache__" not in path.parts
        )
