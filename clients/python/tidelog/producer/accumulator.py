"""Where records wait to become batches: the first stop of everything that is sent.

User code appends here, in its own thread or on its own loop; the engine takes what is full or has
waited long enough. Invariants: records of one partition leave in the order in which they came, and
`used_bytes` covers every record from its hand-over until its verdict. Compiled by mypyc: this is
the path that every record takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from threading import Condition, RLock
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidPartitions, InvalidRequest, TidelogError
from tidelog.producer.delivery import BatchDelivery, Deliveries, Delivery
from tidelog.producer.partitioner import IN_TURN, STICKY
from tidelog.records.batch import NO_PRODUCER, LooseBatch
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression

if TYPE_CHECKING:
    from mypy_extensions import i64
    from typing_extensions import Buffer

#: What stands for the builder of a batch that was built: its pieces are free.
_SPENT: Final = BatchBuilder(0)

Headers = Sequence[tuple[str, bytes | None]]


class OpenBatch:
    """A batch that is being filled, or is sealed and waits for the engine."""

    __slots__ = (
        "builder",
        "delivery",
        "encoded",
        "loose",
        "opened_at",
        "producer",
        "size",
        "slot",
        "timeout_s",
    )

    def __init__(
        self, slot: PartitionSlot, limit_bytes: i64, opened_at: float, hurry: Callable[[bool], None]
    ) -> None:
        self.slot: PartitionSlot = slot
        self.builder: BatchBuilder = BatchBuilder(limit_bytes)
        self.delivery: BatchDelivery = BatchDelivery(slot.topic, slot.partition, hurry)
        self.opened_at: float = opened_at
        #: Below zero: as long as the producer's delivery timeout says.
        self.timeout_s: float = -1.0
        #: The records without a header: of columns from the beginning, else once they are built.
        self.loose: LooseBatch | None = None
        #: The batch for the wire, in pieces, and the id, epoch and sequence that it carries.
        self.encoded: Sequence[Buffer] = ()
        self.producer: tuple[int, int, int] = NO_PRODUCER
        self.size: i64 = 0

    def bytes_held(self) -> int:
        """What the batch takes of the buffer until its verdict."""
        return self.builder.size + self.size

    def encode(
        self, compression: Compression, level: int | None, producer: tuple[int, int, int]
    ) -> Sequence[Buffer]:
        """The batch for the wire under id, epoch and sequence; its records are built once."""
        loose = self.loose
        if loose is None:
            loose = self.loose = self.builder.loose(compression, level)
            self.builder = _SPENT
        if not self.encoded or self.producer != producer:
            self.encoded = loose.sealed(producer)
            self.producer = producer
        return self.encoded


class PartitionSlot:
    """One partition's open batch."""

    __slots__ = ("open", "partition", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, partition: i64) -> None:
        self.topic: str = topic
        self.topic_id: bytes = topic_id
        self.partition: i64 = partition
        self.open: OpenBatch | None = None


class TopicRoute:
    """Where the records of one topic go: its partitions, and whose turn it is without a key."""

    __slots__ = ("slots", "topic", "topic_id", "turn")

    def __init__(self, topic: str, topic_id: bytes, partition_count: i64, turn: i64) -> None:
        self.topic: str = topic
        self.topic_id: bytes = topic_id
        self.slots: list[PartitionSlot] = []
        self.turn: i64 = turn
        self.grow(partition_count)

    def grow(self, partition_count: i64) -> None:
        """The topic has this many partitions now; there never are fewer."""
        for number in range(len(self.slots), partition_count):
            self.slots.append(PartitionSlot(self.topic, self.topic_id, number))
        self.turn %= len(self.slots)


