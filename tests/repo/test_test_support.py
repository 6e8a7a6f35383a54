"""The helpers that all tests lean on can fail: each planted leak is named, each wait ends."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import subprocess
import threading

import pytest

from support import leaks
from support.eventually import eventually


def test_a_thread_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "JOIN_SECONDS", 0)
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="lingering")
    with leaks.leak_check() as found:
        thread.start()
    release.set()
    thread.join()
    assert found == ["thread lingering still runs"]


def test_a_thread_that_ends_is_no_leak() -> None:
    with leaks.leak_check() as found:
        threading.Thread(target=lambda: None).start()
    assert found == []


def test_a_thread_of_a_lasting_kind_is_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "LASTING_THREADS", ("threading",))
    release = threading.Event()
    with leaks.leak_check() as found:
        thread = threading.Thread(target=release.wait)
        thread.start()
    release.set()
    thread.join()
    assert found == []


def test_a_running_child_is_named() -> None:
    with leaks.leak_check() as found:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    child.communicate()
    assert found == [f"child process {child.pid} is left: cat"]


def test_arguments_that_are_no_text_are_read_over() -> None:
    with (
        leaks.leak_check() as found,
        subprocess.Popen(
            [b"cat", b"-", b"no\xfftext"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as child,
    ):
        assert leaks.children() == {child.pid: "cat - no\N{REPLACEMENT CHARACTER}text"}
        child.communicate()
    assert found == []


def test_a_child_nobody_waited_for_is_named() -> None:
    with leaks.leak_check() as found:
        process_id = os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {})
        os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)
    os.waitpid(process_id, 0)
    assert found == [
        f"child process {process_id} is left: (ended, but nobody waited for it)",
    ]


def test_an_error_nobody_retrieved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("asyncio"), "handlers", [])  # ours alone shall hear it

    async def fail() -> None:
        raise ValueError("lost")

    async def forget() -> None:
        task = asyncio.create_task(fail())
        await asyncio.wait([task])

    with leaks.leak_check() as found:
        asyncio.run(forget())
    assert found == ["asyncio said: Task exception was never retrieved"]


@pytest.mark.parametrize(
    ("place", "number", "is_passed_over"),
    [
        ("PollerCompletionQueue._handle_events", errno.EBADF, True),
        ("PollerCompletionQueue._handle_events", errno.EIO, False),
        ("anywhere_else", errno.EBADF, False),
    ],
)
def test_only_one_race_of_grpc_is_passed_over(
    place: str, number: int, is_passed_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("asyncio"), "handlers", [])  # ours alone shall hear it

    def fail() -> None:
        raise OSError(number, "from a socket")

    fail.__code__ = fail.__code__.replace(co_name=place)

    async def call_it() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0)

    with leaks.leak_check() as found:
        asyncio.run(call_it())
    assert (found == []) == is_passed_over


def test_a_task_nobody_ended_is_named() -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def forget() -> None:
        task = asyncio.create_task(wait_for_ever(), name="forgotten")
        await asyncio.sleep(0)
        assert not task.done()

    with leaks.leak_check() as found:
        asyncio.run(forget())
    assert found == ["task forgotten was still running"]


def test_eventually_returns_what_it_saw() -> None:
    answers = iter(["", "", "ready"])
    assert eventually(lambda: next(answers)) == "ready"


def test_eventually_ends_and_says_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match="the leader did not come within 0 s: last None"):
        eventually(lambda: None, 0, waiting_for="the leader")


def test_a_test_has_the_same_numbers_in_every_run(seed: int, random_source: random.Random) -> None:
    assert random_source.random() == random.Random(seed).random()
