"""Finds the Java that Spark runs on.

`make setup` asks for it, and so do the tests before they start Spark. Standard library alone, since
set-up runs before anything is installed. Invariant: what is found was run, and said its version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The oldest Java that Spark 4 runs on.
OLDEST_VERSION: Final = 17
#: What every Debian calls the Java it has, which is 17 in Debian 12 and 21 in Debian 13.
DEBIAN_PACKAGE: Final = "default-jre-headless"
#: Where systems keep them, when neither JAVA_HOME nor PATH names one.
_FOLDERS: Final = ("/usr/lib/jvm", "/usr/java", "/Library/Java/JavaVirtualMachines")
_VERSION: Final = re.compile(r'version "(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    """One that runs."""

    home: Path
    version: int


def find_java() -> Java | None:
    """The Java to use: JAVA_HOME's, PATH's, or the oldest that will do of the system's folders."""
    for home in (os.environ.get("JAVA_HOME"), _home_on_path()):
        found = _java_in(Path(home)) if home else None
        if found is not None:
            return found
    homes = [home for folder in _FOLDERS for home in sorted(Path(folder).glob("*"))]
    homes += [home / "Contents" / "Home" for home in homes]
    found_there = [found for home in homes if (found := _java_in(home)) is not None]
    return min(found_there, key=lambda java: java.version, default=None)


def missing_java() -> str:
    """Why Spark can't run here, and what to do about it."""
    tried = "neither JAVA_HOME nor PATH leads to one"
    named = os.environ.get("JAVA_HOME")
    if named:
        tried = f"JAVA_HOME={named} is none, and PATH leads to none"
    return (
        f"Spark needs Java {OLDEST_VERSION} or later: {tried}. "
        f"On Debian, as root: apt-get update && apt-get install -y {DEBIAN_PACKAGE}; "
        "elsewhere install one and set JAVA_HOME"
    )


def _home_on_path() -> str | None:
    program = shutil.which("java")
    return str(Path(program).resolve().parent.parent) if program else None


def _java_in(home: Path) -> Java | None:
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = _VERSION.search(told.stderr + told.stdout)
    version = int(match[1]) if match else 0
    return Java(home, version) if version >= OLDEST_VERSION else None
