"""A command as a child process whose every line is waited for, but not for ever.

Tests that read what a process prints use it. When a line doesn't come, the process is asked where
each of its threads and tasks is, and the test fails with the answer instead of hanging. The limit
guards against a hang and says nothing about speed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import Final

HANG_S: Final = 120.0
#: How long a hanging process may take to say where it is.
LAST_WORDS_S: Final = 10.0

#: Runs the command with a signal that prints where it is. `nohup` has children ignore SIGHUP, and
#: the command heeds that; what tests see must not depend on how they were started.
PRELUDE: Final = """
import asyncio, faulthandler, signal, sys
from tidelog.cli.command import main

def tell(number, frame):
    faulthandler.dump_traceback(all_threads=True)
    for task in list(asyncio.tasks._all_tasks):
        print(task, *task.get_stack(), sep="\\n  ", file=sys.stderr)
    sys.stderr.flush()

signal.signal(signal.SIGUSR1, tell)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.exit(main())
"""


def start(*words: str, stdin: int | None = None) -> subprocess.Popen[bytes]:
    """`tidelog` with these words, its output unbuffered at this end."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE, *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    """The next line it prints; empty at its end."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    line = b""
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([descriptor], [], [], HANG_S)
        if not readable:
            raise AssertionError(f"no line came within {HANG_S} s\n{_last_words(process)}")
        byte = os.read(descriptor, 1)
        if not byte:
            break
        line += byte
    return line


def _last_words(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    descriptor = process.stderr.fileno()
    process.send_signal(signal.SIGUSR1)
    words = b""
    while select.select([descriptor], [], [], LAST_WORDS_S)[0]:
        more = os.read(descriptor, 64 * 1024)
        if not more:
            break
        words += more
    return words.decode(errors="replace")
