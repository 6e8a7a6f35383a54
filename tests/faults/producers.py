"""Idempotent producers that outlive the broker: pipelined, retrying, and remembering every ack.

A lane is what one producer writes to one partition: numbered records, at most five unacknowledged
batches. When the broker dies a producer connects again and sends what was not acknowledged once
more, with the same sequences and in the same order. What a lane remembers the checker holds
against the log.
"""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import (
    Client,
    EndOfStream,
    ProduceStreamClient,
    partition_batch,
    produce_request,
)
from tidelog.errors import BY_CODE, OutOfOrderSequence, TidelogError
from tidelog.records.compression import Compression
from tidelog.wire.v1 import produce_pb2

IN_FLIGHT_MAX: Final = 5
RECORDS_MAX: Final = 8
VALUE_BYTES_MAX: Final = 4_000
PAUSE_S: Final = 0.02


@dataclass(slots=True)
class Sent:
    """A batch on its way."""

    correlation_id: int
    record_count: int
    content: bytes
    base_offset: int = -1


@dataclass(slots=True)
class Lane:
    """What one producer writes to one partition, and what was promised of it."""

    producer: int
    topic: str
    partition: int
    sent_count: int = 0
    #: The offset of each acknowledged record, by its number.
    offsets: array[int] = field(default_factory=lambda: array("q"))
    waiting: deque[Sent] = field(default_factory=deque)

    def value(self, number: int, size: int) -> bytes:
        """A record that says who wrote it as which one."""
        return b"%d %d " % (self.producer, number) + b"." * size

    def acknowledge(self, sent: Sent, base_offset: int) -> None:
        """The broker promised to keep a batch."""
        sent.base_offset = base_offset
        while self.waiting and self.waiting[0].base_offset >= 0:
            first = self.waiting.popleft()
            self.offsets.extend(range(first.base_offset, first.base_offset + first.record_count))


class SessionBroken(Exception):
    """The stream is of no more use: connect again and repeat what was not acknowledged."""


class Producer:
    """One idempotent producer with a lane to each partition."""

    def __init__(self, number: int, partitions: list[tuple[str, int]], seed: int) -> None:
        self.lanes = [Lane(number, topic, partition) for topic, partition in partitions]
        self.refusals: list[str] = []
        self.is_draining = False
        self._random = random.Random(seed)
        self._producer_id = -1
        self._last_correlation_id = 0
        self._by_correlation_id: dict[int, tuple[Lane, Sent]] = {}
        self._room = asyncio.Event()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be acknowledged, or nothing ever will be."""
        return bool(self.refusals) or not any(lane.waiting for lane in self.lanes)

    def finish(self) -> None:
        """From now on nothing new is sent; `run` returns when all is acknowledged."""
        self.is_draining = True
        self._room.set()

    async def run(self, address: Callable[[], Awaitable[str]]) -> None:
        """Produces until it has drained, or the broker has forgotten what it promised."""
        while not (self.is_draining and self.is_done) and not self.refusals:
            try:
                async with Client(await address()) as client:
                    await self._session(client)
            except (AioRpcError, asyncio.InvalidStateError, SessionBroken):
                # The broker is gone, or coming: it is looked for again.
                await asyncio.sleep(PAUSE_S)

    async def _session(self, client: Client) -> None:
        if self._producer_id < 0:
            self._producer_id = await client.new_producer_id()
        stream = client.produce_stream()
        listener = asyncio.create_task(self._listen(stream), name="acknowledgements")
        listener.add_done_callback(lambda _: self._room.set())
        try:
            await self._send(stream, listener)
        finally:
            listener.cancel()
            await asyncio.wait([listener])
            await stream.abandon()
        if not listener.cancelled():
            listener.result()

    async def _send(self, stream: ProduceStreamClient, listener: asyncio.Task[None]) -> None:
        for lane in self.lanes:
            for sent in list(lane.waiting):
                if sent.base_offset < 0:  # else it was acknowledged while others were sent
                    await stream.send(self._request(lane, sent))
        while not listener.done() and not (self.is_draining and self.is_done):
            self._room.clear()
            free = [lane for lane in self.lanes if len(lane.waiting) < IN_FLIGHT_MAX]
            if self.is_draining or not free:
                await self._room.wait()
                continue
            for lane in free:
                await stream.send(self._request(lane, self._next(lane)))

    def _next(self, lane: Lane) -> Sent:
        """A new batch of a lane."""
        chance = self._random
        count = chance.randint(1, RECORDS_MAX)
        numbers = range(lane.sent_count, lane.sent_count + count)
        content = batch(
            *(lane.value(number, chance.randrange(VALUE_BYTES_MAX)) for number in numbers),
            timestamp=time.time_ns() // 1_000_000,
            producer=(self._producer_id, 0, lane.sent_count),
            compression=chance.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
        )
        lane.sent_count += count
        self._last_correlation_id += 1
        sent = Sent(self._last_correlation_id, count, content)
        self._by_correlation_id[sent.correlation_id] = lane, sent
        lane.waiting.append(sent)
        return sent

    def _request(self, lane: Lane, sent: Sent) -> produce_pb2.ProduceRequest:
        item = partition_batch(lane.topic, sent.content, partition=lane.partition)
        return produce_request(item, correlation_id=sent.correlation_id)

    async def _listen(self, stream: ProduceStreamClient) -> None:
        try:
            while True:
                self._take(await stream.answer())
        except (AioRpcError, EndOfStream, SessionBroken, asyncio.InvalidStateError):
            return  # the session ends, and the next one begins

    def _take(self, response: produce_pb2.ProduceResponse) -> None:
        lane, sent = self._by_correlation_id[response.correlation_id]
        if response.HasField("error"):
            raise SessionBroken
        (ack,) = response.partitions
        if ack.HasField("error"):
            self._judge(lane, sent, ack)
            raise SessionBroken
        del self._by_correlation_id[response.correlation_id]
        lane.acknowledge(sent, ack.base_offset)
        self._room.set()

    def _judge(self, lane: Lane, sent: Sent, ack: produce_pb2.PartitionAck) -> None:
        """A refusal of what must be accepted says that the broker has lost something."""
        kind = BY_CODE.get(ack.error.code, TidelogError)
        follows_another = sent is not lane.waiting[0]
        if kind.retriable or (kind is OutOfOrderSequence and follows_another):
            return
        self.refusals.append(
            f"producer {lane.producer} was refused by {lane.topic}-{lane.partition} after"
            f" {len(lane.offsets)} acknowledged records: {ack.error.message}"
        )
