"""The consumer for asyncio; `Consumer` is the same without `await`.

    async with AsyncConsumer("localhost:9094") as consumer:
        await consumer.assign("orders", start="earliest")
        async for record in consumer:
            print(record)

Invariant: nothing here blocks the event loop for longer than some records take to decode, and a
reader that always finds something still lets the others run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Unpack, overload

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
from tidelog.engine.closing import AsyncClosing
from tidelog.engine.cluster import DEFAULT_BOOTSTRAP
from tidelog.engine.offsets import Found
from tidelog.engine.one_loop import OneLoop
from tidelog.engine.places import Start
from tidelog.engine.time_limits import seconds
from tidelog.errors import LogCorrupt
from tidelog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

#: A reader that never has to wait gives way after so many slices of records.
SLICES_IN_A_ROW: Final = 8


class AsyncConsumer(ConsumerBase[Key, Value], AsyncClosing):
    """Reads partitions from given places on; for one task at a time.

    `key` and `value` turn bytes into what the application works with, when a record is asked for
    them. The settings are Kafka's in snake_case: see `ConsumerSettings`.
    """

    @overload
    def __init__(
        self: AsyncConsumer[bytes, bytes],
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
        self: AsyncConsumer[Key, bytes],
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
        self: AsyncConsumer[bytes, Value],
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
        self: AsyncConsumer[Key, Value],
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
        self._arrived = asyncio.Event()
        self._one_loop = OneLoop("consumer")
        self._open(channel_factory, self._arrived.set, None)

    async def close(self) -> None:
        """Ends streams and connections; a reader that waits raises `ClientClosed`."""
        if not self._closed:
            self._one_loop.check()
            self._closed = True
            self._reading.forget()
            self._arrived.set()
            await self._engine.close()

    def _check(self) -> None:
        super()._check()
        self._one_loop.check()

    # ------------------------------------------------------------------ what to read

    async def assign(
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
        await self._change(self._engine.assign(topics, start, partitions, until))

    async def unassign(self) -> None:
        """Reads nothing any more."""
        await self._change(self._engine.unassign())

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Goes on at an offset."""
        await self._change(self._engine.seek(partition, offset))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Goes on at the beginning of these partitions, of all without any."""
        await self._change(self._engine.seek_to(partitions, "earliest"))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Goes on at the end of these partitions, of all without any."""
        await self._change(self._engine.seek_to(partitions, "latest"))

    async def seek_to_time(self, time: datetime | timedelta, *partitions: TopicPartition) -> None:
        """Goes on at the first record that is as late as a time, or as that long ago."""
        await self._change(self._engine.seek_to(partitions, time))

    async def skip(self, error: UnreadableBatch | LogCorrupt) -> None:
        """Goes on behind a batch or a damaged range that can't be read."""
        await self.seek(*self._place_after(error))

    async def pause(self, *partitions: TopicPartition) -> None:
        """Hands out nothing of these partitions, of all without any, until `resume`."""
        await self._change(self._engine.pause(partitions))

    async def resume(self, *partitions: TopicPartition) -> None:
        """Hands out again, from where `pause` stopped."""
        await self._change(self._engine.resume(partitions))

    async def _change(self, work: Coroutine[Any, Any, None]) -> None:
        """Changes what is read, once what was read is settled."""
        try:
            self._check()
            self._reading.settle()
        except BaseException:
            work.close()
            raise
        try:
            await work
        finally:
            self._reading.drop_void()

    # ------------------------------------------------------------------ reading

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Key, Value]]:
        return self.records()

    async def records(
        self,
        *,
        timeout: Timeout = None,  # noqa: ASYNC109 - its end is no error here
    ) -> AsyncIterator[ConsumerRecord[Key, Value]]:
        """Every record; ends where `until` says, or when none comes for `timeout` seconds."""
        in_a_row = 0
        while True:
            self._check()
            records = self._reading.next_records()
            if records is None:
                if not await self._wait(self._deadline(timeout)):
                    return
                in_a_row = 0
                continue
            for record in records:
                yield record
            in_a_row += 1
            if in_a_row >= SLICES_IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)

    async def batches(
        self,
        *,
        timeout: Timeout = None,  # noqa: ASYNC109 - its end is no error here
    ) -> AsyncIterator[FetchedBatch[Key, Value]]:
        """What was fetched, a batch for each fetch and partition; ends as `records` does."""
        while True:
            self._check()
            batch = self._reading.next_batch()
            if batch is not None:
                yield batch
                await asyncio.sleep(0)
            elif not await self._wait(self._deadline(timeout)):
                return

    async def poll(
        self,
        *,
        max_records: int | None = None,
        timeout: Timeout = None,  # noqa: ASYNC109 - its end is no error here
    ) -> list[ConsumerRecord[Key, Value]]:
        """The next records, as soon as there are any; none at the end or after the timeout."""
        limit = self._settings.max_poll_records
        if max_records is not None:
            limit = at_least_one("max_records", max_records)
        deadline = self._deadline(timeout)
        while True:
            self._check()
            taken = self._reading.take(limit)
            if taken or not await self._wait(deadline):
                return taken

    async def read_arrow(
        self,
        *,
        max_rows: int = DEFAULT_ROWS,
        timeout: Timeout = None,  # noqa: ASYNC109 - its end is no error here
        columns: Sequence[str] = DEFAULT_COLUMNS,
    ) -> Any:
        """The next records as a `pyarrow.Table`, as soon as there are any.

        Up to `max_rows` rows of some 4 MiB: what is fetched meanwhile is for the next call. It has
        no rows at the end or after the timeout. Needs NumPy and pyarrow.
        """
        names = known_columns(columns)
        at_least_one("max_rows", max_rows)
        deadline = self._deadline(timeout)
        while True:
            self._check()
            taken = self._reading.take_columns(max_rows, names)
            if taken or not await self._wait(deadline):
                return self._decoding.table(taken, names)

    @staticmethod
    def _deadline(timeout: Timeout) -> float | None:
        limit_s = seconds(timeout)
        return None if limit_s is None else asyncio.get_running_loop().time() + limit_s

    async def _wait(self, deadline: float | None) -> bool:
        """Waits for something to hand out; False at the end, or at the deadline."""
        self._arrived.clear()
        if self._engine.deliveries:
            return True
        if not self._may_wait():
            return False
        if deadline is None:
            await self._arrived.wait()
            return True
        try:
            async with asyncio.timeout_at(deadline):
                await self._arrived.wait()
        except TimeoutError:
            return bool(self._engine.deliveries)
        return True

    # ------------------------------------------------------------------ questions

    async def lag(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """How many offsets each position is behind the end of its log."""
        self._check()
        return await self._engine.lag(self._positions_of(partitions))

    async def beginning_offsets(
        self, *partitions: TopicPartition | str
    ) -> dict[TopicPartition, int]:
        """Where these logs begin; a topic's name means all its partitions."""
        self._check()
        return await self._engine.offsets(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, *partitions: TopicPartition | str) -> dict[TopicPartition, int]:
        """The offsets that the next records of these logs get."""
        self._check()
        return await self._engine.offsets(partitions, LATEST_TIMESTAMP)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | timedelta | int]
    ) -> Found:
        """The first record at or after each time (also milliseconds); None where none is."""
        self._check()
        return await self._engine.offsets_for_times(times)
