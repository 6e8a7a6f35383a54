"""A lane: what one producer has under way to one partition, and what it concludes from answers.

One producer id a lane. At most five batches are unanswered, and one only until the first of a new
id is acknowledged: a broker that does not know an id takes any sequence for its first. After a lost
answer they are sent again in their order with the sequences they had, and a lane that gives up
begins its next epoch.
A verdict is `refused` only when every single attempt was answered with a certain refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from simulation.history import Acks, Batch, History, LogKey, Verdict
from simulation.workload.plan import ProducerPlan
from tidelog.errors import (
    InvalidProducerEpoch,
    InvalidTimestamp,
    OutOfOrderSequence,
    RetriableError,
    TidelogError,
    UnknownProducerId,
    UnknownTopic,
    UnknownTopicId,
    error_from_wire,
)
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression
from tidelog.wire.v1 import common_pb2, produce_pb2

UNANSWERED_MAX = 5
WIRE_ACKS = {
    Acks.ALL: common_pb2.ACKS_ALL,
    Acks.LEADER: common_pb2.ACKS_LEADER,
    Acks.NONE: common_pb2.ACKS_NONE,
}


@dataclass(slots=True, eq=False)
class Parcel:
    """A batch with what is needed to send it, and how its attempts went."""

    batch: Batch
    content: bytes
    sent: int = 0
    refused: int = 0

    @property
    def may_be_written(self) -> bool:
        """Whether some attempt had no certain refusal."""
        return self.sent > self.refused


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sending of one parcel."""

    lane: Lane
    parcel: Parcel
    #: Nothing before it was unanswered: the broker must find its sequence in order.
    was_first: bool


