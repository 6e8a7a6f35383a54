"""Puts byte code into Spark's own Python archives, so that its Python processes start quicker.

`python -m tidelog_spark.quick_start`, run by a person once for each installation of Spark, with the
Python of its workers. Spark runs its Python from archives that hold sources alone, so every process
compiles what it imports, and each streaming query starts a process of its own. The invariants: an
archive is replaced whole or not at all, keeps every file that it had, and another version of
Python finds its sources as before.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import py_compile
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path, PurePosixPath
from typing import Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

#: Both stand on the path of every Python that Spark starts.
ARCHIVES: Final = ("pyspark.zip", "py4j-*-src.zip")
#: No Python that runs from the archive imports these, and they are a third of it.
_NOT_IMPORTED: Final = "tests"


class NotPossible(Exception):
    """What stands in the way, in words for whoever called."""


def spark_home() -> Path:
    """Where Spark is installed: SPARK_HOME, or the folder of the package pyspark."""
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise NotPossible(
            "No Spark was found: SPARK_HOME is not set, and the package pyspark is not installed"
            f" for {sys.executable}. Set SPARK_HOME, or run this with the Python of your workers"
        )
    return Path(found.submodule_search_locations[0])


def archives_of(home: Path) -> list[Path]:
    """Spark's archives of Python sources."""
    folder = home / "python" / "lib"
    found = [path for pattern in ARCHIVES for path in sorted(folder.glob(pattern))]
    if not found:
        raise NotPossible(
            f"{folder} holds no {ARCHIVES[0]}: {home} is no installation of Spark with Python."
            " Set SPARK_HOME to one"
        )
    return found


def add_byte_code(archive: Path) -> int:
    """How many modules got byte code of this Python; 0 where all had it."""
    with ZipFile(archive) as old:
        added = dict(_compiled(old, archive))
        if added:
            _replace(archive, old, without=set(added), adding=added)
    return len(added)


def remove_byte_code(archive: Path) -> int:
    """How many modules had byte code, which is gone now."""
    with ZipFile(archive) as old:
        gone = {name for name in old.namelist() if name.endswith(".pyc")}
        if gone:
            _replace(archive, old, without=gone, adding={})
    return len(gone)


def _is_imported(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".py" and _NOT_IMPORTED not in path.parts


def _has_byte_code(archive: ZipFile, name: str) -> bool:
    try:
        with archive.open(f"{name}c") as file:
            return file.read(len(importlib.util.MAGIC_NUMBER)) == importlib.util.MAGIC_NUMBER
    except KeyError:
        return False


def _compiled(archive: ZipFile, path: Path) -> Iterator[tuple[str, bytes]]:
    """The name and the byte code of each module that has none of this Python."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "source.py", Path(folder) / "result.pyc"
        for name in archive.namelist():
            if not _is_imported(name) or _has_byte_code(archive, name):
                continue
            source.write_bytes(archive.read(name))
            # A source that this Python can't compile is imported by none of its processes either.
            with suppress(py_compile.PyCompileError):
                py_compile.compile(
                    str(source),
                    cfile=str(result),
                    dfile=f"{path}/{name}",  # what tracebacks say
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
                yield f"{name}c", result.read_bytes()


def _replace(path: Path, old: ZipFile, *, without: set[str], adding: dict[str, bytes]) -> None:
    """Write the archive anew beside itself, and put it in its own place when it is whole."""
    handle, draft = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file, ZipFile(file, "w", ZIP_DEFLATED) as new:
            for entry in old.infolist():
                if entry.filename not in without:
                    new.writestr(copy(entry), old.read(entry))  # writing changes it
            for name, content in adding.items():
                # What every process reads is not worth unpacking each time.
                new.writestr(name, content, ZIP_STORED)
        Path(draft).chmod(path.stat().st_mode)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _changed(archive: Path, change: Callable[[Path], int]) -> int:
    try:
        return change(archive)
    except BadZipFile as error:
        raise NotPossible(f"{archive} is damaged ({error}): install Spark anew") from error
    except OSError as error:
        raise NotPossible(
            f"{archive} can't be replaced: {error.strerror}. Run this as who installed Spark, with"
            " room on the disk"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tidelog_spark.quick_start",
        description="Puts byte code into the archives from which Spark runs its Python, so that"
        " its workers and streams start quicker. Run it with the Python of the workers.",
    )
    parser.add_argument("--undo", action="store_true", help="take the byte code out again")
    undo = parser.parse_args(arguments).undo
    change = remove_byte_code if undo else add_byte_code
    try:
        for archive in archives_of(spark_home()):
            count = _changed(archive, change)
            done = "lost" if undo else "got"
            print(f"{archive}: {count} modules {done} byte code")
    except NotPossible as reason:
        print(f"{parser.prog}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
