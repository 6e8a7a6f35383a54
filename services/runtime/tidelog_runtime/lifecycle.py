"""Starting and stopping in order: what was started last is stopped first.

A service is a list of steps; each has a name, which stands in the log when it fails or takes
long. A step that fails to start stops the ones before it, so that nothing is left half open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tidelog.errors import TidelogError

logger = logging.getLogger(__name__)

AsyncStep = Callable[[], Awaitable[None]]


async def nothing_to_do() -> None:
    """For steps that need only one of start and stop."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to bring up, and how to take it down."""

    name: str
    start: AsyncStep = nothing_to_do
    stop: AsyncStep = nothing_to_do


class Lifecycle:
    """Runs steps up and down."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._started: list[Step] = []

    async def start(self) -> None:
        """Starts every step in order; on a failure stops what was started and raises it."""
        for step in self._steps:
            try:
                await step.start()
            except BaseException:
                # What fails to stop is in the log; why it did not start is what counts.
                with contextlib.suppress(ExceptionGroup):
                    await self.stop()
                raise
            self._started.append(step)

    async def stop(self) -> None:
        """Stops in reverse order; a step that fails doesn't keep the others from stopping."""
        failures: list[Exception] = []
        while self._started:
            step = self._started.pop()
            try:
                await step.stop()
            except Exception as failure:
                logger.error(
                    "a step failed to stop: %s",
                    failure,
                    # An error of ours says all that there is to know.
                    exc_info=not isinstance(failure, TidelogError),
                    extra={"fields": {"step": step.name}},
                )
                failures.append(failure)
        if failures:
            raise ExceptionGroup("some steps failed to stop", failures)


class Background:
    """Tasks of a service that run until it stops; one that fails is never silent."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_failure = on_failure

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `work` beside everything else; its failure is told already when the task is seen."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            logger.error(
                "a background task failed",
                exc_info=failure,
                extra={"fields": {"task": task.get_name()}},
            )
            self._on_failure(failure)

    async def cancel(self) -> None:
        """Ends them all and waits until they have ended."""
        tasks = sorted(self._tasks, key=lambda task: task.get_name())
        for task in tasks:
            task.cancel()
        for task in tasks:
            await asyncio.wait([task])
