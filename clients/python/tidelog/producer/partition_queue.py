"""One partition's unacknowledged batches: what may be sent, what an answer means, what expires.

Pure: `core` feeds it answers and the time, and collects verdicts. Invariants: batches are written
in the order of their hand-over, also across retries; a batch keeps the identity and sequence of
its first sending for as long as any attempt of it may still be written; each batch gets exactly
one verdict.

A failed batch makes the queue rewind: nothing more is sent before everything in flight is
answered, then all goes out again in order. A batch that is given up after it had a sequence
leaves a gap that the broker will not bridge. Then the queue is broken: what may have been written
is asked for once more under its old sequence, and only what certainly was not gets a new one,
under the next epoch.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.errors import (
    ClientClosed,
    DeliveryExpired,
    InvalidProducerEpoch,
    OutcomeUnknown,
    OutOfOrderSequence,
    Refused,
    RetriableError,
    TidelogError,
    UnknownProducerId,
)
from tidelog.wording import counted

SEQUENCE_MASK: Final = 0x7FFF_FFFF
RETRY_BACKOFF_S: Final = 0.1
RETRY_BACKOFF_MAX_S: Final = 1.0
UNANSWERED: Final = "no answer came before its deadline"


class Identity(NamedTuple):
    """An idempotent producer's id and epoch."""

    producer_id: int
    epoch: int


