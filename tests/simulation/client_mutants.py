"""Planted bugs of the SDK: small changes of its engine, each of which breaks a promise.

As `simulation.mutants` for the broker. What is compiled can't be changed from here: the bugs are
planted in the decisions around it, which is where they would be made.
"""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock

from simulation.mutants import Mutant
from tidelog.consumer.fetched import Pushed
from tidelog.consumer.fetching import Fetching
from tidelog.consumer.leader_stream import LeaderStream
from tidelog.consumer.reading import Reading
from tidelog.producer.core import ProducerCore
from tidelog.producer.partition_queue import PartitionQueue, QueuedBatch
from tidelog.producer.pipeline import Pipeline

Planted = contextlib.AbstractContextManager[Any]


def _new_sequence_for_a_retry() -> Planted:
    original = PartitionQueue.lose

    def lose(queue: PartitionQueue, batch: QueuedBatch, *args: Any) -> None:
        original(queue, batch, *args)
        batch.identity, batch.sequence = None, -1

    return mock.patch.object(PartitionQueue, "lose", lose)


def _verdict_twice() -> Planted:
    original = ProducerCore.take_verdicts

    def take_verdicts(core: ProducerCore) -> list[Any]:
        verdicts = original(core)
        return verdicts + [one for one in verdicts if one.batch.attempts > 1]

    return mock.patch.object(ProducerCore, "take_verdicts", take_verdicts)


def _verdict_forgotten_at_close() -> Planted:
    return mock.patch.object(ProducerCore, "abandon")


def _lost_counts_as_refused() -> Planted:
    """What was sent and never answered expires as if it had not been sent."""
    original = PartitionQueue.lose

    def lose(queue: PartitionQueue, batch: QueuedBatch, *args: Any) -> None:
        original(queue, batch, *args)
        batch.is_uncertain = False

    return mock.patch.object(PartitionQueue, "lose", lose)


def _in_flight_counts_as_refused_at_close() -> Planted:
    original = PartitionQueue.abandon

    def abandon(queue: PartitionQueue, error: Any) -> None:
        for batch in queue.batches:
            batch.is_in_flight = False
        original(queue, error)

    return mock.patch.object(PartitionQueue, "abandon", abandon)


def _repeated_out_of_order() -> Planted:
    """After a lost stream the last batch goes first, and numbers follow the new order."""
    original = PartitionQueue._retry_later

    def retry_later(queue: PartitionQueue, *args: Any) -> None:
        original(queue, *args)
        if queue.in_flight == 0:
            identities = [(one.identity, one.sequence) for one in queue.batches]
            queue.batches.rotate(1)
            for one, (identity, sequence) in zip(queue.batches, identities, strict=True):
                one.identity, one.sequence = identity, sequence

    return mock.patch.object(PartitionQueue, "_retry_later", retry_later)


def _repeated_without_idempotence() -> Planted:
    original = PartitionQueue.lose

    def lose(queue: PartitionQueue, *args: Any) -> None:
        before, queue.is_idempotent = queue.is_idempotent, True
        original(queue, *args)
        queue.is_idempotent = before

    return mock.patch.object(PartitionQueue, "lose", lose)


def _numbers_anew_what_may_be_written() -> Planted:
    """The next epoch takes over batches of which nobody knows whether they were written."""

    def renumber(queue: PartitionQueue) -> None:
        for batch in queue.batches:
            batch.identity, batch.sequence = None, -1
        queue.identity, queue.next_sequence = None, 0
        queue.is_broken = queue.is_known = False

    return mock.patch.multiple(
        PartitionQueue,
        _renumber=renumber,
        _is_ready_to_renumber=lambda queue: queue.in_flight == 0,
    )


def _answers_swapped() -> Planted:
    """The acks of one request are taken in the wrong order."""
    original = Pipeline.on_answer

    def on_answer(pipeline: Pipeline, batches: list[QueuedBatch], answer: Any) -> bool:
        return original(pipeline, batches[::-1], answer)

    return mock.patch.object(Pipeline, "on_answer", on_answer)


def _skips_a_batch_after_a_broken_stream() -> Planted:
    original = Fetching.on_stream_lost

    def on_stream_lost(fetching: Fetching, *args: Any) -> None:
        lost = [state for state in fetching.states.values() if state.address]
        original(fetching, *args)
        for state in lost:
            if state.fetched_to < state.high_watermark:
                state.fetched_to += 1

    return mock.patch.object(Fetching, "on_stream_lost", on_stream_lost)


def _reads_again_after_a_broken_stream() -> Planted:
    """It goes on where the reader is, though more waits for him already."""
    original = Fetching.on_stream_lost

    def on_stream_lost(fetching: Fetching, *args: Any) -> None:
        original(fetching, *args)
        for state in fetching.states.values():
            state.fetched_to = state.position

    return mock.patch.object(Fetching, "on_stream_lost", on_stream_lost)


def _hands_out_what_a_seek_made_void() -> Planted:
    original = Reading._next_pushed

    def next_pushed(reading: Reading[Any, Any]) -> Pushed | None:
        for delivery in reading.deliveries:
            if isinstance(delivery, Pushed):
                delivery.generation = delivery.state.generation
        return original(reading)

    return mock.patch.object(Reading, "_next_pushed", next_pushed)


def _credit_is_not_given_back() -> Planted:
    """The reader runs dry as soon as it has read what was granted at first."""
    original = LeaderStream.grant
    granted: set[LeaderStream] = set()

    def grant(stream: LeaderStream, credit_bytes: int) -> None:
        if stream not in granted:
            granted.add(stream)
            original(stream, credit_bytes)

    return mock.patch.object(LeaderStream, "grant", grant)


CUTS = ("kill", "cut", "restart")

MUTANTS = (
    Mutant("new sequence for a retry", _new_sequence_for_a_retry, CUTS),
    Mutant("verdict twice", _verdict_twice, CUTS),
    Mutant("verdict forgotten at close", _verdict_forgotten_at_close, CUTS),
    Mutant("lost counts as refused", _lost_counts_as_refused, CUTS),
    Mutant("in flight counts as refused", _in_flight_counts_as_refused_at_close, CUTS),
    Mutant("repeated out of order", _repeated_out_of_order, CUTS),
    Mutant("repeated without idempotence", _repeated_without_idempotence, CUTS),
    Mutant("numbered anew", _numbers_anew_what_may_be_written, CUTS),
    Mutant("answers swapped", _answers_swapped, CUTS),
    Mutant("skips after a broken stream", _skips_a_batch_after_a_broken_stream, CUTS),
    Mutant("reads again after a broken stream", _reads_again_after_a_broken_stream, CUTS),
    Mutant("void records after a seek", _hands_out_what_a_seek_made_void, CUTS),
    Mutant("credit is not given back", _credit_is_not_given_back, CUTS),
)
