"""What a test left behind: threads, child processes, asyncio tasks and errors nobody retrieved.

`tests/conftest.py` wraps every test in one `LeakCheck`. What existed before the test (a fixture
of wider scope may own it) is not its fault; what it started, it ends.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

#: Children that Python itself keeps for the rest of the process, by a word of their command line.
LASTING_CHILDREN: Final = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")

#: Threads that a library keeps for the rest of the process, by the module they run in: Spark's
#: driver answers its JVM in them.
LASTING_THREADS: Final = ("py4j.",)

#: How long a thread that was told to end may take to do so; only a thread that leaks waits it out.
JOIN_SECONDS: Final = 10.0

#: How `asyncio.run` ends what still runs; it has no public name.
CANCEL_ALL_TASKS: Final = asyncio.runners._cancel_all_tasks  # type: ignore[attr-defined]


def has_children() -> bool:
    """Whether this process has any child at all, ended ones that were not waited for included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def children() -> dict[int, str]:
    """The children of this process with their command lines, where /proc shows them."""
    if not has_children():
        return {}
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Names and arguments are bytes, and other people's need not be text.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            words = (stat.parent / "cmdline").read_text(errors="replace")
        except OSError:
            continue  # it ended while we looked
        command = words.replace("\0", " ").strip()
        if int(fields[1]) == os.getpid() and not any(word in command for word in LASTING_CHILDREN):
            found[int(stat.parent.name)] = command or "(ended, but nobody waited for it)"
    return found


def is_race_of_grpc(error: BaseException | None) -> bool:
    """Whether gRPC read from its own socket after its last object had closed it.

    All loops of a process share that socket. Who drops the last channel closes it, while another
    loop, whose channels are closed too, may be about to hear that there is nothing more to hear.
    """
    if not isinstance(error, OSError) or error.errno != errno.EBADF:
        return False
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].endswith("PollerCompletionQueue._handle_events")


class ErrorsOfAsyncio(logging.Handler):
    """Collects what asyncio can only log: tasks destroyed while pending, errors nobody awaited."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the first line; the whole story is in the captured log of the test."""
        if record.exc_info and is_race_of_grpc(record.exc_info[1]):
            return
        self.messages.append(record.getMessage().split("\n", 1)[0])


@contextmanager
def unended_tasks(leaks: list[str]) -> Iterator[None]:
    """Names the tasks that `asyncio.run` has to cancel because nobody awaited or cancelled them.

    It does so silently, in the one function that is wrapped here.
    """

    def name_and_cancel_all(loop: asyncio.AbstractEventLoop) -> None:
        names = sorted(task.get_name() for task in asyncio.all_tasks(loop))
        leaks.extend(f"task {name} was still running" for name in names)
        CANCEL_ALL_TASKS(loop)

    with mock.patch.object(asyncio.runners, "_cancel_all_tasks", name_and_cancel_all):
        yield


def runs_in(thread: threading.Thread) -> str:
    """The module of what the thread runs, where it tells."""
    return str(getattr(getattr(thread, "_target", None), "__module__", ""))


def threads_left(before: set[threading.Thread]) -> list[str]:
    """Threads started since `before` that do not end."""
    left = []
    for thread in threading.enumerate():
        if thread in before or runs_in(thread).startswith(LASTING_THREADS):
            continue
        thread.join(JOIN_SECONDS)
        if thread.is_alive():
            left.append(f"thread {thread.name} still runs")
    return left


@contextmanager
def leak_check() -> Iterator[list[str]]:
    """Yields a list that names, once the block has ended, what the block left behind."""
    leaks: list[str] = []
    threads_before = set(threading.enumerate())
    children_before = children()
    errors = ErrorsOfAsyncio()
    logging.getLogger("asyncio").addHandler(errors)
    try:
        with unended_tasks(leaks):
            yield leaks
    finally:
        logging.getLogger("asyncio").removeHandler(errors)
        leaks += threads_left(threads_before)
        leaks += [
            f"child process {process_id} is left: {command}"
            for process_id, command in children().items()
            if process_id not in children_before
        ]
        leaks += [f"asyncio said: {message}" for message in errors.messages]
