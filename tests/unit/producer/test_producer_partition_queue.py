"""One partition's queue: every verdict, every rule of what is sent again under which number."""

from __future__ import annotations

from typing import Final

import pytest

from tidelog.errors import (
    ClientClosed,
    DeliveryExpired,
    InvalidProducerEpoch,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeader,
    OutcomeUnknown,
    OutOfOrderSequence,
    Refused,
    RequestTimedOut,
    TidelogError,
    UnknownServerError,
    UnknownTopic,
)
from tidelog.producer.core import SMALL_REQUEST_BYTES, ProducerCore
from tidelog.producer.partition_queue import (
    Identity,
    PartitionKey,
    PartitionQueue,
    QueuedBatch,
    Verdict,
)

KEY: Final = PartitionKey("orders", b"0123456789abcdef", 3)
FIRST: Final = Identity(9, 0)
SECOND: Final = Identity(9, 1)
CUT: Final = RequestTimedOut("the stream was cut")


class Bench:
    """A queue with batches `0, 1, ...` of ten records, all due at 100."""

    def __init__(self, batches: int, *, is_idempotent: bool = True, window: int = 5) -> None:
        self.verdicts: list[Verdict] = []
        self.queue = PartitionQueue(KEY, self.verdicts, is_idempotent=is_idempotent, window=window)
        self.batches = [QueuedBatch(KEY, number, 10, 100, 100.0) for number in range(batches)]
        self.queue.batches.extend(self.batches)

    def send(self, now: float = 0.0, identity: Identity | None = FIRST) -> list[tuple[int, int]]:
        """Sends all that may go; which batches, under which sequences."""
        sent = []
        while (batch := self.queue.next_batch(now, identity)) is not None:
            sent.append((batch.content, batch.sequence))
        return sent

    def acknowledge(self, number: int) -> None:
        self.queue.acknowledge(self.batches[number], number * 10, -1)

    def refuse(self, number: int, error: TidelogError, now: float = 0.0) -> None:
        self.queue.refuse(self.batches[number], error, now)

    def lose(self, number: int, now: float = 0.0) -> None:
        self.queue.lose(self.batches[number], CUT, now)

    def told(self) -> list[tuple[int, str]]:
        """The verdicts so far."""
        return [
            (verdict.batch.content, type(verdict.error).__name__ if verdict.error else "ok")
            for verdict in self.verdicts
        ]


def warm(batches: int) -> Bench:
    """A queue whose first batch was acknowledged, and whose window is open."""
    bench = Bench(batches)
    assert bench.send() == [(0, 0)], "the first of an identity goes alone"
    bench.acknowledge(0)
    return bench


def test_five_at_most_are_unanswered() -> None:
    bench = warm(8)
    assert bench.send() == [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]
    bench.acknowledge(1)
    assert bench.send() == [(6, 60)]


def test_without_an_identity_nothing_is_sent() -> None:
    bench = Bench(1)
    assert bench.queue.needs_identity(None)
    assert bench.send(identity=None) == []
    assert bench.send() == [(0, 0)]


def test_a_passing_refusal_sends_all_again_in_order_with_the_same_numbers() -> None:
    bench = warm(4)
    bench.send()
    bench.refuse(1, NotEnoughReplicas())
    assert bench.send(1.0) == [], "what is in flight is answered first"
    bench.refuse(2, OutOfOrderSequence())
    bench.lose(3)
    assert bench.send(0.01) == [], "a moment's pause"
    assert bench.send(1.0) == [(1, 10), (2, 20), (3, 30)]
    for number in (1, 2, 3):
        bench.acknowledge(number)
    assert bench.told() == [(number, "ok") for number in range(4)]


