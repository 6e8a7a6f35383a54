"""A program that reads with the SDK: it assigns, iterates or polls, seeks, pauses and catches up.

Its sessions follow one another, each with an `AsyncConsumer` of its own. When `calm` it reads to
the ends of all logs before it closes: a consumer that would wait for ever is found then. What it
was shown goes into the history, and with it where each reading began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from simulation.history import History, LogKey, Read, Span
from simulation.workload.client_plan import SdkReaderPlan
from simulation.workload.client_ports import ClientPorts
from simulation.world import World
from tidelog import TopicPartition
from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from tidelog import AsyncConsumer, ConsumerRecord

#: How long a turn of reading waits for records.
TURN_S = 0.3
#: A reader that gets nothing for so long, though nothing is wrong any more, waits for ever.
STANDSTILL_S = 20.0


class SdkReader:
    """See the module."""

    def __init__(
        self,
        world: World,
        plan: SdkReaderPlan,
        history: History,
        ports: ClientPorts,
        topic_ids: dict[str, bytes],
    ) -> None:
        self.calm = False
        self.process = world.process(plan.name)
        self._world = world
        self._plan = plan
        self._history = history
        self._ports = ports
        self._topic_ids = topic_ids
        self._random = world.stream(plan.name)
        self._session = 0
        self._spans: dict[TopicPartition, Span] = {}
        self._paused: set[TopicPartition] = set()
        #: How far each log is known to reach.
        self._seen: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Read until calm, then to the end."""
        await self.process.spawn(self._work(), name=self._plan.name)

    async def _work(self) -> None:
        while not self.calm:
            await self._read(self._read_on)

    async def read_all(self) -> None:
        """Read everything from the beginning to where it ends now."""
        await self._read(self._read_whole)

    async def _read(self, how: Callable[[AsyncConsumer[bytes, bytes]], Awaitable[None]]) -> None:
        consumer = self._ports.consumer(self._plan.name, self._plan.options)
        self._spans.clear()
        self._paused.clear()
        try:
            await how(consumer)
        except TidelogError as error:
            self._history.anomalies.append(f"{self._plan.name} could not read: {error!r}")
            await asyncio.sleep(1.0)
        finally:
            await consumer.close()

    # ---- assigning

    async def _assign(
        self,
        consumer: AsyncConsumer[bytes, bytes],
        start: dict[TopicPartition, int] | None,
        until: str | None = None,
    ) -> bool:
        """From these offsets on, or from the beginning; False when nobody answered in time."""
        try:
            if start:
                await consumer.assign(dict(start), until=until)
            else:
                await consumer.assign(sorted(self._topic_ids), start="earliest", until=until)
        except TidelogError as error:
            if not error.retriable:
                raise
            self._world.trace.record(f"{self._plan.name} could not assign: {error}")
            return False
        for name, position in consumer.positions().items():
            expected = start[name] if start else 0
            if position != expected:
                self._note(f"{name} was assigned at {expected} and begins at {position}")
            self._begin_span(name, position)
        return True

    def _begin_span(self, name: TopicPartition, offset: int) -> None:
        self._session += 1
        log = LogKey(self._topic_ids[name.topic], name.partition)
        span = self._spans[name] = Span(log, self._plan.name, self._session, offset)
        self._history.spans.append(span)

    # ---- reading

    async def _read_on(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        start = None
        if self._seen and self._random.random() < 0.5:
            start = {name: self._random.randint(0, end) for name, end in self._seen.items()}
        if not await self._assign(consumer, start):
            return
        while not self.calm:
            await self._turn(consumer)
            if self._random.random() < self._plan.whim:
                return
            await self._move_about(consumer)
        await self._catch_up(consumer)

    async def _turn(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        """Read for a while, in this program's style."""
        if self._plan.style == "poll":
            self._take(consumer, await consumer.poll(timeout=TURN_S))
        elif self._plan.style == "batches":
            batches: Any = consumer.batches(timeout=TURN_S)
            async with aclosing(batches):
                async for batch in batches:
                    self._take(consumer, batch)
                    if self._random.random() < 0.3:
                        break
        else:
            records: Any = consumer.records(timeout=TURN_S)
            async with aclosing(records):
                async for record in records:
                    self._take(consumer, (record,))
                    if self._random.random() < 0.05:
                        break

    def _take(
        self,
        consumer: AsyncConsumer[bytes, bytes],
        records: Iterable[ConsumerRecord[bytes, bytes]],
    ) -> None:
        now = self._world.now()
        last: dict[TopicPartition, int] = {}
        for record in records:
            name = TopicPartition(record.topic, record.partition)
            span = self._spans[name]
            watermark = consumer._engine.fetching.states[name].high_watermark
            value = record.value or b""
            self._history.reads.append(
                Read(span.log, span.reader, span.session, record.offset, value, watermark, now)
            )
            last[name] = record.offset
            if name in self._paused:
                self._note(f"{record.offset} of {name} was handed out though it is paused")
        for name, offset in last.items():
            self._seen[name] = max(self._seen.get(name, 0), offset + 1)
            if consumer.position(name) != offset + 1:
                self._note(f"{name} was read to {offset}, and is at {consumer.position(name)}")

    async def _move_about(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        if self._seen and self._random.random() < self._plan.seek_chance:
            name = self._random.choice(sorted(self._seen))
            offset = self._random.randint(0, self._seen[name])
            await consumer.seek(name, offset)
            self._begin_span(name, offset)
        if self._random.random() < self._plan.pause_chance:
            if self._paused:
                await consumer.resume()
                self._paused.clear()
            else:
                name = self._random.choice(sorted(self._spans))
                await consumer.pause(name)
                self._paused.add(name)

    # ---- to the end

    async def _catch_up(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        await consumer.resume()
        self._paused.clear()
        ends = await consumer.end_offsets()
        moved_s, before = self._world.now(), consumer.positions()
        while any(consumer.position(name) < end for name, end in ends.items()):
            await self._turn(consumer)
            now, positions = self._world.now(), consumer.positions()
            if positions != before:
                moved_s, before = now, positions
            elif now - moved_s > STANDSTILL_S:
                self._note(f"it stands still at {positions}, and the ends are {ends}")
                return
        for name, span in self._spans.items():
            span.end_offset = consumer.position(name)

    async def _read_whole(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        while not await self._assign(consumer, None, "end"):
            continue
        async for record in consumer.records(timeout=STANDSTILL_S):
            self._take(consumer, (record,))
        for span in self._spans.values():
            span.end_offset = self._history.final[span.log].high_watermark

    def _note(self, what: str) -> None:
        self._history.anomalies.append(f"{self._plan.name}: {what}")
