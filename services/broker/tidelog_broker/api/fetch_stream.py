"""FetchStream: the client grants credit in bytes, the broker pushes what becomes visible.

Each partition on a stream is one `FetchSession` under the number the client chose for it. A
session is ready (in `_ready`, in turn with the others) or waits for its partition's next commit.
One coroutine reads what the client says, the handler's own writes answers; nothing is sent that
no credit covers, but one batch always goes out while any credit is left, however large it is.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tidelog.errors import InvalidRequest, TidelogError
from tidelog.wire.envelopes import FETCHED, Outgoing
from tidelog.wire.v1 import fetch_pb2
from tidelog_broker.api.fetch import (
    PARTITION_BYTES_DEFAULT,
    answer_bytes_max,
    check_partition_count,
    end_offset_of,
    enough_bytes,
    fill_divergence,
    fill_watermarks,
    find_for_fetch,
    known_epoch_of,
    wanted_bytes,
)
from tidelog_broker.api.isolation import check_isolation
from tidelog_broker.partition.partition import Partition
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker

Answer = Outgoing[fetch_pb2.FetchStreamResponse]


class FetchSession:
    """Reading one partition from one position on.

    Ended by an error, a stop, a new start, or by its end offset.
    """

    __slots__ = (
        "_stream",
        "end_offset",
        "item",
        "known_epoch",
        "max_bytes",
        "number",
        "offset",
        "partition",
    )

    def __init__(
        self, stream: FetchStream, item: fetch_pb2.FetchPartition, partition: Partition
    ) -> None:
        self._stream = stream
        self.item = item
        self.partition = partition
        self.number = item.session
        self.offset = item.fetch_offset
        self.end_offset = end_offset_of(item)
        self.known_epoch = known_epoch_of(item)
        self.max_bytes = wanted_bytes(item)

    def on_commit(self) -> None:
        """The partition has more to read, or has failed: this session has its turn again."""
        self._stream.make_ready(self)


class FetchStream:
    """One client's stream: its credit and its sessions."""

    def __init__(self, broker: Broker, caller: Caller) -> None:
        self._broker = broker
        self._caller = caller
        self._options = fetch_pb2.FetchOptions()
        self._credit_bytes = 0
        #: Of the answer that is being gathered or taken; counted in the broker's `answers`.
        self._held_bytes = 0
        self._sessions: dict[int, FetchSession] = {}
        self._ready: OrderedDict[FetchSession, None] = OrderedDict()
        self._refusals: deque[fetch_pb2.PartitionRecords] = deque()
        self._changed = asyncio.Event()
        self._told = asyncio.Event()
        self._client_done = False
        self._failure: TidelogError | None = None

    async def run(
        self, requests: AsyncIterator[fetch_pb2.FetchStreamRequest]
    ) -> AsyncIterator[Answer]:
        """Yields answers until the client ends the stream."""
        listener = asyncio.get_running_loop().create_task(
            self._listen(requests), name="fetch-stream-requests"
        )
        stop_listening = self._broker.stopping.listen(self._on_stop)
        try:
            while not self._client_done:
                response = await self._next_response()
                if response is not None:
                    yield response
                self._let_go()
            if listener.done() and not listener.cancelled():
                listener.result()
            if self._failure is not None:
                yield Outgoing(FETCHED, fetch_pb2.FetchStreamResponse(error=to_wire(self._failure)))
        finally:
            self._let_go()
            stop_listening()
            listener.cancel()
            for session in self._sessions.values():
                session.partition.forget_reader(session)

    def _let_go(self) -> None:
        """The answer is taken, or never will be."""
        self._broker.answers.remove(self._held_bytes)
        self._held_bytes = 0

    def _on_stop(self) -> None:
        self._failure = self._broker.stopping.reason()
        self._client_done = True
        self._changed.set()

    def make_ready(self, session: FetchSession) -> None:
        """Puts a session in line."""
        if self._sessions.get(session.number) is session:
            self._ready[session] = None
            self._changed.set()

    # ------------------------------------------------------------------ what the client says

    async def _listen(self, requests: AsyncIterator[fetch_pb2.FetchStreamRequest]) -> None:
        try:
            async for request in requests:
                self._take(request)
                self._changed.set()
                await self._wait_until_told()
        except TidelogError as error:
            self._failure = error
        finally:
            self._client_done = True
            self._changed.set()

    async def _wait_until_told(self) -> None:
        """Stops reading while a client that asks for what it can't have doesn't read why."""
        while len(self._refusals) > self._broker.limits.fetch_partitions_max:
            self._told.clear()
            await self._told.wait()

    def _take(self, request: fetch_pb2.FetchStreamRequest) -> None:
        if request.HasField("options"):
            check_isolation(request.options.isolation_level)
            self._options = request.options
        if request.credit_bytes < 0:
            raise InvalidRequest(f"A credit of {request.credit_bytes} bytes is negative")
        ceiling = self._broker.limits.fetch_credit_bytes_max
        self._credit_bytes = min(self._credit_bytes + request.credit_bytes, ceiling)
        for number in request.stop:
            self._end(number)
        if request.start:
            # A session that is started anew (a seek) takes no second place.
            sessions = self._sessions.keys() | {item.session for item in request.start}
            check_partition_count(self._broker, max(len(sessions), len(request.start)))
        for item in request.start:
            self._start(item)

    def _end(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            session.partition.forget_reader(session)
            self._ready.pop(session, None)

    def _start(self, item: fetch_pb2.FetchPartition) -> None:
        self._end(item.session)
        answer = fetch_pb2.PartitionRecords(session=item.session)
        try:
            partition = find_for_fetch(self._broker, self._caller, item)
            partition.check_readable(item.fetch_offset, known_epoch_of(item))
            session = FetchSession(self, item, partition)
            diverges = fill_divergence(answer, partition, item)
        except TidelogError as error:
            self._refuse(answer, item, error)
            return
        if diverges:
            fill_watermarks(answer, partition)
            self._refusals.append(answer)
            return
        self._sessions[item.session] = session
        self._ready[session] = None

    def _refuse(
        self,
        answer: fetch_pb2.PartitionRecords,
        item: fetch_pb2.FetchPartition,
        error: TidelogError,
    ) -> None:
        answer.error.CopyFrom(to_wire(error))
        self._broker.add_leader_hint(
            answer.leader, item.topic, item.topic_id, item.partition, error
        )
        self._refusals.append(answer)

    # ------------------------------------------------------------------ what the broker answers

    async def _next_response(self) -> Answer | None:
        """The next answer; None when the client has ended the stream meanwhile."""
        response = Outgoing(FETCHED, fetch_pb2.FetchStreamResponse())
        filled = 0
        deadline: float | None = None
        loop = asyncio.get_running_loop()
        while not self._client_done:
            self._changed.clear()
            filled = self._fill(response, filled)
            if filled >= enough_bytes(self._options, self._response_bytes_max()) or self._refusals:
                break
            if filled and self._credit_bytes <= 0:
                break  # the client has to speak first: nothing can be added to this answer
            if filled and deadline is None:
                deadline = loop.time() + self._options.max_wait_ms / 1000
            if deadline is None:
                await self._changed.wait()
                continue
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                break
        while self._refusals:
            response.add(self._refusals.popleft(), (), 0)
        self._told.set()
        return response if response.count else None

    def _response_bytes_max(self) -> int:
        return answer_bytes_max(
            self._broker, self._options, PARTITION_BYTES_DEFAULT, held_bytes=self._held_bytes
        )

    def _fill(self, response: Answer, filled: int) -> int:
        """Reads from ready sessions in turn while there is credit and room; the bytes there are.

        An answer that the next batch does not fit into counts as full.
        """
        bytes_max = self._response_bytes_max()
        while self._ready and self._credit_bytes > 0 and filled < bytes_max:
            session, _ = self._ready.popitem(last=False)
            read_bytes = self._read(session, response, bytes_max - filled, is_first=not filled)
            if not read_bytes and session in self._ready:
                return bytes_max
            filled += read_bytes
            self._credit_bytes -= read_bytes
            if session.number not in self._sessions:
                return bytes_max  # nobody waits for more behind the end of a session
        return filled

    def _read(
        self,
        session: FetchSession,
        response: Answer,
        room_bytes: int,
        *,
        is_first: bool,
    ) -> int:
        partition = session.partition
        max_bytes = min(session.max_bytes, room_bytes, self._credit_bytes)
        try:
            records, next_offset = partition.read(
                session.offset,
                max_bytes,
                session.known_epoch,
                until=session.end_offset,
                at_least_one=is_first,
            )
        except TidelogError as error:
            self._end(session.number)
            self._refuse(fetch_pb2.PartitionRecords(session=session.number), session.item, error)
            return 0
        if not records:
            if not is_first and session.offset < partition.core.high_watermark:
                # Its next batch is too large for the rest of this answer: the next begins with it.
                self._ready[session] = None
                self._ready.move_to_end(session, last=False)
            else:
                partition.call_on_commit(session)
            return 0
        answer = fetch_pb2.PartitionRecords(session=session.number)
        fill_watermarks(answer, partition)
        partition.counters.bytes_out += len(records)
        response.add(answer, (records,), len(records))
        self._held_bytes += len(records)
        self._broker.answers.add(len(records))
        session.offset = next_offset
        if session.end_offset is not None and next_offset >= session.end_offset:
            self._end(session.number)
        else:
            self._ready[session] = None
        return len(records)


async def fetch_stream(
    broker: Broker, caller: Caller, requests: AsyncIterator[fetch_pb2.FetchStreamRequest]
) -> AsyncIterator[Answer]:
    """Serves one fetch stream."""
    async for response in FetchStream(broker, caller).run(requests):
        yield response
