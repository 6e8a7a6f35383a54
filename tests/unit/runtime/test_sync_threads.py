"""Rounds of blocking calls in threads: each made once, each outcome its own, none left behind.

Also where the kernel takes the syncs of files: whatever else blocks goes to threads there too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from typing import cast

import pytest

from tidelog_runtime.adapters.kernel_syncs import KernelSyncs
from tidelog_runtime.adapters.sync_threads import SyncThreads
from tidelog_runtime.threads import Threads

Make = Callable[[int], Threads]


@pytest.fixture(params=[SyncThreads, KernelSyncs], ids=["threads", "beside the kernel"])
def make(request: pytest.FixtureRequest) -> Make:
    return cast(Make, request.param)


def test_each_call_is_made_once_and_outcomes_keep_their_places(make: Make) -> None:
    made: list[int] = []

    def call(number: int) -> None:
        made.append(number)
        if number % 7 == 0:
            raise OSError(number, "seven")

    async def rounds(threads: Threads) -> None:
        for _ in range(50):
            made.clear()
            outcomes = await threads.run([lambda number=at: call(number) for at in range(40)])  # type: ignore[misc]
            assert sorted(made) == list(range(40))
            assert [None if error is None else error.errno for error in outcomes] == [
                number if number % 7 == 0 else None for number in range(40)
            ]

    with closing(make(5)) as threads:
        asyncio.run(rounds(threads))


def test_calls_of_a_round_run_side_by_side_up_to_the_limit(make: Make) -> None:
    meeting = threading.Barrier(3)

    async def main(threads: Threads) -> None:
        # None of them returns before three are there.
        await threads.run([lambda: _wait(meeting)] * 6)

    with closing(make(3)) as threads:
        asyncio.run(main(threads))


def test_a_round_does_not_wait_for_a_call_of_another_that_takes_long(make: Make) -> None:
    gate = threading.Event()

    async def main(threads: Threads) -> None:
        await threads.run([lambda: None])
        long = asyncio.create_task(threads.run([lambda: _hold(gate)]))
        await asyncio.sleep(0)
        assert await threads.run([lambda: None]) == [None]
        assert not long.done()
        gate.set()
        assert await long == [None]

    with closing(make(2)) as threads:
        asyncio.run(main(threads))


def test_rounds_that_overlap_do_not_mix(make: Make) -> None:
    async def main(threads: Threads) -> None:
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(_run(threads, [None, OSError(1, "first")] * 10))
            second = tasks.create_task(_run(threads, [OSError(2, "second"), None] * 10))
        assert [error and error.errno for error in first.result()] == [None, 1] * 10
        assert [error and error.errno for error in second.result()] == [2, None] * 10

    with closing(make(4)) as threads:
        asyncio.run(main(threads))


def test_a_fault_of_the_program_is_raised_and_the_threads_go_on(make: Make) -> None:
    def wrong() -> None:
        raise ValueError("not a disk's doing")

    async def main(threads: Threads) -> None:
        with pytest.raises(ValueError, match="not a disk's doing"):
            await threads.run([wrong])
        assert await threads.run([lambda: None]) == [None]
        assert await threads.run([]) == []

    with closing(make(1)) as threads:
        asyncio.run(main(threads))


def test_who_waits_may_give_up_and_the_call_goes_on(make: Make) -> None:
    gate = threading.Event()
    ended: list[str] = []

    def wait() -> None:
        gate.wait()
        ended.append("first")

    async def main(threads: Threads) -> None:
        waiting = asyncio.create_task(threads.run([wait]))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        idle = asyncio.create_task(threads.idle())
        await asyncio.sleep(0)
        assert not idle.done()
        gate.set()
        await idle
        assert ended == ["first"]
        assert await threads.run([lambda: ended.append("second")]) == [None]

    with closing(make(1)) as threads:
        asyncio.run(main(threads))
    assert ended == ["first", "second"]


def test_closing_waits_for_what_runs_and_leaves_no_thread(make: Make) -> None:
    before = set(threading.enumerate())
    ended: list[int] = []

    async def main(threads: Threads) -> None:
        pending = asyncio.create_task(threads.run([lambda: ended.append(1)] * 20))
        await asyncio.sleep(0)
        threads.close()
        assert len(ended) == 20
        assert await pending == [None] * 20

    asyncio.run(main(make(4)))
    assert set(threading.enumerate()) == before


def test_closed_threads_take_nothing_more(make: Make) -> None:
    async def main(threads: Threads) -> None:
        assert await threads.run([lambda: None]) == [None]
        threads.close()
        with pytest.raises(RuntimeError, match="the threads have ended"):
            await threads.run([lambda: None])

    asyncio.run(main(make(2)))


def _wait(meeting: threading.Barrier) -> None:
    meeting.wait()


def _hold(gate: threading.Event) -> None:
    gate.wait()


async def _run(threads: Threads, wanted: list[OSError | None]) -> list[OSError | None]:
    def call(error: OSError | None) -> None:
        if error is not None:
            raise error

    return await threads.run([lambda error=one: call(error) for one in wanted])  # type: ignore[misc]