def test_what_is_unknown_is_not_called_unwritten() -> None:
    """The words for a batch that was never sent are no reason for one that was."""
    expired, closed = warm(2), warm(2)
    for bench in (expired, closed):
        bench.send()
        bench.lose(1)
    expired.queue.expire(100.0)
    closed.queue.abandon(ClientClosed("The producer was closed before the record was sent"))
    for bench, why in ((expired, "no answer came before its deadline"), (closed, "was closed")):
        error = bench.verdicts[-1].error
        assert isinstance(error, OutcomeUnknown)
        assert error.message.startswith("10 records for orders-3 may have been written or not: ")
        assert why in error.message
        assert "before the record was sent" not in error.message
        assert "will not be" not in error.message


def test_what_was_never_sent_and_expires_is_refused() -> None:
    bench = Bench(1)
    bench.queue.expire(100.0)
    assert bench.told() == [(0, "DeliveryExpired")]
    assert not bench.queue.is_broken


def test_what_is_in_flight_and_expires_is_unknown_at_its_deadline() -> None:
    bench = warm(2)
    bench.send()
    bench.queue.expire(99.0)
    assert bench.told() == [(0, "ok")]
    bench.queue.expire(100.0)
    assert bench.told() == [(0, "ok"), (1, "OutcomeUnknown")]
    bench.queue.expire(101.0)
    bench.acknowledge(1)
    assert bench.told() == [(0, "ok"), (1, "OutcomeUnknown")], "one verdict"
    assert not bench.queue.is_broken, "it was written: no number is missing"


def test_what_was_refused_each_time_and_expires_is_refused() -> None:
    bench = warm(2)
    bench.send()
    bench.refuse(1, NotLeader("moved"))
    bench.queue.expire(100.0)
    assert bench.told()[1] == (1, "DeliveryExpired")
    error = bench.verdicts[1].error
    assert isinstance(error, DeliveryExpired)
    assert "moved" in error.cause


def test_after_an_expiry_every_verdict_is_awaited_then_the_rest_is_renumbered() -> None:
    bench = warm(5)
    bench.batches[1].deadline = 5.0
    assert [bench.queue.next_batch(0, FIRST) for _ in range(2)] == bench.batches[1:3]
    bench.lose(1)
    bench.queue.expire(5.0)
    assert bench.told()[1:] == [(1, "OutcomeUnknown")]
    assert bench.send(9.0) == [], "the second one is still in flight"
    bench.refuse(2, OutOfOrderSequence(), 9.0)
    assert bench.queue.needs_identity(FIRST)
    assert bench.send(20.0) == [], "the next epoch first"
    assert bench.send(20.0, SECOND) == [(2, 0)]
    assert bench.batches[2].identity == SECOND
    bench.acknowledge(2)
    assert bench.send(20.0, SECOND) == [(3, 10), (4, 20)]


def test_after_an_expiry_what_may_be_written_is_asked_for_under_its_old_number() -> None:
    bench = warm(4)
    bench.batches[1].deadline = 5.0
    bench.queue.next_batch(0, FIRST)
    bench.queue.next_batch(0, FIRST)
    bench.lose(1)
    bench.lose(2)
    bench.queue.expire(5.0)
    assert bench.send(9.0, SECOND) == [(2, 20)]
    bench.acknowledge(2)
    assert bench.send(9.0, SECOND) == [(3, 0)]
    bench.acknowledge(3)
    assert bench.told() == [(0, "ok"), (1, "OutcomeUnknown"), (2, "ok"), (3, "ok")]


def test_behind_a_batch_that_was_not_written_no_old_number_is_asked_for() -> None:
    bench = warm(4)
    bench.batches[1].deadline = 5.0
    for _ in range(3):
        bench.queue.next_batch(0, FIRST)
    bench.lose(1)
    bench.refuse(2, OutOfOrderSequence())
    bench.lose(3)
    bench.queue.expire(5.0)
    assert bench.send(9.0, SECOND) == [(2, 0)]
    assert bench.told()[1:] == [(1, "OutcomeUnknown"), (3, "OutcomeUnknown")]


def test_a_batch_that_can_never_be_written_does_not_take_others_with_it() -> None:
    bench = warm(3)
    bench.send()
    bench.refuse(1, MessageTooLarge())
    bench.refuse(2, OutOfOrderSequence())
    assert bench.told()[1:] == [(1, "MessageTooLarge")]
    assert bench.send(9.0, SECOND) == [(2, 0)]


