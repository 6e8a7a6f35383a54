"""Fetch: the long-poll twin of the stream, and what both share of reading a partition.

A fetch waits until `min_bytes` are there or `max_wait_ms` have passed, whichever comes first; it
does not wait for what one answer can't hold. At least one batch is always answered, however small
the limits. Nothing is read while a long poll waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidRequest, TidelogError, UnknownTopic
from tidelog.model import NO_LEADER_EPOCH, TopicId
from tidelog.wire.v1 import fetch_pb2
from tidelog_broker.api.isolation import check_isolation
from tidelog_broker.partition.partition import Partition
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker

#: What a partition adds to an answer unless the client asks otherwise (max.partition.fetch.bytes).
PARTITION_BYTES_DEFAULT: Final = 1024 * 1024
#: More than this is worth an answer to everybody: beyond, an answer costs little by the byte, while
#: what a stream gathers is held.
GATHERED_BYTES_MAX: Final = 1024 * 1024


def check_partition_count(broker: Broker, count: int) -> None:
    """Refuses to read more partitions at once than a broker keeps state for."""
    if count > broker.limits.fetch_partitions_max:
        raise InvalidRequest(
            f"{count} partitions in one fetch are more than the"
            f" {broker.limits.fetch_partitions_max} that this broker takes"
        )


def answer_bytes_max(
    broker: Broker, options: fetch_pb2.FetchOptions, default: int, *, held_bytes: int = 0
) -> int:
    """How large one answer may grow; its first batch comes however large it is.

    `held_bytes` of it are there, and counted, already.
    """
    wanted = options.max_bytes if options.max_bytes > 0 else default
    room_bytes = broker.answers.room_bytes + held_bytes
    return min(wanted, broker.limits.fetch_bytes_max, max(room_bytes, 1))


def enough_bytes(options: fetch_pb2.FetchOptions, bytes_max: int) -> int:
    """What is worth an answer: what the client asks for, as far as an answer can hold it."""
    return max(1, min(options.min_bytes, GATHERED_BYTES_MAX, bytes_max))


def hold_until_sent(broker: Broker, response: fetch_pb2.FetchResponse) -> None:
    """Counts an answer until its call has ended: a client may be slow to take it, or never do.

    gRPC sends what a handler returns in the task that ran it.
    """
    task = asyncio.current_task()
    assert task is not None
    size = response.ByteSize()
    broker.answers.add(size)
    task.add_done_callback(lambda _: broker.answers.remove(size))


def known_epoch_of(item: fetch_pb2.FetchPartition) -> int | None:
    """The leader epoch that the reader knows, if it told one."""
    return item.leader_epoch if item.HasField("leader_epoch") else None


def end_offset_of(item: fetch_pb2.FetchPartition) -> int | None:
    """From where on the reader wants nothing, if it told so."""
    if not item.HasField("end_offset"):
        return None
    if item.end_offset <= item.fetch_offset:
        raise InvalidRequest(
            f"There is nothing between offset {item.fetch_offset} and the end {item.end_offset}"
        )
    return item.end_offset


def find_for_fetch(broker: Broker, caller: Caller, item: fetch_pb2.FetchPartition) -> Partition:
    """The partition a reader asks for."""
    return broker.replicas.find(
        item.topic, TopicId(item.topic_id), item.partition, caller.principal
    )


def fill_watermarks(answer: fetch_pb2.PartitionRecords, partition: Partition) -> None:
    """Tells the reader where the log stands."""
    high_watermark = partition.core.high_watermark
    answer.high_watermark = high_watermark
    answer.last_stable_offset = high_watermark  # no transactions, nothing is undecided
    answer.log_start_offset = partition.log.log_start


def wanted_bytes(item: fetch_pb2.FetchPartition) -> int:
    """How much of the partition the reader wants in one answer."""
    return item.max_bytes if item.max_bytes > 0 else PARTITION_BYTES_DEFAULT


def divergence_of(partition: Partition, item: fetch_pb2.FetchPartition) -> tuple[int, int] | None:
    """Where the reader's log and this one parted, as epoch and its end; None if they did not."""
    if not item.HasField("last_fetched_epoch") or item.last_fetched_epoch == NO_LEADER_EPOCH:
        return None
    return partition.divergence(item.fetch_offset, item.last_fetched_epoch)


def fill_divergence(
    answer: fetch_pb2.PartitionRecords, partition: Partition, item: fetch_pb2.FetchPartition
) -> bool:
    """Tells a reader that its log and this one parted, if they did."""
    divergence = divergence_of(partition, item)
    if divergence is None:
        return False
    answer.diverging_epoch.leader_epoch, answer.diverging_epoch.end_offset = divergence
    return True


