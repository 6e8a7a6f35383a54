"""Compiles the modules that see every record, or every batch in a broker, by mypyc.

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
#: Where the packages lie that hold compiled modules.
PACKAGES: Final = {
    "tidelog": ROOT / "clients" / "python" / "tidelog",
    "tidelog_broker": ROOT / "services" / "broker" / "tidelog_broker",
    "tidelog_runtime": ROOT / "services" / "runtime" / "tidelog_runtime",
}

#: What is compiled: in a client what sees every record, in a broker what sees every batch that is
#: produced. Together, since calls between them then need no Python objects.
MODULES: Final = (
    "tidelog/producer/accumulator",
    "tidelog/producer/delivery",
    "tidelog/producer/handing_over",
    "tidelog/producer/many",
    "tidelog/producer/partitioner",
    "tidelog/producer/sends",
    "tidelog/records/batch",
    "tidelog/records/builder",
    "tidelog/records/chain",
    "tidelog/records/crc",
    "tidelog/records/decoder",
    "tidelog/records/record",
    "tidelog/records/source",
    "tidelog/records/varint",
    "tidelog_broker/api/appending",
    "tidelog_broker/partition/core",
    "tidelog_broker/partition/partition",
    "tidelog_broker/partition/replicas",
    "tidelog_broker/partition/waiting",
    "tidelog_broker/storage/leader_epochs",
    "tidelog_broker/storage/log",
    "tidelog_broker/storage/log_body",
    "tidelog_broker/storage/log_state",
    "tidelog_broker/storage/open_files",
    "tidelog_broker/storage/producer_state",
    "tidelog_broker/storage/segment",
    "tidelog_broker/storage/segment_index",
    "tidelog_runtime/adapters/local_file",
)

#: The one library that holds the code of all of them; it lies beside `records`.
LIBRARY: Final = "tidelog.compiled"

#: Not compiled, but their constants and types are in the code of what is.
BAKED_IN: Final = (
    "tidelog/errors",
    "tidelog/model",
    "tidelog_runtime/disk",
    "tidelog_runtime/principal",
)


def missing_for_compiling() -> str | None:
    """What this machine lacks for compiling, in words; None when it has all."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if sys.platform != "win32" and shutil.which(shlex.split(command)[0]) is None:
        return f"no C compiler found ({command})"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        return "no headers of Python found (Python.h)"
    return None


def source_of(module: str) -> Path:
    """The file of one of the modules."""
    package, _, name = module.partition("/")
    return PACKAGES[package] / f"{name}.py"


def remove_twins() -> None:
    """No compiled module is left beside the sources."""
    for folder in PACKAGES.values():
        for twin in sorted(folder.rglob("*.so")):
            twin.unlink()


def compile_hot_paths(places: dict[str, Path]) -> list[Path]:
    """Compiles the modules into the place of each package; returns the files made.

    Needs mypy and setuptools. Raises `SystemExit` with the compiler's words when it fails.
    """
    setuptools = import_module("setuptools")  # before mypyc, which looks whether it is there
    mypyc = import_module("mypyc.build")
    os.environ["MYPYPATH"] = os.pathsep.join(str(folder.parent) for folder in PACKAGES.values())
    with tempfile.TemporaryDirectory(prefix="tidelog-mypyc-") as scratch:
        extensions = mypyc.mypycify(
            [
                "--config-file=",
                "--ignore-missing-imports",
                # What these import is checked elsewhere, with the types of gRPC and NumPy, which an
                # environment that builds a wheel does not have.
                "--follow-imports=silent",
                "--disable-error-code=overload-cannot-match",
                "--namespace-packages",
                "--explicit-package-bases",
                f"--cache-dir={scratch}/mypy",
                *(str(source_of(module)) for module in MODULES),
            ],
            group_name=LIBRARY,
            target_dir=f"{scratch}/c",
            debug_level="0",
        )
        distribution = setuptools.Distribution({"name": "tidelog", "ext_modules": extensions})
        command = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp = f"{scratch}/lib", f"{scratch}/objects"
        command.ensure_finalized()
        try:
            command.run()
        except (setuptools.errors.BaseError, setuptools.errors.CCompilerError) as error:
            raise SystemExit(f"the compiler failed: {error}") from error
        made = [Path(output) for output in command.get_outputs()]
        return [_put(path.relative_to(f"{scratch}/lib"), path, places) for path in made]


def _put(name: Path, made: Path, places: dict[str, Path]) -> Path:
    """Copies a file to its place below its package's folder."""
    place = places[name.parts[0]].joinpath(*name.parts[1:])
    place.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(made, place))


def main() -> int:
    """Compiles in place; returns the exit status, which is 0 where there is no compiler."""
    remove_twins()
    missing = missing_for_compiling()
    if missing is not None:
        print(
            f"tidelog: {missing}: pure Python is used (slower); "
            "install gcc and python3-dev to compile"
        )
        return 0
    made = compile_hot_paths(PACKAGES)
    print(f"tidelog: compiled {', '.join(MODULES)} ({len(made)} files)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
