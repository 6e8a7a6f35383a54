"""What becomes of records that were handed over: one verdict a batch, a light handle a record.

`accumulator` makes a `BatchDelivery` with every batch and a `Delivery` for every record; the
engine settles the batch once. Invariant: a batch is settled exactly once, and every handle of it
then tells the same story: acknowledged (a `Receipt`), refused, or unknown. Nothing is made for a
record before somebody asks: no future, no event, no receipt. Compiled by mypyc.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from copy import copy
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from tidelog.engine.bell import Bell
from tidelog.engine.time_limits import seconds
from tidelog.errors import ClientClosed, RequestTimedOut, TidelogError

if TYPE_CHECKING:
    from mypy_extensions import i64

logger: Final = logging.getLogger("tidelog.producer")

_NO_OFFSET: Final = -1


@mypyc_attr(acyclic=True)
class Receipt:
    """Where an acknowledged record stands.

    `offset` is None where nobody was asked for it: with `acks=0` the broker answers nothing, and
    whether the record was written is unknown by request.
    """

    __slots__ = ("offset", "partition", "timestamp", "topic")

    def __init__(self, topic: str, partition: int, offset: int | None, timestamp: int) -> None:
        self.topic: str = topic
        self.partition: int = partition
        self.offset: int | None = offset
        self.timestamp: int = timestamp

    def fields(self) -> tuple[str, int, int | None, int]:
        """The arguments that make this receipt again."""
        return self.topic, self.partition, self.offset, self.timestamp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Receipt) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __reduce__(self) -> tuple[Any, ...]:
        return Receipt, self.fields()

    def __repr__(self) -> str:
        return (
            f"Receipt(topic={self.topic!r}, partition={self.partition}, "
            f"offset={self.offset}, timestamp={self.timestamp})"
        )


class BatchDelivery:
    """The verdict that all records of a batch share, and who waits for it."""

    __slots__ = (
        "_callbacks",
        "append_time_ms",
        "base_offset",
        "count",
        "error",
        "hurry",
        "is_asked",
        "is_settled",
        "partition",
        "topic",
    )

    def __init__(self, topic: str, partition: i64, hurry: Callable[[bool], None]) -> None:
        self.topic: str = topic
        self.partition: i64 = partition
        #: Records that the batch was settled with.
        self.count: i64 = 0
        self.base_offset: i64 = _NO_OFFSET
        self.append_time_ms: i64 = -1
        self.error: TidelogError | None = None
        self.is_settled: bool = False
        #: Whether somebody has learned, or will learn, what became of the batch.
        self.is_asked: bool = False
        #: Tells the engine that somebody waits: no need to linger for more records. Of one who
        #: blocks a thread to wait (True) it refuses the thread that would bring the verdict.
        self.hurry: Callable[[bool], None] = hurry
        #: No lock guards them: who waits for a verdict may be interrupted anywhere, by a handler
        #: that waits for whoever settles. What is taken from the list is called by who took it.
        self._callbacks: list[Callable[[], None]] = []

    def settle(self, base_offset: i64, append_time_ms: i64, error: TidelogError | None) -> None:
        """The verdict is known; those who wait are told. Only the first call counts.

        For one thread alone, the engine's.
        """
        if self.is_settled:
            return
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.error = error
        self.is_settled = True
        callbacks = self._callbacks
        callbacks.reverse()
        while callbacks:
            try:
                callback = callbacks.pop()
            except IndexError:  # who came late has taken the last one back
                return
            try:
                callback()
            except BaseException:
                # Others wait, and whoever settles has more batches to settle.
                logger.exception("Somebody could not be told of a verdict: %r", callback)

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Calls back once: at the verdict, or now when it is known."""
        if not self.is_settled:
            self._callbacks.append(callback)
            if not self.is_settled:
                return
            # The verdict came in between: it is told from here unless it was told already.
            try:
                self._callbacks.remove(callback)
            except ValueError:
                return
        callback()

    def wait(self, limit_s: float | None, begun_at: float | None = None) -> None:
        """Blocks until the verdict is known; RequestTimedOut when the limit passes first.

        The limit counts from `begun_at` on, where somebody has waited for other batches since.
        """
        if self.is_settled:
            return
        settled = Bell()
        ring = settled.ring
        self._hurry_up(blocks=True)
        self.when_settled(ring)
        left_s = limit_s
        if limit_s is not None and begun_at is not None:
            left_s = max(begun_at + limit_s - monotonic(), 0.0)
        if not settled.wait(left_s):
            with suppress(ValueError):  # it has come
                self._callbacks.remove(ring)
            raise RequestTimedOut(
                f"No verdict on the record for {self.topic}-{self.partition} within {limit_s} s",
                hint="It is still under way; ask again, or wait for delivery_timeout_ms",
            )

    def _hurry_up(self, *, blocks: bool) -> None:
        try:
            self.hurry(blocks)
        except ClientClosed:
            if not self.is_settled:  # else closing brought the verdict meanwhile
                raise

    def wait_async(self) -> Generator[Any, None, None]:
        """Waits for the verdict on the running event loop, whichever loop or thread settles."""
        if self.is_settled:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def release() -> None:
            if not future.done():
                future.set_result(None)

        def tell() -> None:
            if asyncio._get_running_loop() is loop:
                release()
            else:
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(release)

        self.when_settled(tell)
        self._hurry_up(blocks=False)
        yield from future.__await__()

    def receipt(self, index: i64, timestamp_ms: i64) -> Receipt:
        """The receipt of one record of a batch that was acknowledged."""
        offset: int | None = None
        if self.base_offset >= 0:
            offset = self.base_offset + index
        if self.append_time_ms >= 0:
            timestamp_ms = self.append_time_ms
        return Receipt(self.topic, self.partition, offset, timestamp_ms)

    def failure(self) -> TidelogError | None:
        """The error, fresh for each who asks: a raised one collects the frames it passes."""
        self.is_asked = True
        return None if self.error is None else copy(self.error)


