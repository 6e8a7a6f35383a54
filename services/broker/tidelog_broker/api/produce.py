"""Produce: batches in, one verdict a partition out.

The unary call and the stream (`produce_stream.py`) share `append_batches`: every batch of a
request is checked, stamped and written before anything is awaited, so that the order on a stream
is the order in the log. What remains is waiting for the commit, which the caller does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.errors import (
    InvalidRequiredAcks,
    InvalidTransactionState,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    TidelogError,
)
from tidelog.wire.v1 import common_pb2, produce_pb2
from tidelog_broker.api.appending import HELD_BYTES_A_PARTITION, append_all
from tidelog_broker.partition.waiting import PendingProduce
from tidelog_runtime.disk import Buffer
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker

#: How long a produce waits for its commit when it doesn't say.
PRODUCE_TIMEOUT_DEFAULT_MS: Final = 30_000
NO_REFUSALS: Final[Mapping[str, TidelogError]] = {}
KNOWN_ACKS: Final = frozenset(common_pb2.Acks.values())


class ProduceAnswer:
    """A response under way: complete once nothing in it waits for a commit."""

    __slots__ = ("_on_complete", "_timer", "held_bytes", "pending", "response", "wakes_readers")

    def __init__(self, correlation_id: int) -> None:
        self.response = produce_pb2.ProduceResponse(correlation_id=correlation_id)
        self.pending = PendingProduce(self._finish)
        #: What counts against queued.max.request.bytes while the answer is under way.
        self.held_bytes = 0
        #: Whether readers of a partition waited for what was written.
        self.wakes_readers = False
        self._timer: asyncio.TimerHandle | None = None
        self._on_complete: Callable[[ProduceAnswer], None] | None = None

    @property
    def is_complete(self) -> bool:
        """True when the response can be sent."""
        return self.pending.is_settled

    def call_when_complete(self, callback: Callable[[ProduceAnswer], None], limit_s: float) -> None:
        """Calls back once, when all is committed or the time limit has passed."""
        self._on_complete = callback
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._expire, limit_s)

    def abandon(self) -> None:
        """The caller is gone; what was written stays written."""
        self.pending.abandon()
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self, limit_s: float) -> None:
        self.pending.expire(
            RequestTimedOut(
                f"The batch was written but not committed within {limit_s * 1000:.0f} ms",
                hint="It may still be committed: an idempotent producer can safely send it again",
            )
        )

    def _finish(self, pending: PendingProduce) -> None:
        for index, failure in pending.failures.items():
            self.response.partitions[index].error.CopyFrom(to_wire(failure))
        if self._timer is not None:
            self._timer.cancel()
        if self._on_complete is not None:
            self._on_complete(self)


def append_batches(
    broker: Broker,
    caller: Caller,
    request: produce_pb2.ProduceRequest,
    batches: Sequence[Buffer],
    refusals: Mapping[str, TidelogError],
) -> ProduceAnswer:
    """Writes every batch of a request; each partition gets its own verdict.

    `batches` belong to the partitions one by one; `refusals` says of topics that could not be
    created why not.
    """

    def refuse(ack: produce_pb2.PartitionAck, error: TidelogError) -> None:
        ack.error.CopyFrom(to_wire(refusals.get(ack.topic, error)))
        broker.add_leader_hint(ack.leader, ack.topic, ack.topic_id, ack.partition, error)

    answer = ProduceAnswer(request.correlation_id)
    append_all(
        broker.replicas,
        request,
        batches,
        answer,
        principal=caller.principal,
        now_ms=broker.clock.now_ms(),
        refuse=refuse,
    )
    return answer


def refuse_request(request: produce_pb2.ProduceRequest) -> None:
    """Raises for what is wrong with a request as a whole."""
    if request.acks not in KNOWN_ACKS:
        raise InvalidRequiredAcks(
            f"acks={request.acks} is none of ACKS_ALL, ACKS_LEADER, ACKS_NONE"
        )
    if request.transactional_id:
        raise InvalidTransactionState(
            f"Transactional id {request.transactional_id!r} was refused: this cluster has no"
            " transactions yet",
            hint="Leave transactional_id empty; producers are idempotent without it",
        )


def time_limit_s(broker: Broker, request: produce_pb2.ProduceRequest) -> float:
    """How long a request waits for its commits."""
    asked_ms = request.timeout_ms
    return (asked_ms if asked_ms > 0 else PRODUCE_TIMEOUT_DEFAULT_MS) / 1000


async def create_missing(
    broker: Broker, caller: Caller, request: produce_pb2.ProduceRequest
) -> Mapping[str, TidelogError]:
    """Creates the topics that the request names and the cluster lacks; the refusals by name."""
    if not broker.replicas.misses_topic(request):
        return NO_REFUSALS
    names = [item.topic for item in request.partitions if item.topic and not item.topic_id]
    return await broker.auto_create.create(names, caller.principal)


async def produce(
    broker: Broker, caller: Caller, request: produce_pb2.ProduceRequest
) -> produce_pb2.ProduceResponse:
    """The unary twin: answers when everything in the request is committed or refused."""
    refuse_request(request)
    _refuse_without_room(broker)
    batches = [item.batch for item in request.partitions]
    # From here on, since the topic may have to be created first.
    held_bytes = sum(map(len, batches)) + HELD_BYTES_A_PARTITION * len(batches)
    broker.in_flight.add(held_bytes)
    try:
        refusals = await create_missing(broker, caller, request)
        answer = append_batches(broker, caller, request, batches, refusals)
        if not answer.is_complete:
            await _completed(answer, time_limit_s(broker, request))
    finally:
        broker.in_flight.remove(held_bytes)
    return answer.response


def _refuse_without_room(broker: Broker) -> None:
    """Raises while too much waits already: any number of calls could wait, each with its batches.

    A stream waits instead: of each, gRPC reads no more meanwhile.
    """
    in_flight = broker.in_flight
    if not in_flight.has_room:
        raise ThrottlingQuotaExceeded(
            f"Nothing was written: {in_flight.bytes} bytes wait for their acknowledgement already",
            hint="Send it again in a moment; queued.max.request.bytes of the broker is"
            f" {in_flight.bytes_max}",
        )


async def _completed(answer: ProduceAnswer, limit_s: float) -> None:
    complete = asyncio.Event()
    answer.call_when_complete(lambda _: complete.set(), limit_s)
    try:
        await complete.wait()
    finally:
        answer.abandon()