def test_a_lost_sequence_at_the_head_begins_the_next_epoch() -> None:
    bench = warm(2)
    bench.send()
    bench.refuse(1, OutOfOrderSequence("the broker forgot"))
    assert bench.queue.needs_identity(FIRST)
    assert bench.send(9.0, SECOND) == [(1, 0)]


def test_out_of_order_after_a_lost_answer_is_unknown() -> None:
    bench = warm(2)
    bench.send()
    bench.lose(1)
    bench.send(9.0)
    bench.refuse(1, OutOfOrderSequence(), 9.0)
    assert bench.told()[1:] == [(1, "OutcomeUnknown")]


def test_a_server_that_does_not_know_leaves_it_unknown() -> None:
    bench = warm(2)
    bench.send()
    bench.refuse(1, UnknownServerError("boom"))
    assert bench.told()[1:] == [(1, "OutcomeUnknown")]


def test_an_error_that_this_client_does_not_know_leaves_it_unknown() -> None:
    bench = warm(2)
    bench.send()
    bench.refuse(1, TidelogError("code 4711"))
    assert bench.told()[1:] == [(1, "OutcomeUnknown")]


def test_a_fenced_producer_refuses_everything() -> None:
    core = ProducerCore(is_idempotent=True, window=5)
    core.on_identity(FIRST)
    batches = [QueuedBatch(KEY, number, 1, 100, 100.0) for number in range(3)]
    for batch in batches:
        core.add(batch)
    (sent,) = core.collect(0.0, lambda _: True)
    core.on_refused(sent, InvalidProducerEpoch("a newer session"), 0.0)
    late = QueuedBatch(KEY, 3, 1, 100, 100.0)
    core.add(late)
    errors = [verdict.error for verdict in core.take_verdicts()]
    assert [type(error) for error in errors] == [InvalidProducerEpoch] * 4
    assert core.fenced is not None


def test_a_topic_that_is_gone_refuses_what_was_not_written() -> None:
    bench = warm(3)
    bench.queue.next_batch(0, FIRST)
    bench.queue.end(UnknownTopic("gone"))
    assert bench.told()[1:] == [(2, "UnknownTopic")]
    bench.lose(1)
    assert bench.told()[2:] == [(1, "OutcomeUnknown")]


def test_closing_tells_what_may_be_written_from_what_was_not() -> None:
    bench = warm(4)
    bench.queue.next_batch(0, FIRST)
    bench.queue.next_batch(0, FIRST)
    bench.refuse(2, NotEnoughReplicas())
    bench.queue.abandon(Refused("closed"))
    assert bench.told()[1:] == [(1, "OutcomeUnknown"), (2, "Refused"), (3, "Refused")]


def test_an_answer_behind_the_closing_finds_its_batch() -> None:
    """Who closes may have been cut off, and its streams live on for a moment."""
    bench = warm(3)
    bench.send()
    bench.queue.abandon(Refused("closed"))
    told = bench.told()
    bench.acknowledge(1)
    bench.lose(2)
    assert bench.told() == told
    assert not bench.queue.batches


@pytest.mark.parametrize("error", [CUT, RequestTimedOut("written, not committed")])
def test_without_idempotence_nothing_uncertain_is_repeated(error: TidelogError) -> None:
    bench = Bench(2, is_idempotent=False, window=1)
    assert bench.send(identity=None) == [(0, -1)]
    bench.queue.lose(bench.batches[0], error, 0.0) if error is CUT else bench.refuse(0, error)
    assert bench.told() == [(0, "OutcomeUnknown")]
    assert isinstance(bench.verdicts[0].error, OutcomeUnknown)


def test_without_idempotence_a_certain_refusal_is_repeated() -> None:
    bench = Bench(2, is_idempotent=False, window=1)
    bench.send(identity=None)
    bench.refuse(0, NotLeader())
    assert bench.send(9.0, None) == [(0, -1)]


