"""The command finds its verb, and whatever goes wrong in it becomes words and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tidelog.cli import command, main
from tidelog.cli.client_verbs import CLIENT_VERBS
from tidelog.cli.verb import Verb
from tidelog.errors import InvalidConfig


def install(monkeypatch: pytest.MonkeyPatch, run: Callable[[Sequence[str]], int]) -> None:
    """Makes `tidelog try` run this."""
    monkeypatch.setattr(command, "known_verbs", lambda: {"try": Verb("try", "tries", run)})


def raising(error: BaseException) -> Callable[[Sequence[str]], int]:
    """A verb that raises."""

    def run(_: Sequence[str]) -> int:
        raise error

    return run


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [verb.name for verb in CLIENT_VERBS if f"\n  {verb.name} " not in shown] == []
    assert "\n  up " in shown


def test_nothing_shows_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: tidelog VERB")


def test_an_unknown_verb_has_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topcs"]) == 2
    assert capsys.readouterr().err == (
        "tidelog: there is no verb 'topcs'. Did you mean 'topics'?\n"
    )


@pytest.mark.parametrize("verb", [verb.name for verb in CLIENT_VERBS])
def test_every_verb_helps_and_tells_its_version(
    capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main([verb, "--help"]) == 0
    assert f"usage: tidelog {verb}" in capsys.readouterr().out
    assert main([verb, "--version"]) == 0
    assert capsys.readouterr().out.startswith("tidelog ")


@pytest.mark.parametrize("verb", [verb.name for verb in CLIENT_VERBS])
def test_every_verb_names_an_unknown_flag(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert main([verb, "--jsno"]) == 2
    assert "there is no flag --jsno" in capsys.readouterr().err


def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, raising(InvalidConfig("It is wrong", hint="Make it right")))
    assert main(["try"]) == 1
    assert capsys.readouterr().err == "tidelog try: It is wrong. Make it right.\n"


def test_a_missing_module_names_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, raising(ModuleNotFoundError("gone", name="prometheus_client")))
    assert main(["try"]) == 1
    assert "'prometheus_client' is missing" in capsys.readouterr().err


def test_an_interrupt_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, raising(KeyboardInterrupt()))
    assert main(["try"]) == 130


@pytest.mark.parametrize(("code", "expected"), [(None, 0), (3, 3), ("words", 1)])
def test_an_end_of_the_program_is_a_code(
    monkeypatch: pytest.MonkeyPatch, code: object, expected: int
) -> None:
    install(monkeypatch, raising(SystemExit(code)))
    assert main(["try"]) == expected


def test_a_closed_pipe_ends_quietly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(_: Sequence[str]) -> int:
        print("nobody reads this")
        return 0

    install(monkeypatch, run)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert main(["try"]) == 1