# A handle cannot be part of a lasting cycle (callbacks are dropped at the verdict), so the
# collector need not walk the hundred thousand handles that a program may keep.
@mypyc_attr(acyclic=True)
class Delivery:
    """A record under way. Costs next to nothing until something is asked of it.

    `result()` waits in a thread, `await delivery` on an event loop; both return the `Receipt` or
    raise what became of the record.
    """

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: BatchDelivery, index: i64, timestamp_ms: i64) -> None:
        self._batch: BatchDelivery = batch
        self._index: i64 = index
        self._timestamp_ms: i64 = timestamp_ms

    @property
    def topic(self) -> str:
        """The topic that the record goes to."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """The partition that the record goes to; -1 while its topic is still being asked for."""
        return self._batch.partition

    def done(self) -> bool:
        """Whether the verdict is known."""
        return self._batch.is_settled

    def result(self, timeout: float | timedelta | None = None) -> Receipt:
        """The receipt; waits for it, at most `timeout` seconds. Not for use on an event loop.

        Raises a `Refused` error when the record was certainly not written, `OutcomeUnknown` when
        it may have been, `RequestTimedOut` when the limit passed and the record is under way yet.
        """
        self._batch.wait(seconds(timeout))
        return self._outcome()

    def exception(self, timeout: float | timedelta | None = None) -> TidelogError | None:
        """What `result` would raise of the record, returned; None when it was acknowledged."""
        self._batch.wait(seconds(timeout))
        return self._batch.failure()

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Calls `callback(self)` once the verdict is known, from the thread that learns it."""
        self._batch.is_asked = True
        self._batch.when_settled(lambda: self._call(callback))

    def __await__(self) -> Generator[Any, None, Receipt]:
        yield from self._batch.wait_async()
        return self._outcome()

    def _call(self, callback: Callable[[Delivery], object]) -> None:
        try:
            callback(self)
        except (KeyboardInterrupt, SystemExit) as ending:
            _pass_on(ending, callback)
        except BaseException:
            # The verdicts of others must not depend on it, nor the thread that tells them.
            logger.exception("A delivery callback failed: %r", callback)

    def _outcome(self) -> Receipt:
        batch = self._batch
        error = batch.failure()
        if error is not None:
            raise error
        return batch.receipt(self._index, self._timestamp_ms)

    def __repr__(self) -> str:
        batch = self._batch
        state = "under way"
        if batch.is_settled:
            state = "acknowledged" if batch.error is None else type(batch.error).__name__
        return f"<Delivery to {batch.topic}-{batch.partition}: {state}>"


class DeliveryPart:
    """A run of records of one call that went into the same batch."""

    __slots__ = ("batch", "count", "first", "start")

    def __init__(self, batch: BatchDelivery, first: i64, start: i64, count: i64) -> None:
        self.batch: BatchDelivery = batch
        #: Place of the run in its batch, and in the call.
        self.first: i64 = first
        self.start: i64 = start
        self.count: i64 = count


