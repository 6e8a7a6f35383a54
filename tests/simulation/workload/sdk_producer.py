"""A program that produces with the SDK: `send`, `send_nowait`, `send_many`, flushes and closes.

Its sessions follow one another, each with an `AsyncProducer` of its own that may be closed in
mid-flight. It runs in a process that the nemesis may freeze. `calm` ends it: the session that runs
is closed and all it sent has its verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from simulation.history import Batch, History, Verdict
from simulation.workload.client_plan import SdkProducerPlan
from simulation.workload.client_ports import ClientPorts
from simulation.workload.verdict_book import VerdictBook
from simulation.world import World
from tidelog.errors import BufferFull, DeliveryExpired, RetriableError, TidelogError

if TYPE_CHECKING:
    from tidelog import AsyncProducer, Deliveries

#: What a close may take beyond the limit it was given: the goodbyes of streams.
CLOSE_SLACK_S = 3.5
VERDICT_SLACK_S = 1.0


class SdkProducer:
    """See the module."""

    def __init__(
        self,
        world: World,
        plan: SdkProducerPlan,
        history: History,
        ports: ClientPorts,
        topic_ids: dict[str, bytes],
    ) -> None:
        self.calm = False
        #: Whether its process is never frozen, so that verdicts have to come in time.
        self.is_punctual = True
        self.process = world.process(plan.name)
        self._world = world
        self._plan = plan
        self._history = history
        self._ports = ports
        self._topics = plan.topics
        self._topic_ids = topic_ids
        self._random = world.stream(plan.name)
        self._sessions = 0

    async def run(self) -> None:
        """Produce until calm."""
        await self.process.spawn(self._work(), name=self._plan.name)

    async def _work(self) -> None:
        while not self.calm:
            self._sessions += 1
            await Session(self, f"{self._plan.name}/{self._sessions}").run()

    def note(self, what: str) -> None:
        """Write into the trace."""
        self._world.trace.record(what)

    def book(self, author: str) -> VerdictBook:
        """The book of a new session."""
        plan = self._plan
        block_s = plan.options["max_block_ms"] / 1000
        limit_s = plan.options["delivery_timeout_ms"] / 1000 + 2 * block_s + VERDICT_SLACK_S
        return VerdictBook(
            self._history,
            author,
            plan.acks,
            is_idempotent=plan.options["enable_idempotence"],
            topic_ids=self._topic_ids,
            now=self._world.now,
            limit_s=limit_s if self.is_punctual else None,
        )


class Session:
    """One producer, from its making to its close."""

    def __init__(self, program: SdkProducer, author: str) -> None:
        self._program = program
        self._plan = program._plan
        self._random = program._random
        self._history = program._history
        self._now = program._world.now
        self._book = program.book(author)
        self._author = author
        self._producer: AsyncProducer[str, bytes] = program._ports.producer(
            self._plan.name, self._plan.options
        )
        self._calls: list[tuple[Deliveries, list[Batch]]] = []
        self._unwaited: list[Batch] = []
        self._cancelled: list[Batch] = []
        self._turns = self._random.randint(1, self._plan.turns)

    @property
    def _is_over(self) -> bool:
        return self._program.calm or self._turns <= 0

    async def run(self) -> None:
        """Send, then close, and hold every record against its verdict."""
        tasks = [asyncio.create_task(self._send_on(), name=f"{self._author}-sends")]
        tasks += [
            asyncio.create_task(self._await_each(number), name=f"{self._author}-awaits-{number}")
            for number in range(self._plan.waiters)
        ]
        try:
            await asyncio.wait(tasks[:1])
            if self._random.random() < self._plan.cancel_chance:
                for task in tasks:
                    task.cancel()
            await self._close()
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
        for task in tasks:
            if not task.cancelled():
                task.result()
        self._take_calls()
        for batch in self._cancelled:
            self._book.withdraw(batch)
        self._book.close()
        left = self._producer._accumulator.used_bytes
        if left:
            self._history.anomalies.append(
                f"{self._author} was closed and still holds {left} bytes"
            )

    # ---- turns

    async def _send_on(self) -> None:
        deeds: tuple[Callable[[], Awaitable[None]], ...] = (
            self._burst, self._burst, self._burst, self._many, self._urgent, self._flush,
        )  # fmt: skip
        while not self._is_over:
            self._turns -= 1
            try:
                await self._random.choice(deeds)()
            except BufferFull:
                await self._wait_for_room()
            except (DeliveryExpired, RetriableError) as error:
                self._program.note(f"{self._author} could not send: {error}")
            await asyncio.sleep(self._random.uniform(0, 2 * self._plan.pause_s))

    async def _wait_for_room(self) -> None:
        try:
            await self._producer.wait_for_room()
        except BufferFull:
            return

    async def _burst(self) -> None:
        for _ in range(self._random.randint(1, 6)):
            self._send_nowait(None)

    async def _urgent(self) -> None:
        self._send_nowait(self._random.choice((0.05, 0.3)))

    def _send_nowait(self, timeout_s: float | None) -> None:
        topic, partition, key = self._draw_place()
        value = self._new_value()
        batch = self._book.begin(topic, -1 if partition is None else partition, value)
        self._unwaited.append(batch)
        try:
            self._producer.send_nowait(
                topic,
                value,
                key,
                partition=partition,
                on_delivery=self._book.callback(batch),
                delivery_timeout=timeout_s,
            )
        except TidelogError as error:
            self._book.raised(batch, error)
            raise

    async def _many(self) -> None:
        topic, partition, _ = self._draw_place()
        values = [self._new_value() for _ in range(self._random.randint(1, 10))]
        keys = None
        if partition is None and self._random.random() < 0.5:
            keys = [self._new_key() for _ in values]
        place = -1 if partition is None else partition
        batches = [self._book.begin(topic, place, value) for value in values]
        try:
            deliveries = await self._producer.send_many(topic, values, keys, partition=partition)
        except (TidelogError, asyncio.CancelledError):
            for batch in batches:
                self._book.lose(batch)
            raise
        self._calls.append((deliveries, batches))

    async def _flush(self) -> None:
        limit_s = self._random.choice((None, 0.01, 1.0))
        begun_s, before = self._now(), _open(self._unwaited)
        try:
            await self._producer.flush(limit_s)
        except TidelogError:
            if limit_s is None:
                raise
            self._check_time("flush", begun_s, limit_s, VERDICT_SLACK_S)
            return
        late = _open(before)
        if late:
            self._history.anomalies.append(f"{late[0]} had no verdict after a flush")

    async def _await_each(self, number: int) -> None:
        while not self._is_over:
            topic, partition, key = self._draw_place()
            value = self._new_value()
            place = -1 if partition is None else partition
            batch = self._book.begin(topic, place, value, f"/task-{number}")
            take = self._book.callback(batch)
            try:
                await self._producer.send(topic, value, key, partition=partition, on_delivery=take)
            except asyncio.CancelledError:
                self._cancelled.append(batch)
                raise
            except TidelogError as error:
                self._book.raised(batch, error)
            await asyncio.sleep(self._random.uniform(0, self._plan.pause_s))

    # ---- the end

    async def _close(self) -> None:
        limit_s: float | None = None
        if self._random.random() < self._plan.haste_chance:
            limit_s = self._random.choice((0.0, 0.05, 1.0))
        begun_s = self._now()
        try:
            await self._producer.close(limit_s)
        except TidelogError as error:
            self._program.note(f"{self._author} closed: {error}")
        if limit_s is not None:
            self._check_time("close", begun_s, limit_s, CLOSE_SLACK_S)

    def _check_time(self, what: str, begun_s: float, limit_s: float, slack_s: float) -> None:
        took_s = self._now() - begun_s
        if self._program.is_punctual and took_s > limit_s + slack_s:
            self._history.anomalies.append(
                f"{self._author}: {what}(timeout={limit_s}) took {took_s} s"
            )

    def _take_calls(self) -> None:
        for deliveries, batches in self._calls:
            if not deliveries.done():
                continue  # the book says that they have no verdict
            for batch, outcome in zip(batches, deliveries.verdicts(), strict=True):
                self._book.settle(batch, outcome)

    # ---- what is sent

    def _draw_place(self) -> tuple[str, int | None, str | None]:
        topic = self._random.choice(self._program._topics)
        kind = self._random.randrange(3)
        if kind == 0:
            return topic.name, self._random.randrange(topic.partitions), None
        return topic.name, None, self._new_key() if kind == 1 else None

    def _new_key(self) -> str:
        return f"key-{self._random.randrange(20)}"

    def _new_value(self) -> bytes:
        name = f"{self._author} {len(self._book.batches)}.{self._random.randrange(1 << 30)} "
        return name.encode().ljust(self._random.randint(*self._plan.value_bytes), b".")


def _open(batches: list[Batch]) -> list[Batch]:
    return [batch for batch in batches if batch.verdict is Verdict.OPEN]
