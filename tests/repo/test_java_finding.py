"""Java is found where people keep it, an old one is passed over, and set-up goes on without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import java, setup


def fake_java(home: Path, version: str) -> Path:
    """A folder that looks like an installed Java of this version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere:/usr/bin/nothing")
    monkeypatch.setattr(java, "_FOLDERS", (str(tmp_path / "jvm"),))


def test_the_home_that_is_named_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "named", "21.0.2")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "on path", "17.0.1") / "bin"))
    assert java.find_java() == java.Java(tmp_path / "named", 21)


def test_an_old_one_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "older", "11.0.22") / "bin"))
    fake_java(tmp_path / "jvm" / "b", "21.0.2")
    fake_java(tmp_path / "jvm" / "a", "25")
    assert java.find_java() == java.Java(tmp_path / "jvm" / "b", 21)


def test_what_does_not_run_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = fake_java(tmp_path / "broken", "17") / "bin" / "java"
    program.write_bytes(b"\x7fELF no program at all")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    assert java.find_java() is None
    assert f"JAVA_HOME={tmp_path / 'broken'}" in java.missing_java()
    assert java.DEBIAN_PACKAGE in java.missing_java()


def test_set_up_goes_on_without_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    setup.ensure_java()
    assert "Spark needs Java 17 or later" in capsys.readouterr().out


def test_root_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def install(packages: list[str]) -> None:
        asked.extend(packages)
        fake_java(tmp_path / "jvm" / "new", "17.0.15")

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(setup, "install_system_packages", install)
    monkeypatch.setattr(java, "_home_on_path", lambda: None)
    setup.ensure_java()
    setup.ensure_java()
    assert asked == [java.DEBIAN_PACKAGE]


def test_a_failed_installation_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(packages: list[str]) -> None:
        raise setup.SetupFailure(f"no {packages[0]} to be had")

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(setup, "install_system_packages", fail)
    monkeypatch.setattr(java, "_home_on_path", lambda: None)
    setup.ensure_java()
    said = capsys.readouterr().out
    assert f"no {java.DEBIAN_PACKAGE} to be had" in said
    assert "Going on without" in said