class Deliveries:
    """All records of one `send_many` or `send_columns`, under way: one handle, a verdict each."""

    __slots__ = ("_count", "_parts", "_timestamp_ms", "_timestamps", "order")

    def __init__(self, timestamp_ms: i64, timestamps: Any = None) -> None:
        #: Which records of the call were taken, run by run, where not in their order.
        self.order: list[Any] = []
        self._parts: list[DeliveryPart] = []
        self._count: i64 = 0
        self._timestamp_ms: i64 = timestamp_ms
        self._timestamps: Any = timestamps

    def add(self, batch: BatchDelivery, first: i64, count: i64) -> None:
        """The next `count` records are in `batch` from place `first` on."""
        if self._parts:
            last = self._parts[-1]
            if last.batch is batch and last.first + last.count == first:
                last.count += count
                self._count += count
                return
        self._parts.append(DeliveryPart(batch, first, self._count, count))
        self._count += count

    def __len__(self) -> int:
        return self._count

    def indexes(self) -> Sequence[int]:
        """Which records of the call these are, in the order of the verdicts.

        All of them, but in the `taken` of an error: rows are taken partition by partition.
        """
        order = self._order()
        return sorted(order) if order else range(self._count)

    def done(self) -> bool:
        """Whether all verdicts are known."""
        return all([part.batch.is_settled for part in self._parts])

    def verdicts(self, timeout: float | timedelta | None = None) -> list[Receipt | TidelogError]:
        """The receipt or the error of each record, in order; waits in this thread."""
        self._wait(timeout)
        return self._verdicts()

    def confirm(self, timeout: float | timedelta | None = None) -> None:
        """Waits until every record is acknowledged; raises the first error if one is not.

        For millions of records: unlike `result` it makes no receipt for each.
        """
        self._wait(timeout)
        for part in self._parts:
            error = part.batch.failure()
            if error is not None:
                raise error

    def _wait(self, timeout: float | timedelta | None) -> None:
        """Until all have their verdicts, within one limit for all of them."""
        limit_s, begun_at = seconds(timeout), monotonic()
        for part in self._parts:
            part.batch.wait(limit_s, begun_at)

    def result(self, timeout: float | timedelta | None = None) -> list[Receipt]:
        """The receipts, in order; raises the first error if any record has none."""
        return _receipts(self.verdicts(timeout))

    def __await__(self) -> Generator[Any, None, list[Receipt]]:
        for part in self._parts:
            yield from part.batch.wait_async()
        return _receipts(self._verdicts())

    def _verdicts(self) -> list[Receipt | TidelogError]:
        found: list[Receipt | TidelogError] = []
        order = self._order()
        for part in self._parts:
            error = part.batch.failure()
            if error is not None:
                found.extend([error] * part.count)
                continue
            for index in range(part.count):
                timestamp: i64 = self._timestamp_ms
                if self._timestamps is not None:
                    place: i64 = part.start + index
                    if order:
                        place = order[place]
                    timestamp = int(self._timestamps[place])
                found.append(part.batch.receipt(part.first + index, timestamp))
        if order:
            return [found[place] for place in _by_index(order)]
        return found

    def _order(self) -> list[int]:
        """Which record of the call each one is; empty: they are in its order.

        A call that failed on its way had begun a run, and not taken all of it.
        """
        order: list[int] = [int(index) for run in self.order for index in run]
        return order[: self._count]

    def __repr__(self) -> str:
        return f"<Deliveries of {self._count} records: {'done' if self.done() else 'under way'}>"


def _pass_on(ending: BaseException, callback: object) -> None:
    """What a signal's handler raises in a callback ends the program, as it would anywhere else.

    Once the others were told, that is. In a thread that is not the main one it ends nothing.
    """
    loop = asyncio._get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        logger.error("A delivery callback failed: %r", callback, exc_info=ending)
    elif loop is None:
        raise ending
    else:
        loop.call_soon(_raise, ending)


def _raise(ending: BaseException) -> None:
    raise ending


def _by_index(order: list[int]) -> list[int]:
    """The places in the order of what stands there."""
    return sorted(range(len(order)), key=order.__getitem__)


def _receipts(verdicts: list[Receipt | TidelogError]) -> list[Receipt]:
    receipts: list[Receipt] = []
    for verdict in verdicts:
        if isinstance(verdict, TidelogError):
            raise verdict
        receipts.append(verdict)
    return receipts
