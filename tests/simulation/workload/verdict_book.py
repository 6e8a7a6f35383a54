"""What one producing session was told of each record: a verdict each, once, in time.

`sdk_producer` hands records over through it. The record of a call that raised before it returned a
handle is refused; one of a `send_many` that raised is unknown, since nobody told of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from simulation.history import Acks, Batch, History, LogKey, Verdict
from tidelog import Delivery, Receipt
from tidelog.errors import OutcomeUnknown, Refused, TidelogError


@dataclass(slots=True, eq=False)
class VerdictBook:
    """See the module."""

    history: History
    author: str
    acks: Acks
    is_idempotent: bool
    topic_ids: dict[str, bytes]
    now: Callable[[], float]
    #: How late a verdict may be after its hand-over; None where nobody can say.
    limit_s: float | None
    batches: list[Batch] = field(default_factory=list)

    def begin(self, topic: str, partition: int, value: bytes, task: str = "") -> Batch:
        """A record is about to be handed over; records of one task have an order."""
        batch = Batch(
            LogKey(self.topic_ids[topic], partition),
            f"{self.author}{task}",
            len(self.batches),
            (value,),
            self.acks,
            self.now(),
        )
        self.batches.append(batch)
        self.history.batches.append(batch)
        return batch

    def callback(self, batch: Batch) -> Callable[[Delivery], None]:
        """What takes the verdict on a record."""

        def take(delivery: Delivery) -> None:
            error = delivery.exception()
            age_s = self.now() - batch.begun_s
            if self.limit_s is not None and age_s > self.limit_s:
                self._note(batch, f"had its verdict after {age_s} s, not {self.limit_s}: {error!r}")
            self.settle(batch, delivery.result() if error is None else error, delivery.partition)

        return take

    def settle(
        self, batch: Batch, outcome: Receipt | TidelogError, partition: int | None = None
    ) -> None:
        """The verdict on a record."""
        if batch.verdict is not Verdict.OPEN:
            self._note(batch, f"had a second verdict: {outcome!r}")
        if isinstance(outcome, Receipt):
            self._acknowledge(batch, outcome)
            return
        if partition is not None:
            self._place(batch, partition)
        if isinstance(outcome, OutcomeUnknown):
            batch.verdict = Verdict.UNKNOWN
            self._may_come_late(batch)
        elif isinstance(outcome, Refused):
            batch.verdict = Verdict.REFUSED
        else:
            batch.verdict = Verdict.UNKNOWN
            self._note(batch, f"had a verdict that is none: {outcome!r}")

    def _acknowledge(self, batch: Batch, receipt: Receipt) -> None:
        self._place(batch, receipt.partition)
        if receipt.offset is not None:
            batch.verdict, batch.base_offset = Verdict.OK, receipt.offset
            return
        batch.verdict = Verdict.UNKNOWN
        if self.acks is not Acks.NONE:
            self._note(batch, "was acknowledged without an offset")

    def _place(self, batch: Batch, partition: int) -> None:
        known = batch.log.partition
        if known >= 0 and partition >= 0 and known != partition:
            self._note(batch, f"went to partition {partition}")
        if known < 0:
            batch.log = LogKey(batch.log.topic_id, partition)

    def _may_come_late(self, batch: Batch) -> None:
        """Without idempotence nothing keeps it from arriving after what was sent later."""
        if not self.is_idempotent:
            batch.producer = f"{batch.producer}/late-{batch.number}"

    def raised(self, batch: Batch, error: TidelogError) -> None:
        """The call raised: what a callback was told is the verdict, else nothing was taken."""
        if batch.verdict is Verdict.OPEN:
            batch.verdict = Verdict.REFUSED
        is_unknown = isinstance(error, OutcomeUnknown)
        if is_unknown and batch.verdict is not Verdict.UNKNOWN:
            self._note(batch, f"was told to be {batch.verdict.value}, and raised {error!r}")

    def withdraw(self, batch: Batch) -> None:
        """A `send` that was cancelled, its producer closed since: told of, or never taken."""
        if batch.verdict is Verdict.OPEN:
            batch.verdict = Verdict.REFUSED

    def lose(self, batch: Batch) -> None:
        """The call raised or was cancelled before it gave a handle: nobody will tell of it."""
        batch.verdict = Verdict.UNKNOWN
        self._may_come_late(batch)

    def close(self) -> None:
        """The producer is closed: everything has its verdict."""
        for batch in self.batches:
            if batch.verdict is Verdict.OPEN:
                self._note(batch, "had no verdict when the producer was closed")
                batch.verdict = Verdict.UNKNOWN

    def _note(self, batch: Batch, what: str) -> None:
        self.history.anomalies.append(f"{batch} {what}")


def find_places(history: History) -> None:
    """Records without a partition, because they failed before they had one, are looked for."""
    homes = {
        (log.topic_id, value): log
        for log, final in history.final.items()
        for value in final.records.values()
    }
    for batch in history.batches:
        if batch.log.partition < 0:
            batch.log = homes.get((batch.log.topic_id, batch.values[0]), batch.log)