class PartitionKey(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(slots=True, eq=False)
class QueuedBatch:
    """A sealed batch on its way. `content` is the shell's own."""

    key: PartitionKey
    content: Any
    record_count: int
    size: int
    deadline: float
    identity: Identity | None = None
    sequence: int = -1
    attempts: int = 0
    is_in_flight: bool = False
    #: Some attempt was never answered for certain: it may be written, now or later.
    is_uncertain: bool = False
    #: The verdict was given at the deadline, while an attempt was still in flight.
    is_given_up: bool = False
    last_error: TidelogError | None = None


class Verdict(NamedTuple):
    """What became of a batch; error None means acknowledged."""

    batch: QueuedBatch
    error: TidelogError | None
    base_offset: int = -1
    append_time_ms: int = -1


class PartitionQueue:
    """See the module. `window` is how many batches may be unanswered at once."""

    __slots__ = (
        "_backoff_s",
        "batches",
        "dead",
        "identity",
        "in_flight",
        "is_broken",
        "is_idempotent",
        "is_known",
        "is_rewinding",
        "key",
        "next_sequence",
        "retry_at",
        "verdicts",
        "window",
    )

    def __init__(
        self, key: PartitionKey, verdicts: list[Verdict], *, is_idempotent: bool, window: int
    ) -> None:
        self.key = key
        self.verdicts = verdicts
        self.is_idempotent = is_idempotent
        self.window = window
        self.batches: deque[QueuedBatch] = deque()
        self.in_flight = 0
        self.identity: Identity | None = None
        self.next_sequence = 0
        self.is_rewinding = False
        self.is_broken = False
        #: Whether the partition's leader has acknowledged a batch of this identity.
        self.is_known = False
        self.retry_at = 0.0
        #: Why nothing more can be written: the topic is gone, or the producer is fenced.
        self.dead: TidelogError | None = None
        self._backoff_s = RETRY_BACKOFF_S

    # ------------------------------------------------------------------ sending

    def needs_identity(self, current: Identity | None) -> bool:
        """Whether the next batch waits for an id, or for a later epoch than the current one."""
        if not self.is_idempotent or not self.batches:
            return False
        if self.is_broken:
            return self._is_ready_to_renumber() and self.identity == current
        return current is None

    def next_batch(self, now: float, current: Identity | None) -> QueuedBatch | None:
        """The batch to send now, marked as in flight; None when there is none."""
        if len(self.batches) <= self.in_flight or now < self.retry_at:
            return None
        if self.in_flight and (self.is_rewinding or self.is_broken or self._is_window_full()):
            return None
        self.is_rewinding = False
        if self.is_broken and self._is_ready_to_renumber():
            if current is None or current == self.identity:
                return None
            self._renumber()
        batch = self.batches[self.in_flight]
        if self.is_idempotent and batch.identity is None:
            if self.identity is None:
                self.identity = current
            if self.identity is None:
                return None
            batch.identity, batch.sequence = self.identity, self.next_sequence
            self.next_sequence = (self.next_sequence + batch.record_count) & SEQUENCE_MASK
        batch.is_in_flight = True
        batch.attempts += 1
        self.in_flight += 1
        return batch

    def _is_window_full(self) -> bool:
        """A broker that knows nothing of a producer takes any sequence for its first one.

        So the first batch of an identity goes alone: a second one must not arrive before it.
        """
        if self.is_idempotent and not self.is_known:
            return True
        return self.in_flight >= self.window

    def _is_ready_to_renumber(self) -> bool:
        """Nothing of the broken sequence is open: the first batch was certainly not written."""
        return self.in_flight == 0 and not (self.batches and self.batches[0].is_uncertain)

    def _renumber(self) -> None:
        """The next epoch begins with what certainly was not written.

        What may have been written and stands behind such a batch can't be asked for any more:
        if the broker took it now, it would stand before its predecessor.
        """
        for batch in [batch for batch in self.batches if batch.is_uncertain]:
            self._give(batch, unknown(batch, "a batch before it was lost"))
        for batch in self.batches:
            batch.identity, batch.sequence = None, -1
        self.identity = None
        self.next_sequence = 0
        self.is_broken = False
        self.is_known = False

    # ------------------------------------------------------------------ answers

    def acknowledge(self, batch: QueuedBatch, base_offset: int, append_time_ms: int) -> None:
        """The broker has written the batch, now or before."""
        self._land(batch)
        self.is_known = True
        self._backoff_s = RETRY_BACKOFF_S
        if batch.is_given_up:
            self.batches.remove(batch)
        else:
            self._give(batch, None, base_offset, append_time_ms)

    def refuse(self, batch: QueuedBatch, error: TidelogError, now: float) -> None:
        """The broker has answered this attempt with an error."""
        if error.outcome_unknown or not isinstance(error, Refused | RetriableError):
            batch.is_uncertain = True
        self._fail(batch, error, now, is_passing=self._is_worth_repeating(batch, error))

    def lose(self, batch: QueuedBatch, error: TidelogError, now: float) -> None:
        """The attempt will never be answered: the stream broke, or the time limit passed.

        Without an identity it can't be repeated: that might write it twice.
        """
        batch.is_uncertain = True
        is_passing = self.is_idempotent and not isinstance(error, Refused)
        self._fail(batch, error, now, is_passing=is_passing)

    def _fail(
        self, batch: QueuedBatch, error: TidelogError, now: float, *, is_passing: bool
    ) -> None:
        self._land(batch)
        batch.last_error = error
        if batch.is_given_up:
            self.batches.remove(batch)
            self.is_broken = self.is_idempotent
        elif is_passing and self.dead is None:
            self._retry_later(batch, error, now)
        else:
            if isinstance(error, InvalidProducerEpoch):
                self.dead = error
            self._give_up(batch, self.dead or error)
            self._bury()

    def _is_worth_repeating(self, batch: QueuedBatch, error: TidelogError) -> bool:
        if isinstance(error, OutOfOrderSequence | UnknownProducerId):
            # Behind another open batch it only says that that one is missing.
            return self.batches[0] is not batch or not batch.is_uncertain
        if not self.is_idempotent and error.outcome_unknown:
            return False
        return error.retriable or error.refresh_metadata

    def _retry_later(self, batch: QueuedBatch, error: TidelogError, now: float) -> None:
        if isinstance(error, OutOfOrderSequence | UnknownProducerId):
            if self.batches[0] is not batch:
                # The batch before it has failed, or will: both go out again, in order.
                self.is_rewinding = True
                return
            self.is_broken = True
        self.retry_at = now + self._backoff_s
        if not self.is_rewinding:
            self._backoff_s = min(self._backoff_s * 2, RETRY_BACKOFF_MAX_S)
        self.is_rewinding = True

    def _land(self, batch: QueuedBatch) -> None:
        assert batch.is_in_flight, "an attempt is answered once"
        batch.is_in_flight = False
        self.in_flight -= 1

    # ------------------------------------------------------------------ giving up

    def expire(self, now: float) -> None:
        """Gives every batch whose deadline has passed its verdict."""
        for batch in [batch for batch in self.batches if batch.deadline <= now]:
            if batch.is_in_flight:
                if not batch.is_given_up:
                    batch.is_given_up = True
                    self.verdicts.append(Verdict(batch, unknown(batch, UNANSWERED)))
                continue
            self._give_up(batch, _expired(batch))

    def end(self, error: TidelogError) -> None:
        """No batch is sent any more; what is in flight still gets its answer."""
        self.dead = error
        self._bury()

    def abandon(self, error: TidelogError) -> None:
        """The client closes: what has no verdict gets one now."""
        for batch in list(self.batches):
            if not batch.is_in_flight:
                self._give_up(batch, error)
            elif not batch.is_given_up:
                # It stays, since its answer may still come.
                batch.is_uncertain = batch.is_given_up = True
                self.verdicts.append(Verdict(batch, unknown(batch, _why_unknown(error))))

    @property
    def next_deadline(self) -> float:
        """When the first of the batches expires; never when there is none."""
        return min(
            (batch.deadline for batch in self.batches if not batch.is_given_up),
            default=float("inf"),
        )

    def _bury(self) -> None:
        if self.dead is not None:
            for batch in [batch for batch in self.batches if not batch.is_in_flight]:
                self._give_up(batch, self.dead)

    def _give_up(self, batch: QueuedBatch, error: TidelogError) -> None:
        if batch.identity is not None:
            self.is_broken = True
        if batch.is_uncertain:
            error = unknown(batch, _why_unknown(error))
        elif not isinstance(error, Refused):
            error = Refused(error.message, cause=error.cause, hint=error.hint)
        self._give(batch, error)

    def _give(
        self,
        batch: QueuedBatch,
        error: TidelogError | None,
        base_offset: int = -1,
        append_time_ms: int = -1,
    ) -> None:
        self.batches.remove(batch)
        self.verdicts.append(Verdict(batch, error, base_offset, append_time_ms))


def unknown(batch: QueuedBatch, why: str) -> OutcomeUnknown:
    """The verdict on a batch that may have been written."""
    return OutcomeUnknown(
        f"{_records(batch)} may have been written or not: {why}",
        cause=str(batch.last_error) if batch.last_error is not None else "",
        hint="Read the partition to find out, or send again if a record may stand there twice",
    )


def _why_unknown(error: TidelogError) -> str:
    """Why nobody knows, where a batch that was never sent would have been refused with `error`."""
    if isinstance(error, DeliveryExpired):
        return UNANSWERED
    if isinstance(error, ClientClosed):
        return "the producer was closed before an answer came"
    return error.message


def _expired(batch: QueuedBatch) -> DeliveryExpired:
    said = f"the last answer was: {batch.last_error}" if batch.last_error is not None else ""
    return DeliveryExpired(
        f"{_records(batch)} could not be written before the deadline and will not be",
        cause=said or "The leader could not be reached, or was busy with what came before",
        hint="Send again, or raise delivery_timeout_ms",
    )


def _records(batch: QueuedBatch) -> str:
    return f"{counted(batch.record_count, 'record')} for {batch.key.topic}-{batch.key.partition}"
