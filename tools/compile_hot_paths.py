"""Compiles the modules of the client that see every record, by mypyc.

`make setup` calls this to put the compiled twins beside their sources; `hatch_build.py` calls
`compile_hot_paths` to put them into a wheel. Without a C compiler nothing is lost but speed: the
sources are then what runs, and this says so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
IMPORT_ROOT: Final = ROOT / "clients" / "python"
PACKAGE: Final = "tidelog"
FOLDER: Final = IMPORT_ROOT / PACKAGE

#: What is compiled: these modules see every record, or the header of every batch.
MODULES: Final = (
    "producer/accumulator",
    "producer/delivery",
    "producer/handing_over",
    "producer/many",
    "producer/partitioner",
    "producer/sends",
    "records/batch",
    "records/builder",
    "records/chain",
    "records/decoder",
    "records/record",
    "records/source",
    "records/varint",
)

#: The one library that holds the code of all of them; it lies beside `records`.
LIBRARY: Final = f"{PACKAGE}.compiled"


def missing_for_compiling() -> str | None:
    """What this machine lacks for compiling, in words; None when it has all."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if sys.platform != "win32" and shutil.which(shlex.split(command)[0]) is None:
        return f"no C compiler found ({command})"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        return "no headers of Python found (Python.h)"
    return None


def compile_hot_paths(target: Path) -> list[Path]:
    """Compiles the modules into `target`, as the package's folder; returns the files made.

    Needs mypy and setuptools. Raises `SystemExit` with the compiler's words when it fails.
    """
    setuptools = import_module("setuptools")  # before mypyc, which looks whether it is there
    mypyc = import_module("mypyc.build")
    os.environ["MYPYPATH"] = str(IMPORT_ROOT)
    with tempfile.TemporaryDirectory(prefix="tidelog-mypyc-") as scratch:
        extensions = mypyc.mypycify(
            [
                "--config-file=",
                "--ignore-missing-imports",
                "--namespace-packages",
                "--explicit-package-bases",
                f"--cache-dir={scratch}/mypy",
                *(str(FOLDER / f"{name}.py") for name in MODULES),
            ],
            group_name=LIBRARY,
            target_dir=f"{scratch}/c",
            debug_level="0",
        )
        distribution = setuptools.Distribution({"name": PACKAGE, "ext_modules": extensions})
        command = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp = f"{scratch}/lib", f"{scratch}/objects"
        command.ensure_finalized()
        command.run()
        made = [Path(output) for output in command.get_outputs()]
        return [_put(path, Path(scratch, "lib", PACKAGE), target) for path in made]


def _put(made: Path, root: Path, target: Path) -> Path:
    """Copies a file to its place below the package's folder."""
    place = target / made.relative_to(root)
    place.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(made, place))


def main() -> int:
    """Compiles in place; returns the exit status, which is 0 where there is no compiler."""
    for stale in FOLDER.rglob("*.so"):
        stale.unlink()
    missing = missing_for_compiling()
    if missing is not None:
        print(
            f"{PACKAGE}: {missing}: the pure Python codec is used (slower); "
            "install gcc and python3-dev to compile"
        )
        return 0
    made = compile_hot_paths(FOLDER)
    print(f"{PACKAGE}: compiled {', '.join(MODULES)} ({len(made)} files)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
