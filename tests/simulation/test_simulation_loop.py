"""The virtual-time loop and its processes: asyncio works as ever, only faster and by a seed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simulation.loop import (
    Deadlock,
    NoProgress,
    RealWorldTouched,
    Schedule,
    SimulationError,
    TimeLimitReached,
)
from simulation.process import Process
from simulation.world import UnhandledErrors, World, run


def test_asyncio_primitives_work_in_virtual_time() -> None:
    async def scenario(world: World) -> list[Any]:
        async def ticks() -> AsyncIterator[int]:
            for number in range(3):
                await asyncio.sleep(10)
                yield number

        condition, queue = asyncio.Condition(), asyncio.Queue[int](maxsize=1)

        async def feed() -> None:
            for number in range(5):
                await queue.put(number)
            async with condition:
                condition.notify_all()

        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            fed = [await queue.get() for _ in range(5)]
            counted = [tick async for tick in ticks()]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1)
        in_thread = await asyncio.to_thread(lambda: "done")
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return [fed, counted, in_thread]

    outcome = run(scenario, 1)
    assert outcome.result == [[0, 1, 2, 3, 4], [0, 1, 2], "done"]
    assert 131 <= outcome.virtual_s < 132


def test_the_parts_of_asyncio_that_the_loop_stands_on_are_there() -> None:
    async def scenario(world: World) -> None:
        loop = world.loop
        assert isinstance(loop._ready.__len__(), int)
        timer = loop.call_later(1, print)
        assert timer in loop._scheduled
        assert timer._context is not None  # type: ignore[attr-defined]
        timer.cancel()
        assert loop._timer_cancelled_count == 1

    run(scenario, 0)


def test_a_rest_of_almost_nothing_does_not_stop_time() -> None:
    async def scenario(world: World) -> int:
        turns, end = 0, world.now() + 0.1
        while (rest := end - world.now()) > 0:
            turns += 1
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), min(rest, 0.03 + 1e-17))
        return turns

    assert run(scenario, 0).result <= 5


def test_a_timer_never_fires_early_and_always_moves_time() -> None:
    async def scenario(world: World) -> None:
        for delay in (1000.0, 1e-16, 0.0000015, 1 / 3, -5.0):
            due = world.now() + delay
            before = world.now()
            await asyncio.sleep(delay)
            assert world.now() >= due
            assert delay <= 0 or world.now() > before

    run(scenario, 0)


def test_nothing_to_run_is_a_deadlock_that_names_who_waits() -> None:
    async def scenario(world: World) -> None:
        async def waits() -> None:
            await asyncio.Event().wait()

        await asyncio.create_task(waits(), name="forgotten")

    with pytest.raises(Deadlock, match=r"forgotten waits at .*test_simulation_loop"):
        run(scenario, 0)


def test_the_time_limit_and_the_guard_against_spinning() -> None:
    async def for_ever(world: World) -> None:
        while True:
            await asyncio.sleep(1)
            world.trace.record("on")

    async def spins(world: World) -> None:
        while True:
            await asyncio.sleep(0)
            world.trace.record("on")

    with pytest.raises(TimeLimitReached):
        run(for_ever, 0, world=World(0, schedule=Schedule(time_limit_s=30)))
    with pytest.raises(NoProgress):
        run(spins, 0, world=World(0, schedule=Schedule(steps_at_one_instant=1000)))


def _order_of_tasks(seed: int, schedule: Schedule) -> list[int]:
    async def scenario(world: World) -> list[int]:
        order: list[int] = []

        async def step(number: int) -> None:
            await asyncio.sleep(0)
            order.append(number)

        await asyncio.gather(*(step(number) for number in range(6)))
        return order

    return run(scenario, seed, world=World(seed, schedule=schedule)).result


def test_the_seed_chooses_the_order_of_tasks() -> None:
    fair = Schedule(shuffle=False)
    assert _order_of_tasks(1, fair) == _order_of_tasks(2, fair) == [0, 1, 2, 3, 4, 5]
    orders = {tuple(_order_of_tasks(seed, Schedule())) for seed in range(20)}
    assert len(orders) > 15
    assert _order_of_tasks(3, Schedule()) == _order_of_tasks(3, Schedule())


def test_callbacks_keep_the_order_that_asyncio_documents() -> None:
    async def scenario(world: World) -> list[int]:
        seen: list[int] = []
        for number in range(10):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(1)
        return seen

    for seed in range(10):
        assert run(scenario, seed).result == list(range(10))


def test_a_race_that_the_usual_order_hides_is_found() -> None:
    """The point of it all: a reader that relies on being started after the writer."""

    async def scenario(world: World) -> None:
        published: list[str] = []

        async def writes() -> None:
            await asyncio.sleep(0)
            published.append("news")

        async def reads() -> None:
            await asyncio.sleep(0)
            assert published

        await asyncio.gather(writes(), reads())

    run(scenario, 0, world=World(0, schedule=Schedule(shuffle=False)))
    failed = 0
    for seed in range(40):
        try:
            run(scenario, seed)
        except AssertionError:
            failed += 1
    assert 0 < failed < 40


def test_another_thread_fails_the_simulation() -> None:
    async def scenario(world: World) -> None:
        def intrude() -> None:
            with pytest.raises(RealWorldTouched):
                world.loop.call_soon_threadsafe(print)

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        await asyncio.sleep(1)

    with pytest.raises(RealWorldTouched, match="call_soon_threadsafe"):
        run(scenario, 0)


def test_real_sockets_are_refused() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(RealWorldTouched):
            await asyncio.open_connection("localhost", 80)

    run(scenario, 0)


def test_errors_that_nobody_saw_fail_the_run() -> None:
    async def scenario(world: World) -> None:
        async def breaks() -> None:
            raise ValueError("unseen")

        task = asyncio.create_task(breaks())
        await asyncio.sleep(1)
        del task

    with pytest.raises(UnhandledErrors, match="unseen"):
        run(scenario, 0)


def test_a_task_that_swallows_its_cancel_fails_the_run() -> None:
    async def scenario(world: World) -> asyncio.Task[None]:
        async def stubborn() -> None:
            while True:
                try:
                    await asyncio.sleep(1)
                except asyncio.CancelledError:
                    world.trace.record("will not go")

        task = asyncio.create_task(stubborn(), name="stubborn")
        await asyncio.sleep(1)
        return task

    with pytest.raises(SimulationError, match="stubborn"):
        run(scenario, 0)


async def _beats(world: World, seen: list[float]) -> None:
    try:
        while True:
            seen.append(world.now())
            await asyncio.sleep(1)
    finally:
        seen.append(-1)


def test_a_kill_runs_no_finally_block() -> None:
    async def scenario(world: World) -> list[float]:
        seen: list[float] = []
        process: Process = world.process("victim")
        process.spawn(_beats(world, seen))
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(10)
        return list(seen)

    assert run(scenario, 0).result == pytest.approx([0, 1, 2], abs=0.001)


def test_a_paused_process_stands_still_and_then_goes_on() -> None:
    async def scenario(world: World) -> list[float]:
        seen: list[float] = []
        process = world.process("sleeper")
        process.spawn(_beats(world, seen))
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10)
        process.resume()
        await asyncio.sleep(1)
        return list(seen)

    assert run(scenario, 0).result == pytest.approx([0, 1, 11.5], abs=0.001)


def test_what_a_process_starts_belongs_to_it() -> None:
    async def scenario(world: World) -> int:
        beats = 0

        def beat() -> None:
            nonlocal beats
            beats += 1
            asyncio.get_running_loop().call_later(1, beat)

        async def main() -> None:
            asyncio.get_running_loop().call_later(1, beat)

        process = world.process("parent")
        process.spawn(main())
        await asyncio.sleep(3.5)
        process.kill()
        await asyncio.sleep(5)
        return beats

    assert run(scenario, 0).result == 3


def test_a_killed_process_does_not_hide_a_deadlock() -> None:
    async def scenario(world: World) -> None:
        process = world.process("victim")
        process.spawn(asyncio.sleep(10_000))
        await asyncio.sleep(1)
        process.kill()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(scenario, 0)