def test_sequences_begin_anew_after_two_to_the_thirty_first() -> None:
    bench = warm(3)
    bench.queue.next_sequence = 2**31 - 10
    assert bench.send() == [(1, 2**31 - 10), (2, 0)]


def test_one_request_takes_one_batch_a_partition_up_to_its_limit() -> None:
    core = ProducerCore(is_idempotent=False, window=1)
    for partition in range(6):
        key = PartitionKey("orders", b"", partition)
        core.add(QueuedBatch(key, partition, 1, 1024 * 1024, 100.0))
        core.add(QueuedBatch(key, partition, 1, 1024 * 1024, 100.0))
    first = core.collect(0.0, lambda _: True)
    assert [batch.content for batch in first] == [0, 1, 2, 3]
    assert [batch.content for batch in core.collect(0.0, lambda _: True)] == [4, 5]


def test_time_is_looked_at_when_something_is_due() -> None:
    core = ProducerCore(is_idempotent=False, window=1)
    core.add(QueuedBatch(KEY, 0, 1, 100, 50.0))
    core.add(QueuedBatch(KEY, 1, 1, 100, 20.0))
    assert core.wakes_at == 20.0
    (sent,) = core.collect(0.0, lambda _: True)
    core.on_refused(sent, NotLeader(), 1.0)
    assert core.wakes_at == pytest.approx(1.1)
    core.pass_time(1.2)
    assert core.wakes_at == 20.0
    core.pass_time(20.0)
    assert [type(verdict.error) for verdict in core.take_verdicts()] == [DeliveryExpired]
    assert core.wakes_at == 50.0


@pytest.mark.parametrize(
    ("size", "together"), [(100, 5), (SMALL_REQUEST_BYTES // 2, 2), (10**6, 1)]
)
def test_small_batches_of_a_partition_go_out_together(size: int, together: int) -> None:
    core = ProducerCore(is_idempotent=True, window=5)
    core.on_identity(FIRST)
    batches = [QueuedBatch(KEY, number, 10, size, 100.0) for number in range(8)]
    for batch in batches:
        core.add(batch)
    assert core.collect(0.0, lambda _: True) == batches[:1]
    core.on_acknowledged(batches[0], 0, -1)
    sent = core.collect(0.0, lambda _: True)
    assert sent == batches[1 : 1 + together]
    assert [batch.sequence for batch in sent] == [10 * (1 + number) for number in range(together)]


def test_every_partition_has_its_turn_before_a_second_batch_of_one() -> None:
    core = ProducerCore(is_idempotent=True, window=5)
    core.on_identity(FIRST)
    keys = [KEY, KEY._replace(partition=4)]
    for key in keys:
        core.add(QueuedBatch(key, "warm", 1, 100, 100.0))
    for batch in core.collect(0.0, lambda _: True):
        core.on_acknowledged(batch, 0, -1)
    for number in range(2):
        for key in keys:
            core.add(QueuedBatch(key, number, 1, 100, 100.0))
    sent = [(batch.key.partition, batch.content) for batch in core.collect(0.0, lambda _: True)]
    assert sent == [(3, 0), (4, 0), (3, 1), (4, 1)]


def test_a_batch_answered_after_its_deadline_leaves_no_empty_queue_in_line() -> None:
    core = ProducerCore(is_idempotent=False, window=1)
    other = PartitionKey("orders", b"0123456789abcdef", 4)
    core.add(QueuedBatch(KEY, "late", 1, 100, 1.0))
    (late,) = core.collect(0.0, lambda _: True)
    core.pass_time(2.0)
    assert [type(verdict.error) for verdict in core.take_verdicts()] == [OutcomeUnknown]
    core.on_refused(late, MessageTooLarge("too late"), 3.0)
    core.add(QueuedBatch(other, "next", 1, 100, 50.0))
    assert [queue.key for queue in core.active] == [other]
    assert [batch.content for batch in core.collect(4.0, lambda _: True)] == ["next"]
