"""Steps start in order and stop in reverse, whatever fails; background tasks are never silent."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tidelog.errors import StorageError
from tidelog_runtime.lifecycle import AsyncStep, Background, Lifecycle, Step, nothing_to_do


class Story:
    """What happened, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def step(self, name: str, *, fails_at: str = "") -> Step:
        """A step that tells when it starts and stops, and may fail."""
        return Step(name, self._tell("start", name, fails_at), self._tell("stop", name, fails_at))

    def _tell(self, what: str, name: str, fails_at: str) -> AsyncStep:
        async def tell() -> None:
            self.events.append(f"{what} {name}")
            if what == fails_at:
                raise ValueError(name)

        return tell


def test_steps_stop_in_reverse_order_and_once() -> None:
    async def main() -> None:
        story = Story()
        lifecycle = Lifecycle([story.step(name) for name in "abc"])
        await lifecycle.start()
        await lifecycle.stop()
        await lifecycle.stop()
        assert story.events == [
            "start a", "start b", "start c", "stop c", "stop b", "stop a",
        ]  # fmt: skip

    asyncio.run(main())


def test_a_step_that_does_not_start_stops_those_before_it() -> None:
    async def main() -> None:
        story = Story()
        steps = [story.step("a"), story.step("b", fails_at="start"), story.step("c")]
        with pytest.raises(ValueError, match="b"):
            await Lifecycle(steps).start()
        assert story.events == ["start a", "start b", "stop a"]

    asyncio.run(main())


def test_a_start_fails_of_its_own_cause_also_where_a_step_does_not_stop() -> None:
    async def main() -> None:
        story = Story()
        steps = [story.step("a", fails_at="stop"), story.step("b", fails_at="start")]
        with pytest.raises(ValueError, match="b"):
            await Lifecycle(steps).start()
        assert story.events == ["start a", "start b", "stop a"]

    asyncio.run(main())


def test_a_step_that_does_not_stop_keeps_no_other_from_stopping() -> None:
    async def main() -> None:
        story = Story()
        steps = [story.step("a"), story.step("b", fails_at="stop"), story.step("c")]
        lifecycle = Lifecycle(steps)
        await lifecycle.start()
        with pytest.raises(ExceptionGroup) as raised:
            await lifecycle.stop()
        assert [str(failure) for failure in raised.value.exceptions] == ["b"]
        assert story.events[3:] == ["stop c", "stop b", "stop a"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("failure", "is_traced"), [(StorageError("full"), False), (ValueError("bug"), True)]
)
def test_only_what_nobody_foresaw_is_traced(
    failure: Exception, is_traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise failure

    async def main() -> None:
        lifecycle = Lifecycle([Step("broker", nothing_to_do, fail)])
        await lifecycle.start()
        with pytest.raises(ExceptionGroup):
            await lifecycle.stop()

    asyncio.run(main())
    (record,) = caplog.records
    assert record.getMessage() == f"a step failed to stop: {failure}"
    assert bool(record.exc_info) is is_traced


def test_a_background_task_that_fails_is_told_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise OSError("the disk is gone")

    async def main() -> None:
        failures: list[BaseException] = []
        background = Background(failures.append)
        background.spawn("lease", fail())
        for _ in range(3):
            await asyncio.sleep(0)
        assert [str(failure) for failure in failures] == ["the disk is gone"]
        await background.cancel()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "a background task failed" in caplog.text


def test_cancelled_background_tasks_end_even_before_they_began() -> None:
    async def main() -> None:
        failures: list[BaseException] = []
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        background = Background(failures.append)
        background.spawn("begun", wait("begun"))
        await asyncio.sleep(0)
        background.spawn("not begun", wait("not begun"))
        await background.cancel()
        assert ended == ["begun"]
        assert failures == []

    asyncio.run(main())
