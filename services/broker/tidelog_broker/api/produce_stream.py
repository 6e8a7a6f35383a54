"""ProduceStream: requests in order on one long-lived stream, answers as they are ready.

A request is written as soon as it is read, while the next one may come in (`read_ahead.py`). Its
answer is sent at once when it waits for nothing, else by a callback when its commit comes. gRPC
takes one message at a time a stream, so answers that become ready while another is being sent
queue up behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.errors import TidelogError
from tidelog.wire.envelopes import Incoming
from tidelog.wire.v1 import common_pb2, produce_pb2
from tidelog_broker.api.produce import (
    ProduceAnswer,
    append_batches,
    create_missing,
    refuse_request,
    time_limit_s,
)
from tidelog_broker.api.read_ahead import read_ahead
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker


#: Verdicts on partitions that may wait for a client that doesn't read them; each is some hundred
#: bytes, and one answer may hold thousands.
VERDICTS_QUEUED_MAX: Final = 10_000


class ProduceCall(Protocol):
    """gRPC's side of a stream."""

    async def read(self) -> Any:
        """The next request as `Incoming`, or `grpc.aio.EOF`."""

    async def write(self, response: produce_pb2.ProduceResponse) -> None:
        """Sends one response; one at a time."""


class ProduceStream:
    """One client's stream: its unanswered requests, and the answers on their way out."""

    def __init__(self, broker: Broker, caller: Caller, call: ProduceCall) -> None:
        self._broker = broker
        self._caller = caller
        self._call = call
        self._unanswered: dict[ProduceAnswer, None] = {}
        self._outbox: deque[produce_pb2.ProduceResponse] = deque()
        self._verdicts_queued = 0
        self._sending = False
        self._sender: asyncio.Task[None] | None = None
        #: Set once the stream is to end; before that nobody waits for `_changed`.
        self._is_ending = False
        self._changed = asyncio.Event()
        self._sent = asyncio.Event()

    async def run(self) -> None:
        """Serves until the client ends the stream, or the broker stops; answers what it took."""
        reader = asyncio.get_running_loop().create_task(
            self._read(), name="produce-stream-requests"
        )
        reader.add_done_callback(lambda _: self._end())
        stop_listening = self._broker.stopping.listen(self._end)
        try:
            await self._changed.wait()
            while self._is_busy and not _has_failed(reader):
                self._changed.clear()
                await self._changed.wait()
            if reader.done():
                self._abandon_unanswered()
                await self._finish_sending()
                reader.result()
        finally:
            stop_listening()
            reader.cancel()
            self._abandon_unanswered()
            if self._sender is not None:
                self._sender.cancel()

    def _end(self) -> None:
        self._is_ending = True
        self._changed.set()

    @property
    def _is_busy(self) -> bool:
        """True while an answer is owed."""
        return bool(self._unanswered or self._outbox or self._sending)

    async def _finish_sending(self) -> None:
        """Lets the answer under way go out: gRPC could not say behind half of one what is wrong."""
        self._outbox.clear()
        while self._sending:
            self._changed.clear()
            await self._changed.wait()

    async def _read(self) -> None:
        async with aclosing(read_ahead(self._call.read, self._broker.in_flight)) as taken:
            async for request in taken:
                await self._serve(request)
                del request  # an idle stream would keep its last one
                if self._verdicts_queued > VERDICTS_QUEUED_MAX:
                    await self._wait_until_sent()

    async def _wait_until_sent(self) -> None:
        """Stops reading while the client doesn't read what it is told."""
        while self._outbox:
            self._sent.clear()
            await self._sent.wait()

    def _abandon_unanswered(self) -> None:
        abandoned, self._unanswered = self._unanswered, {}
        for answer in abandoned:
            answer.abandon()
            self._broker.in_flight.remove(answer.held_bytes)

    async def _serve(self, incoming: Incoming[produce_pb2.ProduceRequest]) -> None:
        request, batches, *_ = incoming
        broker = self._broker
        try:
            broker.stopping.check()
            refuse_request(request)
            refusals = await create_missing(broker, self._caller, request)
        except TidelogError as error:
            if request.acks == common_pb2.ACKS_NONE:
                return  # nobody listens
            refusal = produce_pb2.ProduceResponse(correlation_id=request.correlation_id)
            refusal.error.CopyFrom(to_wire(error))
            await self._send(refusal)
            return
        if not broker.in_flight.has_room:
            await broker.in_flight.wait_for_room()
        answer = append_batches(broker, self._caller, request, batches, refusals)
        if request.acks == common_pb2.ACKS_NONE:
            return
        if answer.is_complete:
            await self._send(answer.response, readers_first=answer.wakes_readers)
            return
        self._unanswered[answer] = None
        broker.in_flight.add(answer.held_bytes)
        answer.call_when_complete(self._on_complete, time_limit_s(broker, request))

    def _on_complete(self, answer: ProduceAnswer) -> None:
        del self._unanswered[answer]
        self._broker.in_flight.remove(answer.held_bytes)
        self._enqueue(answer.response)
        if not self._sending:
            self._sending = True
            self._sender = asyncio.get_running_loop().create_task(
                self._send_outbox(), name="produce-stream-answers"
            )
            self._sender.add_done_callback(self._on_sender_end)

    def _on_sender_end(self, sender: asyncio.Task[None]) -> None:
        if not sender.cancelled() and sender.exception() is not None:
            # The client is gone: gRPC ends the request iterator too, nobody is left to answer.
            self._outbox.clear()
            self._verdicts_queued = 0
            self._sending = False
            self._sent.set()
            self._changed.set()

    def _enqueue(self, response: produce_pb2.ProduceResponse) -> None:
        self._outbox.append(response)
        self._verdicts_queued += 1 + len(response.partitions)

    async def _send(
        self, response: produce_pb2.ProduceResponse, *, readers_first: bool = False
    ) -> None:
        self._enqueue(response)
        if not self._sending:
            self._sending = True
            if readers_first:
                # They were woken and have the next turn: gRPC would write the answer at once.
                await asyncio.sleep(0)
            await self._send_outbox()

    async def _send_outbox(self) -> None:
        outbox = self._outbox
        try:
            while outbox:
                response = outbox.popleft()
                self._verdicts_queued -= 1 + len(response.partitions)
                await self._call.write(response)
        finally:
            self._sending = False
            self._sent.set()
            if self._is_ending:
                self._changed.set()


def _has_failed(reader: asyncio.Task[None]) -> bool:
    return reader.done() and (reader.cancelled() or reader.exception() is not None)


async def produce_stream(
    broker: Broker,
    caller: Caller,
    call: ProduceCall,
) -> None:
    """Serves one produce stream."""
    await ProduceStream(broker, caller, call).run()
