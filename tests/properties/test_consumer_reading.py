"""However reading is mixed (records, polls, batches, columns, seeks), the offsets are in order.

A model counts: the next offset is one more than the last one, or what was sought. Pushes come in
between in pieces of any size, the stream breaks, and nothing is handed out twice or left out.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate, islice

from hypothesis import given
from hypothesis import strategies as st

from tidelog.consumer.decoding import Decoding
from tidelog.consumer.fetched import Delivery
from tidelog.consumer.fetching import Fetching, PartitionState
from tidelog.consumer.reading import TABLE_BYTES, Reading
from tidelog.consumer.record_types import Deserializers
from tidelog.engine.cluster_view import Leader, TopicView
from tidelog.engine.places import reset_policy
from tidelog.errors import BrokerUnreachable
from tidelog.model import TopicId, TopicPartition
from tidelog.records.batch import assigned_prefix, read_header
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression

NAME = TopicPartition("orders", 0)
VIEW = TopicView("orders", TopicId(b"id"), False, (Leader("one:1", 0),))


def log_of(
    counts: list[int], value: bytes = b"%d", compression: Compression = Compression.NONE
) -> list[bytes]:
    """Batches of so many records as a log keeps them; the value of each record is its offset."""
    batches = []
    for end, count in zip(accumulate(counts), counts, strict=True):
        builder = BatchBuilder()
        for offset in range(end - count, end):
            builder.append(value % offset, None, (), offset)
        content = builder.build(compression=compression)
        batches.append(assigned_prefix(read_header(content), end - count, 0) + content[16:])
    return batches


class World:
    """A leader with a log, the core, and the reader."""

    def __init__(self, counts: list[int], end_offset: int | None) -> None:
        self.log = log_of(counts)
        self.deliveries: deque[Delivery] = deque()
        self.fetching = Fetching(self.deliveries, reset_policy("none"))
        self.state = PartitionState(NAME, VIEW.topic_id, 0, end_offset)
        self.fetching.assign([self.state])
        self.given_back = self.pushed = 0
        decoding: Decoding[bytes, bytes] = Decoding(Deserializers(None, None))
        self.reading = Reading(self.deliveries, decoding, self._give_back)
        self.end = min(sum(counts), sum(counts) if end_offset is None else end_offset)
        self.next = 0

    def _give_back(self, _address: str, size_bytes: int) -> None:
        self.given_back += size_bytes

    def push(self, batches: int) -> None:
        """The leader pushes so many batches in one answer."""
        self.fetching.plan(1e9, lambda _: VIEW)
        records = b"".join(
            islice(
                (piece for piece in self.log if read_header(piece).next_offset > self.wanted),
                batches,
            )
        )
        self.pushed += len(records)
        if records:
            message = b"before" + records + b"behind" * 20
            span = len(b"before"), len(b"before") + len(records)
            dropped = self.fetching.on_records(self.state.session, message, (0, 0), span)
            self.given_back += dropped

    @property
    def wanted(self) -> int:
        return self.state.fetched_to

    def expect(self, offsets: list[int]) -> None:
        """What was handed out must be what comes next."""
        assert offsets == list(range(self.next, self.next + len(offsets)))
        self.next += len(offsets)
        assert self.next <= max(self.end, 0)
        assert self.reading.position(self.state) == self.next

    # -------------------------------------------------------------- what a user does

    def iterate(self, count: int) -> None:
        """Some records of a loop that is left."""
        records = self.reading.next_records()
        if records is not None:
            self.expect([record.offset for record in islice(records, count)])

    def poll(self, count: int) -> None:
        self.expect([record.offset for record in self.reading.take(count)])

    def batch(self, _count: int) -> None:
        found = self.reading.next_batch()
        if found is not None:
            assert found.base_offset == self.next
            offsets = [record.offset for record in found]
            assert len(found) == len(offsets)
            assert found.to_arrow(["offset"]).column("offset").to_pylist() == offsets
            parts = list(found.arrow_parts(["offset"], part_bytes=20))
            assert [row["offset"] for part in parts for row in part.to_pylist()] == offsets
            self.expect(offsets)
            assert self.next == found.next_offset

    def columns(self, count: int) -> None:
        taken = self.reading.take_columns(count, ("value", "offset"))
        rows = [row for part in taken for row in part.to_pylist()]
        assert len(rows) <= count
        assert all(row["value"] == b"%d" % row["offset"] for row in rows)
        self.expect([row["offset"] for row in rows])

    def seek(self, offset: int) -> None:
        """Anywhere within the log, in the middle of whatever is half read."""
        self.reading.settle()
        self.fetching.seek(self.state, min(offset, self.end))
        self.reading.drop_void()
        self.next = min(offset, self.end)

    def pause(self, _count: int) -> None:
        self.reading.settle()
        self.fetching.pause(self.state)
        self.reading.drop_void()
        assert self.reading.next_records() is None
        self.fetching.resume(self.state)

    def break_stream(self, _count: int) -> None:
        self.fetching.on_stream_lost("one:1", BrokerUnreachable(), 0.0)
        self.fetching.on_refreshed(["orders"], {}, 0.0)


STEPS = ("push", "iterate", "poll", "batch", "columns", "seek", "pause", "break_stream")


@given(
    counts=st.lists(st.integers(1, 1_500) | st.integers(1, 5), min_size=1, max_size=6),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 2_000)), max_size=30),
    end_part=st.none() | st.floats(0, 1),
)
def test_any_mix_of_reading_hands_out_every_offset_once(
    counts: list[int], steps: list[tuple[str, int]], end_part: float | None
) -> None:
    total = sum(counts)
    world = World(counts, None if end_part is None else int(total * end_part))
    for step, number in steps:
        getattr(world, step)(number % 4 + 1 if step == "push" else number)
    while world.next < world.end:
        world.push(2)
        world.poll(10_000)
    assert world.reading.next_records() is None
    assert world.given_back <= world.pushed
    if end_part is not None:
        assert world.state.is_done


def test_a_table_ends_once_it_has_its_bytes_whatever_has_come() -> None:
    world = World([50_000] * 8, None)
    for _ in range(8):
        world.push(1)
    first = world.reading.take_columns(1_000_000, ("value", "offset"))
    size = sum(part.nbytes for part in first)
    assert TABLE_BYTES <= size < TABLE_BYTES + first[-1].nbytes
    rows = sum(part.num_rows for part in first)
    (second, *_) = world.reading.take_columns(1_000_000, ("value", "offset"))
    assert second.column("offset")[0].as_py() == rows < 400_000


def test_of_a_compressed_fetch_no_more_is_unpacked_than_a_table_takes() -> None:
    world = World([1_000] * 12, None)
    world.log = log_of([1_000] * 12, b"%08d" + b"." * 992, Compression.GZIP)
    world.push(12)
    assert len(world.deliveries) == 1
    for rows in (5_000, 5_000, 2_000):
        taken = world.reading.take_columns(1_000_000, ("value", "offset"))
        offsets = [offset for part in taken for offset in part.column("offset").to_pylist()]
        assert len(offsets) == rows
        world.expect(offsets)
    assert world.given_back == world.pushed
