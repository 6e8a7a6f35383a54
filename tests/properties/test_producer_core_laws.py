"""The laws of a producer's core, held against a broker and a network that do what they may.

The network loses streams, and delivers what was on them later or never; the broker refuses for
passing reasons, or answers that it doesn't know. Whatever happens: one verdict a batch, the log
agrees with each, order of sending, no duplicates.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import (
    InvalidProducerEpoch,
    NotEnoughReplicas,
    OutcomeUnknown,
    OutOfOrderSequence,
    Refused,
    RequestTimedOut,
    TidelogError,
)
from tidelog.producer.core import ProducerCore
from tidelog.producer.partition_queue import Identity, PartitionKey, QueuedBatch, Verdict

KEY: Final = PartitionKey("orders", b"0123456789abcdef", 0)
LOST: Final = RequestTimedOut("the stream was cut")
REMEMBERED: Final = 5


class Attempt(NamedTuple):
    """One sending of a batch, as the wire carries it."""

    batch: QueuedBatch
    identity: Identity
    sequence: int
    size: int

    @property
    def number(self) -> int:
        """Which batch it is, in the order of sending."""
        return int(self.batch.content)


@dataclass
class ModelBroker:
    """One partition's log, and what it remembers of the producer."""

    log: list[int] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    known: Identity | None = None
    batches: deque[tuple[int, int, int]] = field(default_factory=deque)
    end: int = 0

    def append(self, attempt: Attempt) -> int:
        """The base offset; raises as a broker does."""
        if self.known is not None and self.known.producer_id == attempt.identity.producer_id:
            if attempt.identity.epoch < self.known.epoch:
                raise InvalidProducerEpoch
            if attempt.identity.epoch > self.known.epoch:
                if attempt.sequence != 0:
                    raise OutOfOrderSequence
                self.batches.clear()
            else:
                for first, last, base_offset in self.batches:
                    if (first, last) == (attempt.sequence, attempt.sequence + attempt.size - 1):
                        return base_offset
                if attempt.sequence != self.batches[-1][1] + 1:
                    raise OutOfOrderSequence
        self.known = attempt.identity
        self.batches.append((attempt.sequence, attempt.sequence + attempt.size - 1, self.end))
        if len(self.batches) > REMEMBERED:
            self.batches.popleft()
        self.log.append(attempt.number)
        self.offsets[attempt.number] = self.end
        base_offset, self.end = self.end, self.end + attempt.size
        return base_offset


class World:
    """A core, a broker, and the streams between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.core = ProducerCore(is_idempotent=True, window=5)
        self.broker = ModelBroker()
        self.now = 0.0
        self.sent = 0
        self.stream: deque[Attempt] = deque()
        self.answers: deque[tuple[QueuedBatch, int | TidelogError]] = deque()
        self.floating: deque[Attempt] = deque()
        self.verdicts: dict[int, Verdict] = {}
        self.batches: dict[int, QueuedBatch] = {}
        self.has_faults = True

    def add(self) -> None:
        count = self.random.randint(1, 3)
        timeout_s = self.random.choice((0.3, 3.0, 30.0))
        batch = QueuedBatch(KEY, self.sent, count, 100, self.now + timeout_s)
        self.batches[self.sent] = batch
        self.sent += 1
        self.core.add(batch)

    def send(self) -> None:
        for batch in self.core.collect(self.now, lambda _: True):
            assert batch.identity is not None
            self.stream.append(Attempt(batch, batch.identity, batch.sequence, batch.record_count))

    def serve(self) -> None:
        if not self.stream:
            return
        attempt = self.stream.popleft()
        luck = self.random.random() if self.has_faults else 1.0
        answer: int | TidelogError
        try:
            if luck < 0.1:
                raise NotEnoughReplicas
            answer = self.broker.append(attempt)
            if luck < 0.2:
                raise RequestTimedOut
        except TidelogError as error:
            answer = error
        self.answers.append((attempt.batch, answer))

    def hear(self) -> None:
        if not self.answers:
            return
        batch, answer = self.answers.popleft()
        if isinstance(answer, TidelogError):
            self.core.on_refused(batch, answer, self.now)
        else:
            self.core.on_acknowledged(batch, answer, -1)

    def cut(self) -> None:
        lost = [batch for batch, _ in self.answers] + [attempt.batch for attempt in self.stream]
        if self.random.random() < 0.5:
            self.floating.extend(self.stream)
        self.stream.clear()
        self.answers.clear()
        for batch in lost:
            self.core.on_lost(batch, LOST, self.now)

    def arrive_late(self) -> None:
        if self.floating:
            try:
                self.broker.append(self.floating.popleft())
            except TidelogError:
                return

    def pass_time(self) -> None:
        self.now += self.random.choice((0.01, 0.1, 0.5))
        self.core.pass_time(self.now)

    def ask_identity(self) -> None:
        if self.core.needs_identity():
            held = self.core.identity
            self.core.on_identity(Identity(7, 0 if held is None else held.epoch + 1))

    def take_verdicts(self) -> None:
        for verdict in self.core.take_verdicts():
            number = int(verdict.batch.content)
            assert number not in self.verdicts, "a second verdict"
            self.verdicts[number] = verdict

    def live(self, steps: int) -> None:
        acts = [self.add, self.send, self.serve, self.hear, self.pass_time, self.ask_identity]
        weights = [3, 4, 4, 4, 1, 2]
        for _ in range(steps):
            act = self.random.choices([*acts, self.cut, self.arrive_late], [*weights, 0.5, 1])[0]
            act()
            self.take_verdicts()

    def settle(self) -> None:
        """No more faults: everything comes to its end."""
        self.has_faults = False
        for _ in range(10_000):
            if len(self.verdicts) == self.sent and not self.stream and not self.answers:
                break
            for act in (self.ask_identity, self.send, self.serve, self.hear, self.pass_time):
                act()
            self.take_verdicts()
        while self.floating:
            self.arrive_late()


def check(world: World) -> None:
    assert sorted(world.verdicts) == list(range(world.sent)), "each batch has its verdict"
    log = world.broker.log
    assert log == sorted(set(log)), "in the order of sending, each at most once"
    for number, verdict in world.verdicts.items():
        if verdict.error is None:
            assert world.broker.offsets[number] == verdict.base_offset
        elif isinstance(verdict.error, Refused):
            assert number not in world.broker.offsets, f"{verdict.error} but it was written"
        else:
            assert isinstance(verdict.error, OutcomeUnknown)


@settings(max_examples=400)
@given(seed=st.integers(0, 2**32), steps=st.integers(10, 400))
def test_every_batch_has_one_verdict_and_the_log_agrees(seed: int, steps: int) -> None:
    world = World(seed)
    world.live(steps)
    world.settle()
    check(world)


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), steps=st.integers(10, 200))
def test_closing_in_mid_flight_gives_every_verdict_at_once(seed: int, steps: int) -> None:
    world = World(seed)
    world.live(steps)
    world.core.abandon(Refused("closed"))
    world.take_verdicts()
    world.floating.extend(world.stream)
    while world.floating:
        world.arrive_late()
    check(world)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_without_faults_everything_is_acknowledged(seed: int) -> None:
    world = World(seed)
    for _ in range(30):
        world.add()
    for batch in world.batches.values():
        batch.deadline = 1e9
    world.settle()
    check(world)
    assert all(verdict.error is None for verdict in world.verdicts.values())
