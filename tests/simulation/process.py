"""A simulated operating-system process: what SIGKILL and SIGSTOP act on.

Everything that runs inside carries the process in its context (tasks, timers and callbacks inherit
it), so the loop can refuse to run it. A kill is therefore a real one: no `finally` block runs, no
`CancelledError` is seen, the tasks simply never take another step. The invariant: between `kill`
and the end of the simulation no line of the process's code is executed.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from simulation.loop import SimulationLoop

_Result = TypeVar("_Result")


class ProcessState(enum.Enum):
    """As `ps` would show it."""

    RUNNING = "running"
    PAUSED = "paused"
    KILLED = "killed"


class Process:
    """Owns all tasks started within it, and the fate they share."""

    def __init__(self, name: str, loop: SimulationLoop) -> None:
        self.name = name
        self._loop = loop
        self.state = ProcessState.RUNNING
        self._context = copy_context()
        self._context.run(CURRENT_PROCESS.set, self)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._held: list[asyncio.Handle] = []
        self._watchers: dict[Callable[[], None], None] = {}

    def __str__(self) -> str:
        return self.name

    def new_context(self) -> Context:
        """A context in which code belongs to this process."""
        return self._context.copy()

    def spawn(
        self, main: Coroutine[Any, Any, _Result], *, name: str | None = None
    ) -> asyncio.Task[_Result]:
        """Start a task in the process; whatever it starts belongs to the process too."""
        return self._loop.create_task(main, name=name, context=self.new_context())

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Run a function now, as the process: servers and channels it makes die with it."""
        return self._context.copy().run(function)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` run after each change of state: so does the kernel close the sockets."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """The opposite of `watch`."""
        self._watchers.pop(watcher, None)

    def pause(self) -> None:
        """SIGSTOP: time goes on, the process does not."""
        assert self.state is ProcessState.RUNNING, f"{self} is {self.state.value}, cannot pause"
        self._become(ProcessState.PAUSED)

    def resume(self) -> None:
        """SIGCONT: everything that fell due meanwhile runs at once."""
        assert self.state is ProcessState.PAUSED, f"{self} is {self.state.value}, cannot resume"
        self._become(ProcessState.RUNNING)
        held, self._held = self._held, []
        self._loop.run_held(held)

    def kill(self) -> None:
        """SIGKILL: nothing of the process runs any more. Not to be called from inside."""
        assert CURRENT_PROCESS.get() is not self, f"{self} cannot kill itself and live to see it"
        if self.state is ProcessState.KILLED:
            return
        self._held.clear()
        self._loop.forget_timers_of(self)
        self._become(ProcessState.KILLED)

    def _become(self, state: ProcessState) -> None:
        self.state = state
        self._loop.trace.record(f"{self} is {state.value}")
        for watcher in list(self._watchers):
            watcher()

    @property
    def stopped(self) -> bool:
        """Paused or dead: its tasks do not move."""
        return self.state is not ProcessState.RUNNING

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether the loop may run this now; a paused process keeps it for later."""
        if self.state is ProcessState.PAUSED:
            self._held.append(handle)
        return self.state is ProcessState.RUNNING

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Called by the loop for each task started inside. Keeps the frozen ones from the
        garbage collector, which would run their `finally` blocks at a time of its own."""
        self._tasks[task] = None
        task.add_done_callback(self._forget, context=_NEUTRAL_CONTEXT)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def live_tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that have not ended, oldest first; after a kill, the frozen ones."""
        return list(self._tasks)


CURRENT_PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)
_NEUTRAL_CONTEXT = Context()


def neutral_context() -> Context:
    """A context of no process: the network and the kernel go on when a process dies."""
    return _NEUTRAL_CONTEXT.copy()