class Accumulator:
    """See the module. Not `is_shared` is one where one event loop does everything."""

    __slots__ = (
        "_acquire",
        "_batch_bytes",
        "_clock",
        "_ended",
        "_hurry",
        "_is_barred",
        "_lock_owner",
        "_release",
        "_wake",
        "_wakes",
        "_woken",
        "fresh",
        "is_shared",
        "limit_bytes",
        "refusal",
        "routes",
        "sealed",
        "used_bytes",
    )

    def __init__(
        self,
        *,
        batch_bytes: int,
        limit_bytes: int,
        clock: Callable[[], float],
        wake: Callable[[], None],
        hurry: Callable[[bool], None],
        is_shared: bool,
    ) -> None:
        self._batch_bytes: i64 = batch_bytes
        self._clock: Callable[[], float] = clock
        self._wake: Callable[[], None] = wake
        self._hurry: Callable[[bool], None] = hurry
        #: Whether the engine is to be told of what was added, and whether it was since `take`.
        self._wakes: bool = False
        self._woken: bool = False
        self.is_shared: bool = is_shared
        lock = RLock()
        self._acquire: Callable[[], bool] = lock.acquire
        self._release: Callable[[], None] = lock.release
        self._lock_owner: Condition = Condition(lock)
        #: Nothing may be added: something is just being added, or nothing ever will be.
        self._is_barred: bool = False
        self.routes: dict[str, TopicRoute] = {}
        #: Sealed batches in order, and partitions that began a batch, since the last `take`.
        self.sealed: list[OpenBatch] = []
        self.fresh: list[PartitionSlot] = []
        self.used_bytes: i64 = 0
        self.limit_bytes: i64 = limit_bytes
        #: Why nothing is taken any more: closed, forked, fenced. Looked at before a record is
        #: read; a record that is on its way here then may still come.
        self.refusal: TidelogError | None = None
        #: Set with the last `take`: nothing comes any more.
        self._ended: TidelogError | None = None

    def has_room(self) -> bool:
        """Whether a record may be added; one may overshoot, so that a large one ever fits."""
        return self.used_bytes < self.limit_bytes

    # ------------------------------------------------------------------ adding

    def add(  # noqa: PLR0917 - keywords would cost more than the record
        self,
        route: TopicRoute,
        partition: i64,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: i64,
    ) -> Delivery:
        """Appends a record to its partition's batch; STICKY or IN_TURN let us choose which."""
        self._begin_adding()
        try:
            slot = _slot(route, partition)
            while True:
                batch = slot.open
                if batch is None:
                    batch = self._begin(slot)
                builder = batch.builder
                before = builder.size
                if builder.append(value, key, headers, timestamp_ms):
                    break
                self._seal(slot, batch)
                self._wake_later()
                _move_on(route, slot)
                if partition == STICKY:
                    slot = _slot(route, partition)
            self.used_bytes += builder.size - before
            return Delivery(batch.delivery, builder.count - 1, timestamp_ms)
        finally:
            self._end_adding()

    def add_alone(  # noqa: PLR0917 - as `add`
        self,
        route: TopicRoute,
        partition: i64,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: i64,
        timeout_s: float,
    ) -> Delivery:
        """Appends a record that has a deadline of its own: it becomes a batch of its own."""
        self._begin_adding()
        try:
            slot = _slot(route, partition)
            before = slot.open
            if before is not None:
                self._seal(slot, before)
            batch = self._begin(slot)
            batch.timeout_s = timeout_s
            size = batch.builder.size
            batch.builder.append(value, key, headers, timestamp_ms)
            self.used_bytes += batch.builder.size - size
            self._seal(slot, batch)
            self._wake_later()
            return Delivery(batch.delivery, 0, timestamp_ms)
        finally:
            self._end_adding()

    def add_many(  # noqa: PLR0917 - as `add`
        self,
        route: TopicRoute,
        partition: i64,
        values: Sequence[bytes | None],
        start: i64,
        timestamp_ms: int,
        timestamps: Sequence[int] | None,
        deliveries: Deliveries,
    ) -> int:
        """Appends values from `start` on to one batch after the other; returns how many.

        Ends at the latest when the buffer is full, and at a batch's end for records without a
        partition, whose turn moves on there.
        """
        self._begin_adding()
        try:
            added: i64 = 0
            count: i64 = len(values)
            while start + added < count:
                slot = _slot(route, partition)
                batch = slot.open
                if batch is None:
                    if added and self.used_bytes >= self.limit_bytes:
                        break
                    batch = self._begin(slot)
                builder = batch.builder
                first = builder.count
                size = builder.size
                taken: i64 = builder.extend(
                    values, timestamp_ms, timestamps=timestamps, start=start + added
                )
                self.used_bytes += builder.size - size
                if taken:
                    deliveries.add(batch.delivery, first, taken)
                    added += taken
                if start + added < count:
                    self._seal(slot, batch)
                    self._wake_later()
                    _move_on(route, slot)
            return added
        finally:
            self._end_adding()

    def add_batch(
        self, route: TopicRoute, partition: i64, loose: LooseBatch, deliveries: Deliveries
    ) -> None:
        """Queues a batch whose records are encoded already, behind what its partition holds."""
        self._begin_adding()
        try:
            slot = _slot(route, partition)
            before = slot.open
            if before is not None:
                self._seal(slot, before)
            batch = self._begin(slot)
            batch.loose = loose
            batch.size = loose.size
            batch.delivery.count = loose.record_count
            self.used_bytes += batch.size
            self._seal(slot, batch)
            self._wake_later()
            _move_on(route, slot)
            deliveries.add(batch.delivery, 0, loose.record_count)
        finally:
            self._end_adding()

    def is_adding_here(self) -> bool:
        """Whether the thread that asks is in the midst of an `add` itself.

        So it is where a signal's handler, or a finalizer, has interrupted it. Nobody must wait
        for the engine then, which waits for the lock.
        """
        try:
            self._lock_owner.notify()
        except RuntimeError:  # it is not ours
            return False
        if self._open_adds():
            return True
        self._tidy_up()
        return False

    def _begin_adding(self) -> None:
        if self.is_shared:
            self._acquire()
        if self._is_barred:
            self._refuse_unless_left()
        self._is_barred = True

    def _end_adding(self) -> None:
        """Lets others add and take, then wakes the engine if that is due.

        Not before: it would wait for the lock at once.
        """
        self._is_barred = False
        if self.is_shared:
            self._release()
        if self._wakes:
            self._wake_engine()

    def _open_adds(self) -> int:
        """How many calls of this thread are adding.

        None, though the lock is ours, where an interrupt came just as a call took it or let it go.
        Compiled code can't be interrupted there, nor be seen: two, as where one is in another.
        """
        if not _ADDS:
            return 2
        found = 0
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            found += frame.f_code in _ADDS and frame.f_locals.get("self") is self
            frame = frame.f_back
        return found

    def _tidy_up(self) -> None:
        """Lets go what a call has left behind that was interrupted."""
        self._is_barred = self._ended is not None
        if self.is_shared:
            with suppress(RuntimeError):  # until it is not ours
                while True:
                    self._release()

    def _refuse_unless_left(self) -> None:
        if self._ended is None and self._open_adds() == 1:
            self._tidy_up()
            if self.is_shared:
                self._acquire()
            return
        if self.is_shared:
            self._release()
        if self._ended is not None:
            raise copy(self._ended)
        raise InvalidRequest(
            "A record was sent in the midst of sending another one, by the same thread",
            hint="A signal's handler, or a finalizer, may note what there is to send, not more",
        )

    def _wake_engine(self) -> None:
        self._wakes = False
        try:
            self._wake()
        except BaseException:
            # Interrupted, perhaps before it was done. The next record wakes it again, too.
            self._wakes = True
            self._wake()
            raise

    # ------------------------------------------------------------------ taking

    def take(self) -> tuple[list[OpenBatch], list[PartitionSlot]]:
        """What was sealed, and which partitions began a batch, since the last time."""
        self._acquire()
        try:
            self._woken = False
            sealed, self.sealed = self.sealed, []
            fresh, self.fresh = self.fresh, []
            return sealed, fresh
        finally:
            self._release()

    def end(self, refusal: TidelogError, lingering: Sequence[PartitionSlot]) -> list[OpenBatch]:
        """The last `take`, of all there is; whatever would come after it is refused."""
        self._acquire()
        self._ended = refusal
        self._is_barred = True
        self._release()
        self.seal_all(lingering)
        return self.take()[0]

    def seal_open(self, slots: Sequence[PartitionSlot]) -> None:
        """Their batches have waited long enough. Wakes nobody: who says so takes them now."""
        self._acquire()
        try:
            for slot in slots:
                batch = slot.open
                if batch is not None:
                    self._seal(slot, batch)
                    route = self.routes.get(slot.topic)
                    if route is not None:
                        _move_on(route, slot)
        finally:
            self._release()

    def seal_all(self, lingering: Sequence[PartitionSlot]) -> None:
        """Somebody flushes: no batch waits for more.

        `lingering` are those of which `take` has told; like the fresh ones they may be of a topic
        that was deleted since, to which no route leads any more.
        """
        for route in list(self.routes.values()):
            self.seal_open(route.slots)
        self.seal_open([*lingering, *self.fresh])

    def give_back(self, size: int) -> None:
        """A batch has its verdict: its bytes are free."""
        self._acquire()
        self.used_bytes -= size
        self._release()

    # ------------------------------------------------------------------ the lock is held

    def _begin(self, slot: PartitionSlot) -> OpenBatch:
        batch = OpenBatch(slot, self._batch_bytes, self._clock(), self._hurry)
        slot.open = batch
        self.used_bytes += batch.builder.size
        self.fresh.append(slot)
        self._wake_later()
        return batch

    def _seal(self, slot: PartitionSlot, batch: OpenBatch) -> None:
        slot.open = None
        if batch.builder.count:
            batch.delivery.count = batch.builder.count
        elif batch.loose is None:
            # Its first record was refused: an empty batch is nothing.
            self.used_bytes -= batch.builder.size
            return
        self.sealed.append(batch)

    def _wake_later(self) -> None:
        if not self._woken:
            self._woken = self._wakes = True


def _slot(route: TopicRoute, partition: i64) -> PartitionSlot:
    slots = route.slots
    if partition >= 0:
        if partition >= len(slots):
            raise InvalidPartitions(
                f"Topic {route.topic!r} has no partition {partition}: it has {len(slots)},"
                " from 0 on"
            )
        return slots[partition]
    turn = route.turn
    if partition == IN_TURN:
        route.turn = (turn + 1) % len(slots)
    return slots[turn]


def _move_on(route: TopicRoute, slot: PartitionSlot) -> None:
    """The partition whose turn it was has its batch: records without a key go to the next."""
    if slot.partition == route.turn:
        route.turn = (route.turn + 1) % len(route.slots)


#: The code of what adds, for who looks where a thread is; empty where it is compiled.
_ADDS: Final = frozenset(
    add.__code__
    for add in (Accumulator.add, Accumulator.add_alone, Accumulator.add_many, Accumulator.add_batch)
    if isinstance(add, FunctionType)
)
