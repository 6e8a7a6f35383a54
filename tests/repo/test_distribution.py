"""What users install: the wheel made from the sdist, in an empty environment, outside the tree.

Building and installing need a package index. Where none answers, these tests skip and say so;
`-m "not distribution"` leaves them out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.tree import ROOT, SOURCE_ROOTS, package_files
from tools import compile_hot_paths

pytestmark = pytest.mark.distribution

#: What the client and everything it needs may take on a disk.
PLAIN_INSTALLATION_BYTES_MAX = 60_000_000
OF_EVERY_ENVIRONMENT = ("pip", "setuptools", "_distutils_hack")

ROUND_TRIP = """
from tidelog.records.builder import BatchBuilder
from tidelog.records.decoder import decode_records

builder = BatchBuilder()
builder.append(b"value", b"key", [("header", b"1")], 1_700_000_000_000)
batch = builder.build()
[record] = decode_records(batch, "orders", 3)
print(record.topic, record.partition, record.offset, record.key, record.value, record.headers)
"""


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder with nothing of this environment's Python in its way."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def succeed(command: list[str], folder: Path) -> str:
    """What a command printed; a failure shows all it said."""
    seen = run(command, folder)
    assert seen.returncode == 0, f"{command} failed:\n{seen.stdout}\n{seen.stderr}"
    return seen.stdout


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the tree, where a package index answers."""
    folder = tmp_path_factory.mktemp("distribution")
    pip = [sys.executable, "-m", "pip", "--retries", "0", "--timeout", "15"]
    probe = run([*pip, "download", "--quiet", "--no-deps", "-d", "probe", "hatchling"], folder)
    if probe.returncode != 0:
        pytest.skip("no package index answers: pip could not fetch hatchling")
    return folder


@pytest.fixture(scope="module")
def built(workshop: Path) -> Path:
    """The folder with the sdist of this tree and the wheel that was built from that sdist."""
    succeed(
        [sys.executable, "-m", "build", "--outdir", str(workshop / "dist"), str(ROOT)], workshop
    )
    return workshop / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The one wheel."""
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(workshop: Path, wheel: Path) -> Path:
    """The scripts of an environment that holds the wheel, and what it depends on, alone."""
    succeed([sys.executable, "-m", "venv", "empty"], workshop)
    scripts = workshop / "empty" / "bin"
    succeed([str(scripts / "python"), "-m", "pip", "install", "--quiet", str(wheel)], workshop)
    return scripts


def test_the_wheel_holds_every_module(wheel: Path) -> None:
    roots = [ROOT / root for root in SOURCE_ROOTS]
    wanted = {
        path.relative_to(root).as_posix()
        for path in package_files()
        for root in roots
        if path.is_relative_to(root)
    }
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert wanted - held == set()
    assert {f"{name.split('/')[0]}/py.typed" for name in wanted} - held == set()


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    packages = {path.name for root in SOURCE_ROOTS for path in (ROOT / root).glob("*tidelog*")}
    with zipfile.ZipFile(wheel) as archive:
        strangers = [name for name in archive.namelist() if name.split("/")[0] not in packages]
    assert [name for name in strangers if ".dist-info/" not in name] == []


def test_the_wheel_is_compiled_where_there_is_a_compiler(wheel: Path, installed: Path) -> None:
    """It was pure, and said so where nobody reads it: the types of gRPC and NumPy were missing."""
    missing = compile_hot_paths.missing_for_compiling()
    if missing is not None:
        pytest.skip(missing)
    assert not wheel.name.endswith("-py3-none-any.whl")
    asked = "import tidelog.records; print(tidelog.records.COMPILED)"
    assert succeed([str(installed / "python"), "-c", asked], installed) == "True\n"


def test_the_sdist_holds_what_a_build_needs(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "proto/baseline.binpb"} - held == set()


def test_the_client_is_imported_from_the_environment(installed: Path, tmp_path: Path) -> None:
    program = "import tidelog; print(tidelog.__file__)"
    where = succeed([str(installed / "python"), "-c", program], tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_a_record_goes_in_and_comes_out(installed: Path, tmp_path: Path) -> None:
    seen = succeed([str(installed / "python"), "-c", ROUND_TRIP], tmp_path)
    assert seen.split("\n")[0].startswith("orders 3 0 b'key' b'value'")


def test_the_plain_installation_is_small(installed: Path) -> None:
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(succeed([str(installed / "python"), "-c", program], installed).strip())
    size_bytes = sum(
        path.stat().st_size
        for path in packages.rglob("*")
        if path.is_file() and path.relative_to(packages).parts[0] not in OF_EVERY_ENVIRONMENT
    )
    assert size_bytes < PLAIN_INSTALLATION_BYTES_MAX


def test_the_command_line_helps(installed: Path, tmp_path: Path) -> None:
    assert succeed([str(installed / "tidelog"), "--help"], tmp_path).startswith("usage: tidelog")


def test_a_server_verb_names_the_extra_it_needs(installed: Path, tmp_path: Path) -> None:
    seen = run([str(installed / "tidelog"), "up", "--ephemeral"], tmp_path)
    assert seen.returncode == 1
    assert "tidelog[server]" in seen.stderr
