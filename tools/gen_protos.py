"""Generates the Python code of proto/ into the packages that own it (`make gen`).

A proto's path is its module's path, so nothing is rewritten afterwards. The generator is pinned
in pyproject.toml: code made by a newer one would refuse older protobuf runtimes. `--check`
generates into a temporary folder and compares, so that what is committed matches the schema.
"""

from __future__ import annotations

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]  # it ships no types

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
#: Which source root owns which top-level folder below proto/.
OWNERS = {
    "tidelog": ROOT / "clients" / "python",
    "tidelog_runtime": ROOT / "services" / "runtime",
}


def generate(package: str, out: Path) -> None:
    """Runs the pinned compiler over the protos of one package."""
    sources = sorted(str(path.relative_to(PROTO)) for path in (PROTO / package).rglob("*.proto"))
    includes = Path(protoc.__file__).parent / "_proto"
    scripts = Path(sys.executable).parent  # of this environment: it need not be activated
    arguments = [
        "protoc",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"-I{PROTO}",
        f"-I{includes}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
        *sources,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit(f"the protobuf compiler refused proto/{package}: see its words above")
    for stub in sorted(out.rglob("*_pb2_grpc.py")):
        if "Stub" not in stub.read_text():
            stub.unlink()  # a file without a service has no stubs worth shipping
            stub.with_suffix(".pyi").unlink(missing_ok=True)


def generated_files(root: Path) -> dict[str, Path]:
    """Every generated file below `root` by its relative path."""
    return {
        str(path.relative_to(root)): path
        for path in sorted(root.rglob("wire/v1/*_pb2*.py*"))
        if path.suffix in {".py", ".pyi"}
    }


def differences(package: str, owner: Path) -> list[str]:
    """What the committed code of one package lacks or has other than a fresh generation."""
    with tempfile.TemporaryDirectory() as temporary:
        generate(package, Path(temporary))
        fresh = generated_files(Path(temporary))
        kept = {
            name: path
            for name, path in generated_files(owner).items()
            if name.startswith(f"{package}/")
        }
        wrong = [f"{name}: not committed" for name in fresh.keys() - kept.keys()]
        wrong += [f"{name}: no proto makes it" for name in kept.keys() - fresh.keys()]
        wrong += [
            f"{name}: differs from its proto"
            for name in fresh.keys() & kept.keys()
            if not filecmp.cmp(fresh[name], kept[name], shallow=False)
        ]
        return sorted(wrong)


def main() -> int:
    """Generates in place, or with --check says what is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, change nothing")
    if parser.parse_args().check:
        wrong = [line for package, owner in OWNERS.items() for line in differences(package, owner)]
        for line in wrong:
            print(line)
        if wrong:
            print("Run `make gen` and commit the result.")
        return 1 if wrong else 0
    for package, owner in OWNERS.items():
        generate(package, owner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