@dataclass(slots=True, eq=False)
class Lane:
    """See the module."""

    plan: ProducerPlan
    topic: str
    log: LogKey
    history: History
    random: Random
    now: Callable[[], float]
    now_ms: Callable[[], int]
    producer_id: int = -1
    epoch: int = -1
    #: The topic it belongs to is gone.
    is_dead: bool = False
    needs_id: bool = True
    #: The broker has acknowledged something by this producer id.
    is_known: bool = False
    not_before_s: float = 0.0
    unanswered: list[Parcel] = field(default_factory=list)
    _cursor: int = 0
    _next_sequence: int = 0
    _next_number: int = 0
    _next_value: int = 0
    _stream: int = 0

    def take_id(self, producer_id: int, epoch: int) -> None:
        """Begin with a new identity, or the next epoch of it."""
        self.is_known = self.is_known and self.producer_id == producer_id
        self.producer_id, self.epoch = producer_id, epoch
        self.needs_id = False
        self._next_sequence = 0

    def begin_session(self) -> None:
        """A new connection: everything unanswered is sent again, by whom that is safe for."""
        self._stream += 1
        self._cursor = 0
        if not self.plan.is_idempotent:
            self.give_up()
            self.needs_id = False

    def unanswered_acks(self) -> Acks | None:
        """The acks of the batch that has to be sent again next; None when none has."""
        if self._cursor == len(self.unanswered):
            return None
        return self.unanswered[self._cursor].batch.acks

    def next_attempt(self, acks: Acks, *, may_begin: bool, batches_max: int) -> Attempt | None:
        """What to send now: the next one again, or a new batch."""
        if self.is_dead or self.needs_id or self.now() < self.not_before_s:
            return None
        if self._cursor == len(self.unanswered):
            if self.plan.is_idempotent and not self.is_known:
                batches_max = 1
            if not may_begin or self._span >= batches_max:
                return None
            self.unanswered.append(self._new_parcel(acks))
        parcel = self.unanswered[self._cursor]
        self._cursor += 1
        parcel.sent += 1
        attempt = Attempt(self, parcel, was_first=parcel is self.unanswered[0])
        if parcel.batch.acks is Acks.NONE:
            self._settle(parcel, Verdict.UNKNOWN)
        return attempt

    @property
    def _span(self) -> int:
        """How many batches there are from the oldest unanswered one on, answered ones included.

        The broker remembers the last five: one that is sent again must be among them.
        """
        if not self.unanswered:
            return 0
        return self._next_number - self.unanswered[0].batch.number

    def _new_parcel(self, acks: Acks) -> Parcel:
        builder = BatchBuilder()
        values = []
        for _ in range(self.random.choice((1, 1, 2, 5))):
            values.append(self._new_value())
            builder.append(values[-1], None, (), self.now_ms())
        content = builder.build(
            self.random.choice((Compression.NONE, Compression.NONE, Compression.GZIP)),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._next_sequence if self.producer_id >= 0 else -1,
        )
        self._next_sequence += len(values)
        # Without idempotence what was sent before may still arrive after a new connection's.
        author = self.plan.name if self.plan.is_idempotent else f"{self.plan.name}/{self._stream}"
        batch = Batch(self.log, author, self._next_number, tuple(values), acks, self.now())
        self._next_number += 1
        self.history.batches.append(batch)
        return Parcel(batch, content)

    def _new_value(self) -> bytes:
        name = f"{self.plan.name} {self.log} {self._next_value} ".encode()
        self._next_value += 1
        return name.ljust(self.random.randint(*self.plan.value_bytes), b".")

    # ---- what answers mean

    def take_answer(self, attempt: Attempt, ack: produce_pb2.PartitionAck) -> None:
        """One attempt was answered."""
        parcel = attempt.parcel
        if not ack.HasField("error"):
            self.is_known = True
            if parcel.batch.verdict is Verdict.OPEN:
                parcel.batch.base_offset = ack.base_offset
                self._settle(parcel, Verdict.OK)
            return
        error = error_from_wire(ack.error.code, ack.error.message, cause=ack.error.cause)
        self.take_error(attempt, error)

    def take_error(self, attempt: Attempt, error: TidelogError) -> None:
        """One attempt failed."""
        parcel = attempt.parcel
        if not error.outcome_unknown:
            parcel.refused += 1
        if parcel.batch.verdict is not Verdict.OPEN:
            return
        if isinstance(error, UnknownTopic | UnknownTopicId):
            self._lose_topic(error)
        elif not self.plan.is_idempotent:
            self._settle(parcel, _final_verdict(parcel))
        elif isinstance(error, OutOfOrderSequence | UnknownProducerId):
            self._take_out_of_order(attempt, error)
        elif isinstance(error, RetriableError) or error.outcome_unknown:
            self._cursor = 0
            self.not_before_s = self.now() + self.random.uniform(0.05, 0.5)
        else:
            if not isinstance(error, InvalidTimestamp):
                self._note(parcel, error)
            self.needs_id = isinstance(error, InvalidProducerEpoch)
            self.give_up()

    def _lose_topic(self, error: TidelogError) -> None:
        if self.log.topic_id not in self.history.deleted:
            self.history.anomalies.append(f"{self.log} is gone, and nobody deleted it: {error}")
        self.is_dead = True
        self.give_up()

    def _take_out_of_order(self, attempt: Attempt, error: TidelogError) -> None:
        parcel = attempt.parcel
        if not attempt.was_first:
            # One before it was refused; that one comes again, and so does this.
            self._cursor = 0
            return
        if not self._may_have_lost_acknowledged() and not _was_forgotten(error):
            self._note(parcel, error)
        self.give_up()

    def _may_have_lost_acknowledged(self) -> bool:
        """acks=1 may not survive a bad disk, and what follows is out of order then."""
        return any(acks is not Acks.ALL for acks in self.plan.acks) and bool(self.history.losses_s)

    def _note(self, parcel: Parcel, error: TidelogError) -> None:
        self.history.anomalies.append(f"{parcel.batch} was refused without reason: {error!r}")

    def give_up(self) -> None:
        """Every open batch has its verdict now, and the next one begins a new epoch."""
        for parcel in list(self.unanswered):
            self._settle(parcel, _final_verdict(parcel))
        self.needs_id = self.plan.is_idempotent and not self.is_dead

    def expire(self) -> None:
        """Give up when the oldest batch has been under way for too long."""
        if self.unanswered:
            age_s = self.now() - self.unanswered[0].batch.begun_s
            if age_s > self.plan.delivery_timeout_s:
                self.give_up()

    def _settle(self, parcel: Parcel, verdict: Verdict) -> None:
        place = self.unanswered.index(parcel)
        del self.unanswered[place]
        if place < self._cursor:
            self._cursor -= 1
        parcel.batch.verdict = verdict


def _final_verdict(parcel: Parcel) -> Verdict:
    return Verdict.UNKNOWN if parcel.may_be_written else Verdict.REFUSED


def _was_forgotten(error: TidelogError) -> bool:
    """Where old records are dropped, a recovered log may know nothing of who wrote them."""
    is_dropped = "retained-" in error.message or "trimmed-" in error.message
    return isinstance(error, UnknownProducerId) and is_dropped
