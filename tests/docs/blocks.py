"""The blocks of code in a document, and what running them prints.

A page is run from top to bottom, as a reader would type it in: its blocks share one namespace, one
cluster and one folder. A `text` block right after a Python block is what that one prints; `...` in
it stands for anything. Invariant: every `python` and `console` block is run; what must not be run
is fenced as something else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path
from types import TracebackType
from typing import Final

#: Where the documents say that the cluster is; the tests put theirs instead.
DOCUMENTED_ADDRESS: Final = "localhost:9094"

#: Verbs of the command line that talk to a cluster: to the documented one, unless told otherwise.
CLIENT_VERB: Final = re.compile(
    r"\btidelog (?:topics|console-producer|console-consumer|get-offsets|delete-records"
    r"|producer-perf-test|consumer-perf-test)\b"
)
TEST_FUNCTION: Final = re.compile(r"^(?:async )?def test_", re.MULTILINE)
FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
READER: Final = Path(__file__).with_name("reader.py")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the number of its first line, and what it says."""

    language: str
    line: int
    text: str
    #: What it prints, where the document says so.
    prints: str | None = None


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks of a document; those that are output belong to what prints it."""
    found: list[Block] = []
    end = 0
    for match in FENCED.finditer(text):
        language, content = match.groups()
        follows = bool(found) and not text[end : match.start()].strip()
        if language == "text" and follows and found[-1].language == "python":
            found[-1] = replace(found[-1], prints=content)
        else:
            found.append(Block(language, text.count("\n", 0, match.start()) + 2, content))
        end = match.end()
    return found


class Page:
    """A document that is being run: its reader's process, and the cluster that it talks to."""

    def __init__(self, document: str, address: str, folder: Path) -> None:
        self._document = document
        self._address = address
        self._folder = folder
        self._reader = subprocess.Popen(
            [sys.executable, str(READER)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _, logged = self._reader.communicate()
        if error is None:
            assert (self._reader.returncode, logged) == (0, ""), f"{self._document}: {logged}"

    def run(self, block: Block) -> None:
        """Runs one block; an error points at its line in the document."""
        if block.language == "console":
            self._run_commands(block)
        elif TEST_FUNCTION.search(block.text):
            self._run_tests(block)
        else:
            self._run_python(block)

    def _run_python(self, block: Block) -> None:
        text = block.text.replace(DOCUMENTED_ADDRESS, self._address)
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        order = {"document": self._document, "line": block.line, "text": text}
        self._reader.stdin.write(json.dumps(order) + "\n")
        self._reader.stdin.flush()
        answer = json.loads(self._reader.stdout.readline())
        assert not answer["error"], answer["error"]
        if block.prints is not None:
            self._compare(block.line, block.prints, answer["printed"])

    def _run_tests(self, block: Block) -> None:
        """What the page shows of a test is run by pytest, as its reader would."""
        path = self._folder / "test_of_the_page.py"
        path.write_text(block.text)
        ran = self._finished([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path])
        assert ran.returncode == 0, f"{self._document}:{block.line}:\n{ran.stdout}{ran.stderr}"

    def _run_commands(self, block: Block) -> None:
        for line, command, output in commands_of(block):
            ran = self._finished(["sh", "-c", self._at_our_cluster(command)])
            said = f"{self._document}:{line}: {command}\n{ran.stdout}{ran.stderr}"
            assert ran.returncode == 0, said
            self._compare(line, output, ran.stdout)

    def _at_our_cluster(self, command: str) -> str:
        told = CLIENT_VERB.sub(rf"\g<0> --bootstrap-server {self._address}", command)
        return told.replace(DOCUMENTED_ADDRESS, self._address)

    def _finished(self, arguments: list[str | Path]) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            arguments,
            cwd=self._folder,
            env=os.environ | {"PATH": path, "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _compare(self, line: int, expected: str, printed: str) -> None:
        expected = expected.replace(DOCUMENTED_ADDRESS, self._address)
        assert OutputChecker().check_output(expected, printed, ELLIPSIS), (
            f"{self._document}:{line} says that it prints\n{expected}but it prints\n{printed}"
        )


def commands_of(block: Block) -> Iterator[tuple[int, str, str]]:
    """The commands after `$ ` of a console block: their lines, and the output below each."""
    number, command, output = 0, "", ""
    is_continued = False
    for line, text in enumerate(block.text.splitlines(), start=block.line):
        if text.startswith("$ "):
            if command:
                yield number, command, output
            number, command, output = line, text[2:], ""
        elif is_continued:
            command += "\n" + text
        else:
            output += text + "\n"
        is_continued = (text.startswith("$ ") or is_continued) and text.endswith("\\")
    if command:
        yield number, command, output
