"""The reader's end of the queue: takes off what was fetched and knows how far the reader is.

Both consumers read through one `Reading`, in the thread that iterates; the fetcher fills the queue
from its event loop. Invariants: what iteration leaves half read, the next call goes on with,
whatever call it is; the position of a partition is the offset of the next record to hand out;
bytes are given back as credit when their turn has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Generic

from tidelog.consumer.batch import FetchedBatch
from tidelog.consumer.decoding import Decoding, UnreadableBatch
from tidelog.consumer.fetched import Delivery, Fault, Moved, Pushed
from tidelog.consumer.fetching import PartitionState
from tidelog.consumer.record_types import ConsumerRecord, Key, Value
from tidelog.errors import TidelogError

GiveBack = Callable[[str, int], None]

#: What is gathered into one table: several fetches, but so little that the memory of the table
#: before it is still warm when it is used again. Tables of 100 MB had the kernel clear each page.
TABLE_BYTES: Final = 4 * 1024 * 1024


class Reading(Generic[Key, Value]):
    """See the module. `give_back` is told the leader and the bytes whose turn has come."""

    def __init__(
        self, deliveries: deque[Delivery], decoding: Decoding[Key, Value], give_back: GiveBack
    ) -> None:
        self.deliveries = deliveries
        self.decoding = decoding
        self._give_back = give_back
        self._pushed: Pushed | None = None
        self._slices: Iterator[list[ConsumerRecord[Key, Value]]] = iter(())
        self._slice: list[ConsumerRecord[Key, Value]] = []
        self._records: Iterator[ConsumerRecord[Key, Value]] = iter(self._slice)
        self._rows: tuple[tuple[str, ...], Any] | None = None

    # ------------------------------------------------------------------ taking off the queue

    def _next_pushed(self) -> Pushed | None:
        """The next fetch that still counts; raises what failed a partition in its turn."""
        deliveries = self.deliveries
        while deliveries:
            delivery = deliveries.popleft()
            state = delivery.state
            if isinstance(delivery, Pushed):
                if delivery.address:
                    self._give_back(delivery.address, delivery.size_bytes)
                if delivery.generation == state.generation:
                    return delivery
            elif delivery.generation != state.generation:
                continue
            elif isinstance(delivery, Moved):
                state.position, state.position_epoch = delivery.offset, -1
            else:
                self._raise(delivery)
        return None

    @staticmethod
    def _raise(fault: Fault) -> None:
        fault.state.failed = fault.error
        raise fault.error

    def _current(self) -> Pushed | None:
        """What is half read, unless a seek has made it void."""
        pushed = self._pushed
        if pushed is not None and pushed.generation != pushed.state.generation:
            self.forget()
            return None
        return pushed

    def forget(self) -> None:
        """Drops what is half read."""
        self._slice.clear()  # whoever still holds an iterator over it gets no more from it
        self._pushed, self._rows = None, None
        self._slices = iter(())

    def _finish(self, pushed: Pushed) -> None:
        pushed.state.position = pushed.next_offset
        pushed.state.position_epoch = pushed.leader_epoch
        self.forget()

    # ------------------------------------------------------------------ records

    def next_records(self) -> Iterator[ConsumerRecord[Key, Value]] | None:
        """An iterator over the next records, the same one until it is exhausted; None: no more."""
        pushed = self._current()
        if pushed is not None and self._rows is not None:
            self._begin(self._rest(pushed))
            pushed = self._pushed
        while True:
            if pushed is None:
                pushed = self._next_pushed()
                if pushed is None:
                    return None
                self._begin(pushed)
            if self._records.__length_hint__():  # type: ignore[attr-defined] # a list's iterator
                return self._records
            if self._take_slice(pushed):
                return self._records
            self._finish(pushed)
            pushed = None

    def _begin(self, pushed: Pushed) -> None:
        self.forget()
        self._pushed = pushed
        self._slices = self.decoding.slices(pushed)
        self._slice = []
        self._records = iter(self._slice)

    def _take_slice(self, pushed: Pushed) -> bool:
        """Decodes the next slice; False at the end. A batch that can't be read is met again."""
        if self._slice:
            pushed.state.position = self._slice[-1].offset + 1
        try:
            self._slice = next(self._slices, [])
        except UnreadableBatch:
            self._begin(pushed.starting_at(pushed.state.position))
            raise
        self._records = iter(self._slice)
        return bool(self._slice)

    def take(self, max_records: int) -> list[ConsumerRecord[Key, Value]]:
        """Up to so many records, of what has been fetched."""
        taken: list[ConsumerRecord[Key, Value]] = []
        while len(taken) < max_records:
            try:
                records = self.next_records()
            except TidelogError:
                if taken:
                    break  # its turn comes with the next call: nothing of it is forgotten
                raise
            if records is None:
                break
            taken += islice(records, max_records - len(taken))
        return taken

    # ------------------------------------------------------------------ batches and columns

    def next_batch(self) -> FetchedBatch[Key, Value] | None:
        """The rest of what is half read, or the next fetch; None: no more."""
        while True:
            pushed = self._current()
            if pushed is None:
                pushed = self._next_pushed()
                if pushed is None:
                    return None
            else:
                pushed = self._rest(pushed)
            self._finish(pushed)
            if pushed.size_bytes and pushed.base_offset < pushed.next_offset:
                return FetchedBatch(pushed, self.decoding)

    def _rest(self, pushed: Pushed) -> Pushed:
        return pushed.starting_at(self.position(pushed.state))

    def take_columns(self, max_rows: int, names: tuple[str, ...]) -> list[Any]:
        """Record batches of up to so many rows together, of what has been fetched.

        The one that reaches `TABLE_BYTES` is the last one; of a fetch no more is decompressed than
        that takes.
        """
        taken: list[Any] = []
        room_bytes = TABLE_BYTES
        while max_rows > 0 and room_bytes > 0:
            try:
                rows = self._next_rows(names, room_bytes)
            except TidelogError:
                if taken:
                    break
                raise
            if rows is None:
                break
            if rows.num_rows:
                taken.append(self._hand_out_rows(rows, max_rows, names))
                max_rows -= taken[-1].num_rows
                room_bytes -= taken[-1].nbytes
        return taken

    def _hand_out_rows(self, rows: Any, max_rows: int, names: tuple[str, ...]) -> Any:
        if rows.num_rows > max_rows:
            rest = rows.slice(max_rows)
            self._rows = names, rest
            assert self._pushed is not None
            self._pushed.state.position = rest.column(rest.num_columns - 1)[0].as_py()
            rows = rows.slice(0, max_rows)
        elif self._pushed is not None:
            self._finish(self._pushed)
        return rows.select(list(names))

    def _next_rows(self, names: tuple[str, ...], room_bytes: int) -> Any:
        """The next rows, their offsets in the last column; None: no more."""
        pushed = self._current()
        if pushed is not None and self._rows is not None and self._rows[0] == names:
            return self._rows[1]
        pushed = self._next_pushed() if pushed is None else self._rest(pushed)
        if pushed is None:
            return None
        self._begin(pushed)
        wanted = (*(name for name in names if name != "offset"), "offset")
        try:
            rows, position = self.decoding.some_columns(pushed, wanted, room_bytes)
        except UnreadableBatch as unreadable:
            good, _ = pushed.split(unreadable.position)
            if not good.size_bytes or good.next_offset <= good.base_offset:
                raise
            rows, position = self.decoding.some_columns(good, wanted, room_bytes)
        if position < pushed.end:
            self._leave_for_later(pushed, position)
        if not rows.num_rows and self._pushed is not None:
            self._finish(self._pushed)
        return rows

    def _leave_for_later(self, pushed: Pushed, position: int) -> None:
        """What lies behind a place in the fetched bytes has its turn with the next rows."""
        first, rest = pushed.split(position)
        self._begin(first)
        self.deliveries.appendleft(rest)

    # ------------------------------------------------------------------ where the reader is

    def position(self, state: PartitionState) -> int:
        """The offset of the next record of the partition to hand out."""
        pushed = self._current()
        if pushed is None or pushed.state is not state or self._rows is not None:
            return state.position
        left: int = self._records.__length_hint__()  # type: ignore[attr-defined] # of a list
        if left:
            return self._slice[-left].offset
        return self._slice[-1].offset + 1 if self._slice else state.position

    def drop_void(self) -> None:
        """Drops what is half read if a seek has made it void, also beneath a running loop."""
        self._current()

    def settle(self) -> None:
        """Writes down how far the reader is, before somebody changes what is read."""
        pushed = self._current()
        if pushed is None:
            return
        position = self.position(pushed.state)
        if position >= pushed.next_offset:
            self._finish(pushed)
        else:
            pushed.state.position, pushed.state.position_epoch = position, -1
