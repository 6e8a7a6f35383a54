"""An asyncio event loop on virtual time: nothing waits, and one seed decides every interleaving.

Services run on it unchanged; only the ports below them are swapped. When nothing is runnable it
jumps to the next timer. Among what is runnable at one instant the seed chooses the order of tasks
(plain callbacks keep theirs, as asyncio documents). The invariants: a run depends on its seed and
the code alone; time never goes back and every timer moves it; nothing touches a real socket, a real
clock or another thread.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from asyncio import base_events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar, cast

from simulation.process import CURRENT_PROCESS, Process
from simulation.trace import Trace

_Result = TypeVar("_Result")
MICROSECONDS = 1_000_000


class SimulationError(AssertionError):
    """The simulation found something that must not be."""


class Deadlock(SimulationError):
    """Nothing is runnable and no timer is set: somebody waits for a wake-up that never comes."""


class TimeLimitReached(SimulationError):
    """The scenario did not end within its virtual time."""


class NoProgress(SimulationError):
    """Callbacks run on and on without time moving: a loop that does not wait."""


class RealWorldTouched(SimulationError):
    """Simulated code reached for a thread, a socket or a real clock."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the loop uses its freedom; scenarios vary it from seed to seed."""

    shuffle: bool = True
    #: Chance that a runnable task lets the others go first for a turn.
    defer_chance: float = 0.1
    #: A call that goes to a thread takes this long, from and to.
    executor_delay_s: tuple[float, float] = (10e-6, 5e-3)
    time_limit_s: float = 3600.0
    steps_at_one_instant: int = 200_000


