"""Bytes that are no UTF-8 on the command line end in words, or come out as they can be shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.hang_guard import HANG_S
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression
from tidelog_node.testing import InProcessCluster

TIDELOG = str(Path(sys.executable).parent / "tidelog")
ODD = b"\xff"


def run(*words: str | bytes) -> subprocess.CompletedProcess[bytes]:
    """Runs the command where the output takes nothing but UTF-8."""
    return subprocess.run(
        [TIDELOG, *words],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONIOENCODING": "utf-8:strict"},
        capture_output=True,
        check=False,
        timeout=HANG_S,
    )


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_file_whose_name_is_not_utf_8_is_shown(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = os.fsencode(tmp_path) + b"/" + ODD
    os.mkdir(folder)
    builder = BatchBuilder()
    builder.append(b"value", None, [], 1)
    file = Path(os.fsdecode(folder), f"{0:020}.log")
    file.write_bytes(bytes(builder.build(Compression.NONE)))
    ended = run("dump-log", "--files", folder, *words)
    assert (ended.returncode, ended.stderr) == (0, b"")
    shown = ended.stdout.decode().splitlines()[0]
    name = json.loads(shown)["file"] if words else shown.removeprefix("Dumping ")
    assert name == str(file) if words else name == str(file).replace("\udcff", "\\udcff")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "--create", "--topic", ODD), "has characters that are not allowed"),
        (("topics", "--describe", "--topic", ODD), "does not exist as expected"),
        (
            ("topics", "--create", "--topic", "a", "--config", b"retention.ms=" + ODD),
            "retention.ms='\\udcff' is no Unicode text",
        ),
        (
            ("topics", "--create", "--topic", "a", "--config", ODD + b"=1"),
            "which is no Unicode text",
        ),
        (("console-consumer", "--topic", ODD), "has characters that are not allowed"),
        (("get-offsets", "--topic", ODD), "Could not match any topic-partitions"),
    ],
)
def test_names_that_are_not_utf_8(
    tidelog_cluster: InProcessCluster, words: tuple[str | bytes, ...], said: str
) -> None:
    ended = run(*words, "--bootstrap-server", tidelog_cluster.address)
    told = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 1
    assert said in told
    assert "Traceback" not in told


def test_a_standard_error_that_takes_nothing_changes_nothing(
    tidelog_cluster: InProcessCluster,
) -> None:
    server = ("--bootstrap-server", tidelog_cluster.address)
    assert run("topics", "--create", "--topic", "orders", *server).returncode == 0
    read = ("console-consumer", "--topic", "orders", "--max-messages", "0", *server)
    with open("/dev/full", "wb") as full:
        for words, code in ((read, 0), (("topics",), 2), (("nothing",), 2)):
            ended = subprocess.run(
                [TIDELOG, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=full,
                check=False,
                timeout=HANG_S,
            )
            assert (ended.returncode, ended.stdout) == (code, b"")


def test_what_the_standard_error_cannot_take_as_text_is_escaped() -> None:
    ended = run(ODD)
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"tidelog: there is no verb '\\udcff'. ")


def test_the_standard_error_keeps_its_encoding() -> None:
    ended = subprocess.run(
        [TIDELOG, "caf\u00e9"],
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
        timeout=HANG_S,
    )
    assert ended.stderr.startswith(b"tidelog: there is no verb 'caf\xe9'. ")
