"""Prepares .venv for `make`: finds what is missing, installs it, and says what it does.

tools/setup.sh calls this with a bare Python >= 3.11, so nothing but the standard library is
imported. It is safe to run at any moment and quick when nothing changed: .venv/tidelog-setup.json
says for which inputs each step was last completed, and is written only after the step succeeded.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = ROOT / ".venv"
VENV_PYTHON: Final = VENV / "bin" / "python"
sys.path[:0] = [str(ROOT)]

from tools import compile_hot_paths  # noqa: E402 - found by the path
from tools.java import DEBIAN_PACKAGE, find_java, missing_java  # noqa: E402 - found by the path

STAMP: Final = VENV / "tidelog-setup.json"
COMPILE_TOOL: Final = ROOT / "tools" / "compile_hot_paths.py"

#: The extras in growing order: an environment of a later one serves every earlier one.
EXTRAS: Final = ("server", "dev")


class SetupFailure(Exception):
    """Something is missing that this script cannot supply; the message says what to do."""


def say(message: str) -> None:
    """One line to whoever typed `make`."""
    print(f"setup: {message}", flush=True)


def digest_of(paths: list[Path]) -> str:
    """One hash over the contents of the files, in order; a missing file counts as itself."""
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes() if path.exists() else b"missing"
        digest.update(f"{path.name}:{len(content)}:".encode() + content)
    return digest.hexdigest()


def read_stamp() -> dict[str, str]:
    """What earlier runs completed; an unreadable stamp means: nothing."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in stamp.items()}


def write_stamp(stamp: dict[str, str]) -> None:
    """Replaces the stamp in one step, so that an interrupted run leaves the old one."""
    draft = STAMP.with_suffix(".draft")
    draft.write_text(json.dumps(stamp, indent=2, sort_keys=True) + "\n")
    draft.replace(STAMP)


