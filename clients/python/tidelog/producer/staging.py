"""Records for topics that aren't known yet, from `send_nowait`, which cannot wait for the answer.

`AsyncProducer` keeps them here while their topic is asked for, then hands them over in their order
as if they had been sent then. Invariant: the handle that was given out tells of the real record.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidelog.errors import ClientClosed, OutcomeUnknown, Refused, TidelogError
from tidelog.producer.delivery import BatchDelivery, Delivery

if TYPE_CHECKING:
    from tidelog.producer.accumulator import Accumulator, Headers
    from tidelog.producer.partitioner import Partitioner
    from tidelog.producer.pipeline import Pipeline

logger: Final = logging.getLogger("tidelog.producer")

#: value, key, headers, timestamp
Content = tuple[bytes | None, bytes | None, "Headers", int]


class StagedRecord:
    """One record with what it will need."""

    __slots__ = ("content", "delivery", "limit_s", "partition", "size")

    def __init__(
        self, content: Content, partition: int | None, limit_s: float | None, verdict: BatchDelivery
    ) -> None:
        self.content = content
        self.partition = partition
        self.limit_s = limit_s
        self.delivery = verdict
        self.size = len(content[0] or b"") + len(content[1] or b"")


class Staging:
    """See the module."""

    def __init__(
        self, accumulator: Accumulator, partitioner: Partitioner, hurry: Callable[[bool], None]
    ) -> None:
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._hurry = hurry
        self._records: dict[str, deque[StagedRecord]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pipeline: Pipeline
        self._limit_s = 0.0
        self._is_given_up = False

    def start(self, pipeline: Pipeline, limit_s: float) -> None:
        """From now on topics can be asked for, each at most so long."""
        self._pipeline = pipeline
        self._limit_s = limit_s

    def add(
        self, topic: str, content: Content, partition: int | None, limit_s: float | None
    ) -> Delivery:
        """Keeps a record until its topic is known."""
        verdict = BatchDelivery(topic, -1, self._hurry)
        verdict.count = 1
        record = StagedRecord(content, partition, limit_s, verdict)
        self._accumulator.used_bytes += record.size
        self._records.setdefault(topic, deque()).append(record)
        if topic not in self._tasks:
            self._ask(topic)
        return Delivery(verdict, 0, content[3])

    async def settled(self, limit_s: float | None) -> bool:
        """Whether nothing is staged any more, at the latest when the limit has passed.

        Who stops waiting leaves the records as they are.
        """
        loop = asyncio.get_running_loop()
        deadline = None if limit_s is None else loop.time() + limit_s
        while self._tasks:
            left_s = None if deadline is None else deadline - loop.time()
            if left_s is not None and left_s <= 0:
                return False
            await asyncio.wait(self._tasks.values(), timeout=left_s)
        return True

    async def give_up(self) -> None:
        """Refuses what is still staged: the producer closes."""
        self._is_given_up = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            # Whoever closes may be cancelled before the tasks have ended.
            for topic in list(self._records):
                self._refuse(topic, _closed())

    def _ask(self, topic: str) -> None:
        task = asyncio.get_running_loop().create_task(
            self._find(topic), name=f"tidelog-staging-{topic}"
        )
        self._tasks[topic] = task
        # Not at the end of the coroutine: one that is cancelled early never gets there.
        task.add_done_callback(lambda task: self._on_end(topic, task))

    async def _find(self, topic: str) -> None:
        await self._pipeline.route(topic, self._limit_s)
        self.replay(topic)

    def _on_end(self, topic: str, task: asyncio.Task[None]) -> None:
        """However it ended: what is left of its topic has its verdict, or is asked for anew."""
        del self._tasks[topic]
        failure = self._failure_of(topic, task)
        if failure is not None:
            self._refuse(topic, failure)
        elif topic in self._records:  # the topic was dropped again, and they came just then
            self._ask(topic)

    def _failure_of(self, topic: str, task: asyncio.Task[None]) -> TidelogError | None:
        if self._is_given_up:
            return _closed()
        if task.cancelled():
            return Refused(
                f"Nothing was sent to topic {topic!r}: who asked for it was cancelled",
                hint="Somebody ends all tasks of the event loop; close the producer before that",
            )
        failure = task.exception()
        if failure is None or isinstance(failure, TidelogError):
            return failure
        logger.error("Topic %r could not be asked for", topic, exc_info=failure)
        return Refused(
            f"Nothing was sent to topic {topic!r}: {failure!r}",
            hint="This is a bug; please tell us",
        )

    def replay(self, topic: str) -> None:
        """The topic is known: its records go where they belong."""
        records = self._records.get(topic)
        if records is None:
            return
        # One by one: what an interrupt leaves here has its verdict at the end of the task.
        while records:
            self._replay_one(topic, records.popleft())
        del self._records[topic]

    def _replay_one(self, topic: str, record: StagedRecord) -> None:
        self._accumulator.used_bytes -= record.size
        try:
            self._hand_over(topic, record)
        except TidelogError as failure:
            self._settle(record.delivery, failure)
        except BaseException as failure:
            # It may have been added before that. Those behind it are not to blame for a fault.
            self._settle(record.delivery, _unforeseen(topic, failure))
            if not isinstance(failure, Exception):
                raise

    def _hand_over(self, topic: str, record: StagedRecord) -> None:
        route = self._accumulator.routes[topic]
        value, key, headers, timestamp_ms = record.content
        partition = record.partition
        if partition is None:
            partition = self._partitioner.choose(topic, key, len(route.slots))
        if record.limit_s is None:
            real = self._accumulator.add(route, partition, value, key, headers, timestamp_ms)
        else:
            real = self._accumulator.add_alone(
                route, partition, value, key, headers, timestamp_ms, record.limit_s
            )
        batch, index, staged = real._batch, real._index, record.delivery
        staged.partition = batch.partition
        batch.is_asked = True

        def tell() -> None:
            if batch.error is not None:
                self._settle(staged, batch.error)
                return
            offset = batch.base_offset + index if batch.base_offset >= 0 else -1
            staged.settle(offset, batch.append_time_ms, None)

        batch.when_settled(tell)

    def _refuse(self, topic: str, failure: TidelogError) -> None:
        if not isinstance(failure, Refused):
            failure = Refused(failure.message, cause=failure.cause, hint=failure.hint)
        for record in self._records.pop(topic, ()):
            self._accumulator.used_bytes -= record.size
            self._settle(record.delivery, failure)

    def _settle(self, delivery: BatchDelivery, failure: TidelogError) -> None:
        self._pipeline.failures.add(delivery)
        delivery.settle(-1, -1, failure)


def _closed() -> ClientClosed:
    return ClientClosed("The producer was closed before the topic was known")


def _unforeseen(topic: str, failure: BaseException) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"A record for topic {topic!r} may have been written or not: handing it over failed",
        cause=f"{type(failure).__name__}: {failure}",
    )