class SimulationLoop(base_events.BaseEventLoop):
    """See the module. `random` is its own stream, `trace` receives what it decides."""

    # The parts of asyncio's loop that are used here, by their CPython names; tests pin them.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int
    _thread_id: int | None
    _stopping: bool

    def __init__(self, random: Random, trace: Trace, schedule: Schedule | None = None) -> None:
        super().__init__()
        self.schedule = schedule or Schedule()
        self.trace = trace
        self.steps = 0
        self.unhandled: list[str] = []
        self._random = random
        self._now_us = 0
        self._step_of_last_jump = 0
        self._tasks_started = 0
        self._touched: str | None = None
        self._home_thread = threading.get_ident()
        self._tasks_alive: dict[asyncio.Task[Any], None] = {}
        trace.now = self.time
        self.set_exception_handler(self._note_unhandled)

    # ---- time

    def time(self) -> float:
        """Seconds since the simulation began, always a whole number of microseconds."""
        return self._now_us / MICROSECONDS

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As asyncio's, but every timer moves time by a microsecond or more.

        Otherwise `wait_for(event, end - now)` with a rest of 1e-16 s would spin for ever.
        """
        self._stay_home("call_at")
        due_us = max(_ceil_us(when), self._now_us + 1)
        return super().call_at(due_us / MICROSECONDS, callback, *args, context=context)

    def _jump(self) -> None:
        due_us = round(self._scheduled[0].when() * MICROSECONDS)
        if due_us > self._now_us:
            self.trace.fold(self._now_us, self.steps)
            self._now_us = due_us
            self._step_of_last_jump = self.steps
        if self.time() > self.schedule.time_limit_s:
            raise TimeLimitReached(
                f"not done after {self.schedule.time_limit_s} virtual seconds;{self._who_waits()}"
            )

    # ---- the one place where code is run

    def _run_once(self) -> None:
        if self._touched is not None:
            raise RealWorldTouched(self._touched)
        self._drop_cancelled_timers()
        if not self._ready and not self._stopping:
            if not self._scheduled:
                raise Deadlock(f"nothing can ever run again at t={self.time()}{self._who_waits()}")
            self._jump()
        self._collect_due_timers()
        for _ in range(self._arrange_ready()):
            handle = self._ready.popleft()
            if handle.cancelled():
                continue
            process = _context_of(handle).get(CURRENT_PROCESS)
            if process is not None and not process.admits(handle):
                continue
            self.steps += 1
            handle._run()
        if self.steps - self._step_of_last_jump > self.schedule.steps_at_one_instant:
            raise NoProgress(f"time stands still at t={self.time()}{self._who_waits()}")

    def _drop_cancelled_timers(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False  # type: ignore[attr-defined]
        if self._timer_cancelled_count > len(self._scheduled) // 2 > 50:
            live = [timer for timer in self._scheduled if not timer.cancelled()]
            for timer in self._scheduled:
                if timer.cancelled():
                    timer._scheduled = False  # type: ignore[attr-defined]
            heapq.heapify(live)
            self._scheduled = live
            self._timer_cancelled_count = 0

    def _collect_due_timers(self) -> None:
        now = self.time()
        while self._scheduled and self._scheduled[0].when() <= now:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer.cancelled():
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)

    def _arrange_ready(self) -> int:
        """Put the runnable in a seeded order; returns how many of them get their turn now."""
        count = len(self._ready)
        if count < 2 or not self.schedule.shuffle:
            return count
        tasks: list[asyncio.Handle] = []
        callbacks: deque[asyncio.Handle] = deque()
        for handle in self._ready:
            (tasks if _is_task_step(handle) else callbacks).append(handle)
        deferred: list[asyncio.Handle] = []
        if self.schedule.defer_chance and len(tasks) > 1:
            kept: list[asyncio.Handle] = []
            for handle in tasks:
                late = self._random.random() < self.schedule.defer_chance
                (deferred if late else kept).append(handle)
            tasks = kept
        turns: list[asyncio.Handle | None] = [*tasks, *([None] * len(callbacks))]
        self._random.shuffle(turns)
        self._ready.clear()
        self._ready.extend(turn or callbacks.popleft() for turn in turns)
        self._ready.extend(deferred)
        return count - len(deferred) if len(deferred) < count else count

    # ---- tasks and threads

    def create_task(
        self,
        coro: Generator[Any, None, _Result] | Coroutine[Any, Any, _Result],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[_Result]:
        """As asyncio's; the name is stable from run to run and the process adopts the task."""
        process = context.get(CURRENT_PROCESS) if context is not None else CURRENT_PROCESS.get()
        self._tasks_started += 1
        stable_name = name if name is not None else f"{process or 'task'}-{self._tasks_started}"
        task = super().create_task(
            cast("Coroutine[Any, Any, _Result]", coro), name=str(stable_name), context=context
        )
        self._tasks_alive[task] = None
        task.add_done_callback(self._forget_task, context=Context())
        if process is not None:
            process.adopt(task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks_alive.pop(task, None)

    def tasks_alive(self) -> list[asyncio.Task[Any]]:
        """All tasks that have not ended, oldest first (asyncio's own list has no order)."""
        return list(self._tasks_alive)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., _Result], *args: Any
    ) -> asyncio.Future[_Result]:
        """Threads are simulated: the call happens at a seeded moment, its result comes later."""
        self._stay_home("run_in_executor")
        future: asyncio.Future[_Result] = self.create_future()
        shortest, longest = self.schedule.executor_delay_s
        before = self._random.uniform(0, longest - shortest)
        after = self._random.uniform(shortest, longest - before)

        def run() -> None:
            try:
                result = function(*args)
            except BaseException as error:  # noqa: BLE001 - a thread hands on whatever was raised
                self.call_later(after, _settle, future, None, error)
            else:
                self.call_later(after, _settle, future, result, None)

        self.call_later(before, run)
        return future

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """There are no other threads; a call from one is reported and fails the simulation."""
        self._stay_home("call_soon_threadsafe")
        return self.call_soon(callback, *args, context=context)

    def report_touch(self, story: str) -> None:
        """Simulated code reached for the real world: fail the run, even if the code goes on."""
        self._touched = story

    def _stay_home(self, what: str) -> None:
        if threading.get_ident() != self._home_thread:
            story = f"{what} was called from thread {threading.current_thread().name}"
            self.report_touch(story)
            raise RealWorldTouched(story)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """There are no real sockets either."""
        raise RealWorldTouched(f"simulated code tried to reach {host}:{port} over a real socket")

    def _asyncgen_firstiter_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        # At the end asyncio closes all generators, which a killed process would not have done.
        if CURRENT_PROCESS.get() is None:
            super()._asyncgen_firstiter_hook(generator)  # type: ignore[misc]

    def _process_events(self, event_list: object) -> None:
        """There is no selector, so there are no events; asyncio asks for the method."""

    def _write_to_self(self) -> None:
        """There is nothing to wake: the loop never sleeps."""

    # ---- what went wrong

    def _note_unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = f"{context.get('message')}: {error!r}" if error else str(context.get("message"))
        self.trace.record(f"UNHANDLED {text}")
        self.unhandled.append(text)

    def _who_waits(self) -> str:
        lines = []
        for task in self.tasks_alive()[:40]:
            stack = task.get_stack(limit=1)
            place = f"{stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else "?"
            lines.append(f"\n  {task.get_name()} waits at {place}")
        return "".join(lines)

    def run_held(self, handles: list[asyncio.Handle]) -> None:
        """What a paused process missed becomes runnable again, in its order."""
        self._ready.extend(handles)

    def forget_timers_of(self, process: Process) -> None:
        """Drop what a killed process had set, so that it cannot hide a deadlock of the others."""
        for timer in list(self._scheduled):
            if _context_of(timer).get(CURRENT_PROCESS) is process:
                timer.cancel()


def _ceil_us(when: float) -> int:
    """The first whole microsecond that is not before `when`."""
    microseconds = round(when * MICROSECONDS)
    return microseconds if microseconds / MICROSECONDS >= when else microseconds + 1


def _context_of(handle: asyncio.Handle) -> Context:
    return cast("Context", handle._context)  # type: ignore[attr-defined]


def _is_task_step(handle: asyncio.Handle) -> bool:
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return isinstance(owner, asyncio.Task)


def _settle(
    future: asyncio.Future[Any], result: object | None, error: BaseException | None
) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
