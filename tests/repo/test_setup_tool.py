"""Set-up does each step once, never undoes a larger one, and says what is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.tree import ROOT
from tools import compile_hot_paths, java, setup


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The extras that pip was asked for; nothing is installed and the stamp is a throw-away."""
    asked: list[str] = []
    monkeypatch.setattr(setup, "install_extra", asked.append)
    monkeypatch.setattr(setup, "STAMP", tmp_path / "stamp.json")
    return asked


def run_setup(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the entry script with nothing but the given environment."""
    command = ["/bin/sh", str(ROOT / "tools" / "setup.sh"), "dev"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_what_is_installed_is_not_installed_again(installed: list[str]) -> None:
    setup.ensure_extra("dev", setup.read_stamp())
    setup.ensure_extra("dev", setup.read_stamp())
    assert installed == ["dev"]


def test_more_is_added_and_never_taken_away(installed: list[str]) -> None:
    for wanted in ("server", "dev", "server"):
        setup.ensure_extra(wanted, setup.read_stamp())
    assert installed == ["server", "dev"]


def test_changed_inputs_install_what_was_there_before(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setup.ensure_extra("dev", setup.read_stamp())
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    setup.ensure_extra("server", setup.read_stamp())
    assert installed == ["dev", "dev"]


def test_a_failed_step_is_repeated(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(extra: str) -> None:
        raise setup.SetupFailure(extra)

    with monkeypatch.context() as patched:
        patched.setattr(setup, "install_extra", fail)
        with pytest.raises(setup.SetupFailure):
            setup.ensure_extra("dev", setup.read_stamp())
    setup.ensure_extra("dev", setup.read_stamp())
    assert installed == ["dev"]


def test_a_torn_stamp_counts_as_none(installed: list[str]) -> None:
    setup.STAMP.write_text('{"extra": "de')
    setup.ensure_extra("dev", setup.read_stamp())
    assert installed == ["dev"]


def test_a_compiled_twin_older_than_its_source_does_not_stay(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_hot_paths, "PACKAGES", {"tidelog": tmp_path})
    monkeypatch.setattr(compile_hot_paths, "BAKED_IN", ())
    monkeypatch.setattr(compile_hot_paths, "MODULES", ("tidelog/decoder",))
    twin = tmp_path / "decoder.cpython-311-x86_64-linux-gnu.so"
    twin.write_bytes(b"")
    setup.ensure_compiled({"compiled": "of an older source"}, may_compile=False)
    assert not twin.exists()


@pytest.mark.parametrize("keeps_none", [True, False])
def test_byte_code_is_made_where_python_keeps_none(
    keeps_none: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", keeps_none)
    module = tmp_path / "clients" / "one.py"
    module.parent.mkdir()
    module.write_text("ONE = 1\n")
    setup.ensure_byte_code()
    assert Path(importlib.util.cache_from_source(str(module))).exists() == keeps_none


def test_without_root_it_says_what_root_would_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(setup.SetupFailure, match=r"run as root: .*apt-get install .*python3"):
        setup.install_system_packages([setup.debian_venv_package()])


@pytest.mark.parametrize(("extra", "with_java"), [("server", False), ("dev", True)])
def test_without_root_all_packages_are_named_at_once(
    monkeypatch: pytest.MonkeyPatch, extra: str, with_java: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(setup, "find_java", lambda: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(setup.SetupFailure) as refused:
        setup.ensure_venv_modules(extra)
    assert setup.debian_venv_package() in str(refused.value)
    assert (java.DEBIAN_PACKAGE in str(refused.value)) is with_java


def test_without_apt_it_names_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(setup.SetupFailure, match="venv and ensurepip"):
        setup.install_system_packages([setup.debian_venv_package()])


def test_a_named_python_that_does_not_run_is_refused() -> None:
    seen = run_setup({"PATH": os.defpath, "PYTHON": "/nonexistent/python3"})
    assert seen.returncode == 1
    assert "PYTHON=/nonexistent/python3 does not run" in seen.stderr


def test_no_python_at_all_is_said(tmp_path: Path) -> None:
    seen = run_setup({"PATH": str(tmp_path)})
    assert seen.returncode == 1
    assert "no Python >= 3.11 found" in seen.stderr
