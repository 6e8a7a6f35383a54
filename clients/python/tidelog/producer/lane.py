"""The way to one broker: a produce stream, the requests unanswered on it, and its ends.

The pipeline makes a lane for each broker that leads a partition with records. A lane asks it for
the next batches whenever there is room for a request, so that what arrived while others were under
way goes together. Invariant: every batch that was collected is answered or lost, exactly once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc
from grpc.aio import EOF

from tidelog.engine.calls import error_of_call, is_being_cancelled
from tidelog.errors import (
    BrokerUnreachable,
    OutcomeUnknown,
    RequestTimedOut,
    TidelogError,
    TooManyCalls,
)

if TYPE_CHECKING:
    from tidelog.engine.connections import Connection, Connections
    from tidelog.producer.partition_queue import QueuedBatch
    from tidelog.wire.envelopes import Outgoing
    from tidelog.wire.v1 import produce_pb2

RECONNECT_BACKOFF_S: Final = 0.05
RECONNECT_BACKOFF_MAX_S: Final = 1.0
#: How long the broker may take to end a stream on which nothing is owed.
GOODBYE_S: Final = 1.0


class Station(Protocol):
    """What a lane needs of the pipeline."""

    def collect(self, address: str) -> list[QueuedBatch]:
        """The batches of the next request to this broker, marked as in flight."""

    async def encode(self, batches: list[QueuedBatch]) -> list[QueuedBatch]:
        """Makes the bytes of each batch; those that have them, in order."""

    def request_of(self, batches: list[QueuedBatch]) -> Outgoing[produce_pb2.ProduceRequest]:
        """The request that carries them."""

    def on_written(self, batches: list[QueuedBatch]) -> bool:
        """The request is on its way; True when no answer will come for it."""

    def on_answer(self, batches: list[QueuedBatch], answer: produce_pb2.ProduceResponse) -> bool:
        """The broker has answered; True when other batches wait for their turn."""

    def on_lost(self, batches: list[QueuedBatch], error: TidelogError) -> None:
        """No answer will come."""

    def on_turned_away(self, batches: list[QueuedBatch], error: TidelogError) -> None:
        """The broker has not let the stream in: nothing of it was done."""

    def on_broken(self, failure: BaseException) -> None:
        """A bug ended the lane: everything gets the verdict that can still be given."""

    def on_unreachable(self, address: str, error: TidelogError) -> None:
        """No connection could be had; nothing was lost by it."""

    def on_cancelled(self, address: str) -> None:
        """Somebody else has cancelled the lane; what was unanswered is lost. Another is needed."""


@dataclass(slots=True)
class Unanswered:
    """A request under way."""

    batches: list[QueuedBatch]
    sent_at: float


class BrokerLane:
    """See the module."""

    def __init__(
        self,
        address: str,
        station: Station,
        connections: Connections,
        *,
        max_in_flight: int,
        request_timeout_s: float,
    ) -> None:
        self.address = address
        self._station = station
        self._connections = connections
        self._max_in_flight = max_in_flight
        self._request_timeout_s = request_timeout_s
        self._work = asyncio.Event()
        self._unanswered: dict[int, Unanswered] = {}
        self._correlation_id = 0
        self._throttled_until = 0.0
        self._backoff_s = RECONNECT_BACKOFF_S
        self._loop = asyncio.get_running_loop()
        self._watchdog: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._call: Any = None
        self._reader: asyncio.Task[TidelogError | None]
        self._task = self._loop.create_task(self._run(), name=f"tidelog-produce-{address}")
        self._task.add_done_callback(self._on_end)

    def wake(self) -> None:
        """There may be something to send."""
        self._work.set()

    async def close(self) -> None:
        """Ends the stream; what was unanswered is the pipeline's to judge."""
        self._is_closing = True
        self._work.set()
        if self._call is not None:
            await asyncio.wait([self._task], timeout=2 * GOODBYE_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def end(self) -> None:
        """Ends all by itself and soon, where nobody can wait for it any more."""
        self._is_closing = True
        self._task.cancel()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            if not self._is_closing:
                self._lose_unanswered(None)
                self._station.on_cancelled(self.address)
            return
        failure = task.exception()
        if failure is not None:
            self._station.on_broken(failure)

    async def _run(self) -> None:
        while not self._is_closing:
            await self._work.wait()
            error = await self._serve_once()
            if self._is_closing:
                break
            self._lose_unanswered(error)
            if error is not None:
                await asyncio.sleep(self._backoff_s)
                self._backoff_s = min(self._backoff_s * 2, RECONNECT_BACKOFF_MAX_S)

    async def _serve_once(self) -> TidelogError | None:
        """One stream from its beginning to its end; what ended it, if that was a failure."""
        try:
            connection = await self._connections.get(self.address)
        except TidelogError as failure:
            self._work.clear()
            unreachable = _alone(failure)
            self._station.on_unreachable(self.address, unreachable)
            return unreachable
        error: TidelogError | None
        try:
            error = await self._serve(connection)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            # Only the call was cancelled: the watchdog has given its requests up.
            error = OutcomeUnknown(f"The stream to the broker at {self.address} was given up")
        except grpc.aio.AioRpcError as failure:
            error = error_of_call(failure, self.address)
        except (grpc.aio.UsageError, asyncio.InvalidStateError) as failure:
            error = BrokerUnreachable(
                f"The stream to the broker at {self.address} has ended", cause=str(failure)
            )
        if isinstance(error, BrokerUnreachable):
            self._connections.drop(connection)
        return error

    async def _serve(self, connection: Connection) -> TidelogError | None:
        self._call = connection.produce_stream(metadata=connection.metadata)
        self._reader = self._loop.create_task(
            self._read(), name=f"tidelog-produce-answers-{self.address}"
        )
        self._reader.add_done_callback(lambda _: self._work.set())
        try:
            await self._write()
        finally:
            if self._watchdog is not None:
                self._watchdog.cancel()
                self._watchdog = None
            await self._end_stream(self._call, self._reader)
            # Tracebacks hold frames: with nothing of the stream in them it ends here and now.
            self._call = None
        return self._reader.result()

    async def _end_stream(self, call: Any, reader: asyncio.Task[Any]) -> None:
        """In good order where nothing is owed: what gRPC does after a cancel outlives the loop."""
        try:
            if not reader.done() and not self._unanswered:
                # The broker may end the stream in this moment: gRPC has three names for that.
                with suppress(grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
                    await call.done_writing()
                    await asyncio.wait([reader], timeout=GOODBYE_S)
            if not reader.done():
                call.cancel()
                await asyncio.wait([reader], timeout=GOODBYE_S)
        finally:
            if not reader.done():  # it took too long, or whoever waited was cancelled
                call.cancel()
                reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)

    async def _write(self) -> None:
        """Writes requests until the reader has met the end of the stream."""
        work = self._work
        while not (self._reader.done() or self._is_closing):
            batches: list[QueuedBatch] = []
            if len(self._unanswered) < self._max_in_flight and not self._is_throttled():
                batches = self._station.collect(self.address)
            if not batches:
                work.clear()
                await work.wait()
                continue
            try:
                batches = await self._station.encode(batches)
            except asyncio.CancelledError:
                self._station.on_turned_away(batches, _cut_off(self.address))
                raise
            if not batches:
                continue
            self._correlation_id += 1
            number = self._correlation_id
            # Those that were there before may have been given up while these were encoded.
            self._unanswered[number] = Unanswered(batches, self._loop.time())
            request = self._station.request_of(batches)
            request.head.correlation_id = number
            self._watch()
            await self._call.write(request)
            if self._station.on_written(batches):
                del self._unanswered[number]

    async def _read(self) -> TidelogError | None:
        """Hands every answer to the pipeline; returns why the stream ended."""
        while True:
            try:
                answer = await self._call.read()
            except grpc.aio.AioRpcError as failure:
                return error_of_call(failure, self.address)
            if answer is EOF:
                return None if not self._unanswered else await self._status()
            self._backoff_s = RECONNECT_BACKOFF_S
            request = self._unanswered.pop(answer.correlation_id, None)
            if request is None:
                continue
            if answer.throttle_ms > 0:
                self._throttle(answer.throttle_ms / 1000)
            if self._station.on_answer(request.batches, answer):
                self._work.set()

    async def _status(self) -> TidelogError:
        code = await self._call.code()
        details = await self._call.details()
        return BrokerUnreachable(
            f"The broker at {self.address} ended the stream before it had answered",
            cause=f"{code.name} {details or ''}".strip(),
        )

    # ------------------------------------------------------------------ time

    def _is_throttled(self) -> bool:
        return self._loop.time() < self._throttled_until

    def _throttle(self, pause_s: float) -> None:
        self._throttled_until = self._loop.time() + pause_s
        self._loop.call_later(pause_s, self._work.set)

    def _watch(self) -> None:
        """One timer looks after the oldest request."""
        if self._watchdog is None:
            self._watchdog = self._loop.call_later(self._request_timeout_s, self._look)

    def _look(self) -> None:
        self._watchdog = None
        oldest = min((request.sent_at for request in self._unanswered.values()), default=None)
        if oldest is None:
            return
        due_in_s = oldest + self._request_timeout_s - self._loop.time()
        if due_in_s > 0:
            self._watchdog = self._loop.call_later(due_in_s, self._look)
            return
        self._lose_unanswered(
            RequestTimedOut(
                f"The broker at {self.address} did not answer within {self._request_timeout_s:g} s",
                hint="It may be busy; request_timeout_ms says how long to wait",
            )
        )
        if self._call is not None:
            self._call.cancel()

    def _lose_unanswered(self, error: TidelogError | None) -> None:
        lost, self._unanswered = self._unanswered, {}
        turned_away = isinstance(error, TooManyCalls)
        lose = self._station.on_turned_away if turned_away else self._station.on_lost
        for request in lost.values():
            lose(
                request.batches,
                error or OutcomeUnknown(f"The stream to the broker at {self.address} ended"),
            )


def _alone(error: TidelogError) -> TidelogError:
    """The error without what it was raised through: batches keep it, channels must not stay."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _cut_off(address: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"The stream to the broker at {address} was cancelled meanwhile")