def install_system_packages(packages: list[str]) -> None:
    """Installs Debian packages as root; otherwise raises with the command that would."""
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    advice = f"run as root: apt-get update && {' '.join(command)}"
    if shutil.which("apt-get") is None:
        raise SetupFailure(
            f"this system has no apt-get; install what Debian calls {' '.join(packages)} "
            "(the venv and ensurepip modules of Python), then repeat"
        )
    if os.geteuid() != 0:
        raise SetupFailure(f"installing {' '.join(packages)} needs root; {advice}; then repeat")
    say(f"installing {' '.join(packages)} with apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "-qq", "update"], command):
        if subprocess.run(step, env=environment, check=False).returncode != 0:
            raise SetupFailure(f"`{' '.join(step)}` failed: see its words above; {advice}")


def debian_venv_package() -> str:
    """The Debian package that brings ensurepip to the interpreter running this."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}-venv"


def ensure_venv_modules(extra: str) -> None:
    """Debian ships Python without ensurepip, and a venv without it has no pip."""
    if importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv"):
        return
    say(f"{sys.executable} cannot make virtual environments: ensurepip is missing")
    packages = [debian_venv_package()]
    if extra == "dev" and os.geteuid() != 0 and find_java() is None:
        packages.append(DEBIAN_PACKAGE)  # who has to ask somebody to be root asks once
    install_system_packages(packages)


def venv_works() -> bool:
    """Whether .venv has a Python >= 3.11 with a pip; half-made ones and moved ones have not."""
    question = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    if not VENV_PYTHON.exists():
        return False
    return subprocess.run([VENV_PYTHON, "-c", question], check=False).returncode == 0


def ensure_venv(extra: str) -> None:
    """Makes .venv where there is none that works."""
    if venv_works():
        return
    ensure_venv_modules(extra)
    say(f"making .venv with {sys.executable} ({sys.version.split()[0]})")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=False)
    if made.returncode != 0:
        raise SetupFailure(f"`{sys.executable} -m venv {VENV.name}` failed: see its words above")


def install_extra(extra: str) -> None:
    """Installs this tree in editable form with the dependencies of one extra."""
    say(f"installing tidelog[{extra}] and what it depends on into .venv (pip)")
    options = ["--quiet", "--disable-pip-version-check", "-e", f"{ROOT}[{extra}]"]
    command = [str(VENV_PYTHON), "-m", "pip", "install", *options]
    if subprocess.run(command, check=False).returncode != 0:
        raise SetupFailure(
            "pip could not install what is needed: see its words above. It needs a package index "
            "it can reach; pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS, pip.conf) apply"
        )


def ensure_extra(wanted: str, stamp: dict[str, str]) -> None:
    """Installs what the wanted extra asks for, unless that was done for this pyproject.toml."""
    inputs = digest_of([ROOT / "pyproject.toml", ROOT / "hatch_build.py", Path(__file__)])
    installed = stamp.get("extra", "")
    if stamp.get("install") == inputs and installed in EXTRAS[EXTRAS.index(wanted) :]:
        return
    chosen = wanted if installed not in EXTRAS else max(wanted, installed, key=EXTRAS.index)
    install_extra(chosen)
    stamp.update(install=inputs, extra=chosen)
    write_stamp(stamp)


def compiler_traits() -> str:
    """What decides whether the hot paths can be compiled here: a compiler, and Python's headers."""
    found = [shutil.which(name) for name in ("cc", "gcc", "clang")]
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return f"{os.environ.get('CC', '')} {found} {headers.exists()}"


def ensure_compiled(stamp: dict[str, str], *, may_compile: bool) -> None:
    """Compiles the hot paths, so that no twin is left that is older than its source.

    Python prefers the compiled twin to the source beside it: a stale one would run old code
    silently, so it is removed before anything else is tried.
    """
    hot = [compile_hot_paths.source_of(module) for module in compile_hot_paths.MODULES]
    # What lies beside them counts too: its types are in their code.
    sources = [
        path
        for folder in sorted({file.parent for file in hot})
        for path in sorted(folder.glob("*.py"))
    ]
    elsewhere = [compile_hot_paths.source_of(module) for module in compile_hot_paths.BAKED_IN]
    inputs = f"{digest_of([*sources, *elsewhere, COMPILE_TOOL])} {compiler_traits()}"
    if stamp.get("compiled") == inputs:
        return
    compile_hot_paths.remove_twins()
    stamp.pop("compiled", None)
    write_stamp(stamp)
    if not may_compile:
        return
    if subprocess.run([VENV_PYTHON, COMPILE_TOOL], check=False).returncode != 0:
        raise SetupFailure(
            "the hot paths did not compile: see the words above; "
            "to go on with pure Python, which is slower, add CC=none to the command"
        )
    stamp["compiled"] = inputs
    write_stamp(stamp)


def ensure_java() -> None:
    """Spark runs on Java. Without one everything else works, and the tests of Spark are skipped."""
    if find_java() is not None:
        return
    if os.geteuid() == 0 and shutil.which("apt-get") is not None:
        try:
            install_system_packages([DEBIAN_PACKAGE])
        except SetupFailure as failure:
            say(f"{failure}")
    if find_java() is None:
        say(f"{missing_java()}. Going on without: only what runs on Spark won't")


def ensure_quick_spark(stamp: dict[str, str]) -> None:
    """Gives Spark's own Python its byte code; without it the tests only take longer."""
    if stamp.get("spark") == stamp["install"]:
        return
    say("giving Spark's Python archives byte code")
    command = [str(VENV_PYTHON), "-m", "tidelog_spark.quick_start"]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
        say("going on without: Spark compiles its Python in every process, and starts slower")
        return
    stamp["spark"] = stamp["install"]
    write_stamp(stamp)


def ensure_byte_code() -> None:
    """Where Python is told to keep none, each process of ours would compile all of it anew."""
    if not sys.dont_write_bytecode:
        return
    folders = [str(ROOT / name) for name in ("clients", "services", "spark")]
    # What can't be written is compiled in each process, which is slower and nothing else.
    subprocess.run([VENV_PYTHON, "-m", "compileall", "-qq", *folders], check=False)


def prepare(extra: str) -> None:
    """Everything `make` needs before it runs something from .venv."""
    ensure_venv(extra)
    stamp = read_stamp()
    ensure_extra(extra, stamp)
    if extra == "dev":
        ensure_java()
        ensure_quick_spark(stamp)
    ensure_compiled(stamp, may_compile=stamp["extra"] == "dev")
    ensure_byte_code()


def main() -> int:
    """Prepares .venv with the named extra; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extra", choices=EXTRAS, help="server: enough to run; dev: everything")
    extra = parser.parse_args().extra
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # `make up` and `make test` may start at the same time
        try:
            prepare(extra)
        except SetupFailure as failure:
            print(f"setup: {failure}.", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