class LongPoll:
    """One unary fetch: measures when a partition moves, and reads once there is enough."""

    def __init__(self, broker: Broker, caller: Caller, request: fetch_pb2.FetchRequest) -> None:
        self._broker = broker
        self._caller = caller
        self._request = request
        self._moved = asyncio.Event()
        self._waits_for: list[Partition] = []

    def on_commit(self) -> None:
        """A partition of this fetch has more to read."""
        self._moved.set()

    async def run(self) -> fetch_pb2.FetchResponse:
        """The answer, as late as the request allows."""
        options = self._request.options
        loop = asyncio.get_running_loop()
        deadline = loop.time() + options.max_wait_ms / 1000
        try:
            while True:
                self._moved.clear()
                if loop.time() >= deadline or self._is_worth_answering():
                    return self._read_all()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        await self._moved.wait()
        finally:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        for partition in self._waits_for:
            partition.forget_reader(self)
        self._waits_for.clear()

    # ------------------------------------------------------------------ waiting

    def _is_worth_answering(self) -> bool:
        """Whether there is enough, an error to tell, or nothing that could be added by waiting.

        Sizes are known without reading: batches are read once, for the answer.
        """
        self._stop_waiting()
        options = self._request.options
        bytes_max = answer_bytes_max(self._broker, options, self._broker.limits.fetch_bytes_max)
        enough = enough_bytes(options, bytes_max)
        there = 0
        may_grow = False
        for item in self._request.partitions:
            try:
                size, grows = self._measure(item)
            except TidelogError:
                return True
            wanted = wanted_bytes(item)
            there += min(size, wanted)
            if there >= enough or not grows:
                return True
            may_grow = may_grow or size < wanted
        return not may_grow

    def _measure(self, item: fetch_pb2.FetchPartition) -> tuple[int, bool]:
        """How much of the partition there is, and whether an answer that comes later has more."""
        end_offset = end_offset_of(item)
        partition = find_for_fetch(self._broker, self._caller, item)
        partition.check_readable(item.fetch_offset, known_epoch_of(item))
        if divergence_of(partition, item) is not None:
            return 0, False
        partition.call_on_commit(self)
        self._waits_for.append(partition)
        return partition.measure(item.fetch_offset, until=end_offset)

    # ------------------------------------------------------------------ answering

    def _read_all(self) -> fetch_pb2.FetchResponse:
        """What can be read now."""
        response = fetch_pb2.FetchResponse()
        limit = self._broker.limits.fetch_bytes_max
        left = answer_bytes_max(self._broker, self._request.options, limit)
        is_first = True
        for item in self._request.partitions:
            answer = response.partitions.add(
                topic=item.topic, topic_id=item.topic_id, partition=item.partition
            )
            answer.session = item.session
            try:
                self._read(item, answer, left, is_first=is_first)
            except TidelogError as error:
                answer.error.CopyFrom(to_wire(error))
                self._broker.add_leader_hint(
                    answer.leader, item.topic, item.topic_id, item.partition, error
                )
                continue
            left -= len(answer.records)
            is_first = is_first and not answer.records
        return response

    def _read(
        self,
        item: fetch_pb2.FetchPartition,
        answer: fetch_pb2.PartitionRecords,
        left: int,
        *,
        is_first: bool,
    ) -> None:
        end_offset = end_offset_of(item)
        partition = find_for_fetch(self._broker, self._caller, item)
        partition.check_readable(item.fetch_offset, known_epoch_of(item))
        fill_watermarks(answer, partition)
        if fill_divergence(answer, partition, item) or left <= 0:
            return
        answer.records, _ = partition.read(
            item.fetch_offset,
            min(wanted_bytes(item), left),
            known_epoch_of(item),
            until=end_offset,
            at_least_one=is_first,
        )
        partition.counters.bytes_out += len(answer.records)


async def fetch(
    broker: Broker, caller: Caller, request: fetch_pb2.FetchRequest
) -> fetch_pb2.FetchResponse:
    """The unary twin: one long poll over many partitions."""
    check_partition_count(broker, len(request.partitions))
    check_isolation(request.options.isolation_level)
    if request.options.max_wait_ms < 0 or request.options.min_bytes < 0:
        raise InvalidRequest("max_wait_ms and min_bytes of a fetch must not be negative")
    for item in request.partitions:
        if not item.topic and not item.topic_id:
            raise UnknownTopic("A partition of the fetch names neither topic nor topic id")
    response = await LongPoll(broker, caller, request).run()
    hold_until_sent(broker, response)
    return response
