"""The consumer for ordinary code; `AsyncConsumer` is the same with `await`.

    with Consumer("localhost:9094") as consumer:
        consumer.assign("orders", start="earliest")
        for record in consumer:
            print(record)

Fetching runs on a loop thread and goes on while the caller works; decoding happens in the caller's
thread. Invariant: records never cross a thread one by one: what crosses is what was fetched.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, TypeVar, Unpack, overload

from tidelog.channel import ChannelFactory
from tidelog.consumer.base import (
    DEFAULT_ROWS,
    ConsumerBase,
    Deserializer,
    Timeout,
    at_least_one,
    known_columns,
)
from tidelog.consumer.batch import FetchedBatch
from tidelog.consumer.decoding import DEFAULT_COLUMNS, UnreadableBatch
from tidelog.consumer.engine import Assignable, TopicName
from tidelog.consumer.record_types import ConsumerRecord, Key, Value
from tidelog.consumer.settings import ConsumerKeywords
from tidelog.engine.bell import Bell
from tidelog.engine.closing import Closing
from tidelog.engine.cluster import DEFAULT_BOOTSTRAP
from tidelog.engine.loop_thread import LoopThread
from tidelog.engine.offsets import Found
from tidelog.engine.places import Start
from tidelog.engine.time_limits import seconds
from tidelog.errors import LogCorrupt
from tidelog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

Result = TypeVar("Result")

#: What has been handed out is told to the loop thread in portions of this part of the buffer.
PORTIONS: Final = 16


class Consumer(ConsumerBase[Key, Value], Closing):
    """Reads partitions from given places on; for one thread at a time.

    `key` and `value` turn bytes into what the application works with, when a record is asked for
    them. The settings are Kafka's in snake_case: see `ConsumerSettings`.
    """

    @overload
    def __init__(
        self: Consumer[bytes, bytes],
        bootstrap: str | list[str] | tuple[str, ...] = ...,
        *,
        key: None = None,
        value: None = None,
        group: str | None = None,
        channel_factory: ChannelFactory | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Key, bytes],
        bootstrap: str | list[str] | tuple[str, ...] = ...,
        *,
        key: Deserializer[Key],
        value: None = None,
        group: str | None = None,
        channel_factory: ChannelFactory | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes, Value],
        bootstrap: str | list[str] | tuple[str, ...] = ...,
        *,
        key: None = None,
        value: Deserializer[Value],
        group: str | None = None,
        channel_factory: ChannelFactory | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Key, Value],
        bootstrap: str | list[str] | tuple[str, ...] = ...,
        *,
        key: Deserializer[Key],
        value: Deserializer[Value],
        group: str | None = None,
        channel_factory: ChannelFactory | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None: ...
    def __init__(
        self,
        bootstrap: str | list[str] | tuple[str, ...] = DEFAULT_BOOTSTRAP,
        *,
        key: Any = None,
        value: Any = None,
        group: str | None = None,
        channel_factory: ChannelFactory | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None:
        super().__init__(bootstrap, key=key, value=value, group=group, settings=settings)
        self._arrived = Bell()
        self._handed_out: dict[str, int] = {}
        self._portion_bytes = self._settings.prefetch_bytes // PORTIONS
        self._thread = LoopThread(self._settings.client_id)
        try:
            self._thread.call(self._open_on_loop(channel_factory))
        except BaseException:
            self._thread.stop()
            raise
        # Runs also when the consumer was forgotten, and when the interpreter ends.
        self._end = weakref.finalize(self, self._thread.finish, self._engine.close)

    async def _open_on_loop(self, channel_factory: ChannelFactory | None) -> None:
        self._open(channel_factory, self._arrived.ring, self._give_back)

    def _give_back(self, address: str, size_bytes: int) -> None:
        """Notes what was handed out; tells the loop thread when it is worth the call."""
        waiting = self._handed_out.get(address, 0) + size_bytes
        if waiting < self._portion_bytes:
            self._handed_out[address] = waiting
            return
        self._handed_out[address] = 0
        with suppress(RuntimeError):  # the loop was closed meanwhile: the next call is told
            self._thread.loop.call_soon_threadsafe(self._engine.fetcher.give_back, address, waiting)

    def close(self) -> None:
        """Ends streams, connections and the thread; a reader that waits raises `ClientClosed`."""
        if not self._closed:
            self._closed = True
            self._reading.forget()
            self._end()
            self._arrived.ring()

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs work of the engine, once what was read is settled."""
        try:
            self._check()
            self._reading.settle()
        except BaseException:
            work.close()
            raise
        try:
            return self._thread.call(work)
        finally:
            self._reading.drop_void()

    def _check(self) -> None:
        super()._check()
        self._thread.check()

    # ------------------------------------------------------------------ what to read

    def assign(
        self,
        topics: Assignable[TopicName],
        *,
        start: Start | None = None,
        partitions: Iterable[int] | None = None,
        until: Start | None = None,
    ) -> None:
        """Reads from these places on, instead of what was read before.

        `topics` is a name, several names, or a mapping of names or `TopicPartition`s to places.
        A place is "earliest", "latest", an offset, a `datetime`, a `timedelta` back from now, or
        a mapping of partition numbers to such. `until` is the place where reading ends ("end":
        where the logs end now); without it reading goes on for ever.
        """
        self._call(self._engine.assign(topics, start, partitions, until))

    def unassign(self) -> None:
        """Reads nothing any more."""
        self._call(self._engine.unassign())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Goes on at an offset."""
        self._call(self._engine.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Goes on at the beginning of these partitions, of all without any."""
        self._call(self._engine.seek_to(partitions, "earliest"))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Goes on at the end of these partitions, of all without any."""
        self._call(self._engine.seek_to(partitions, "latest"))

    def seek_to_time(self, time: datetime | timedelta, *partitions: TopicPartition) -> None:
        """Goes on at the first record that is as late as a time, or as that long ago."""
        self._call(self._engine.seek_to(partitions, time))

    def skip(self, error: UnreadableBatch | LogCorrupt) -> None:
        """Goes on behind a batch or a damaged range that can't be read."""
        self.seek(*self._place_after(error))

    def pause(self, *partitions: TopicPartition) -> None:
        """Hands out nothing of these partitions, of all without any, until `resume`."""
        self._call(self._engine.pause(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Hands out again, from where `pause` stopped."""
        self._call(self._engine.resume(partitions))

    # ------------------------------------------------------------------ reading

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        return self.records()

    def records(self, *, timeout: Timeout = None) -> Iterator[ConsumerRecord[Key, Value]]:
        """Every record; ends where `until` says, or when none comes for `timeout` seconds."""
        return chain.from_iterable(self._record_iterators(seconds(timeout)))

    def _record_iterators(
        self, timeout_s: float | None
    ) -> Iterator[Iterator[ConsumerRecord[Key, Value]]]:
        while True:
            self._check()
            records = self._reading.next_records()
            if records is not None:
                yield records
            elif not self._wait(_deadline(timeout_s)):
                return

    def batches(self, *, timeout: Timeout = None) -> Iterator[FetchedBatch[Key, Value]]:
        """What was fetched, a batch for each fetch and partition; ends as `records` does."""
        timeout_s = seconds(timeout)
        while True:
            self._check()
            batch = self._reading.next_batch()
            if batch is not None:
                yield batch
            elif not self._wait(_deadline(timeout_s)):
                return

    def poll(
        self, *, max_records: int | None = None, timeout: Timeout = None
    ) -> list[ConsumerRecord[Key, Value]]:
        """The next records, as soon as there are any; none at the end or after the timeout."""
        limit = self._settings.max_poll_records
        if max_records is not None:
            limit = at_least_one("max_records", max_records)
        deadline = _deadline(seconds(timeout))
        while True:
            self._check()
            taken = self._reading.take(limit)
            if taken or not self._wait(deadline):
                return taken

    def read_arrow(
        self,
        *,
        max_rows: int = DEFAULT_ROWS,
        timeout: Timeout = None,
        columns: Sequence[str] = DEFAULT_COLUMNS,
    ) -> Any:
        """The next records as a `pyarrow.Table`, as soon as there are any.

        Up to `max_rows` rows of some 4 MiB: what is fetched meanwhile is for the next call. It has
        no rows at the end or after the timeout. Needs NumPy and pyarrow.
        """
        names = known_columns(columns)
        at_least_one("max_rows", max_rows)
        deadline = _deadline(seconds(timeout))
        while True:
            self._check()
            taken = self._reading.take_columns(max_rows, names)
            if taken or not self._wait(deadline):
                return self._decoding.table(taken, names)

    def _wait(self, deadline: float | None) -> bool:
        """Waits for something to hand out; False at the end, or at the deadline."""
        self._arrived.silence()
        if self._engine.deliveries:
            return True
        if not self._may_wait():
            return False
        return self._arrived.wait(None if deadline is None else deadline - time.monotonic())

    # ------------------------------------------------------------------ questions

    def lag(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """How many offsets each position is behind the end of its log."""
        self._check()
        return self._call(self._engine.lag(self._positions_of(partitions)))

    def beginning_offsets(self, *partitions: TopicPartition | str) -> dict[TopicPartition, int]:
        """Where these logs begin; a topic's name means all its partitions."""
        return self._call(self._engine.offsets(partitions, EARLIEST_TIMESTAMP))

    def end_offsets(self, *partitions: TopicPartition | str) -> dict[TopicPartition, int]:
        """The offsets that the next records of these logs get."""
        return self._call(self._engine.offsets(partitions, LATEST_TIMESTAMP))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | timedelta | int]
    ) -> Found:
        """The first record at or after each time (also milliseconds); None where none is."""
        return self._call(self._engine.offsets_for_times(times))


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s
