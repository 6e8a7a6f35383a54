"""How ranges are cut and limits shared out: laws that hold for all numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_kit.logs import FakeLogs
from tidelog.model import TopicPartition
from tidelog_spark.offsets import OffsetMap
from tidelog_spark.options import SplitLimits
from tidelog_spark.planning import OffsetRange, share_out, split_ranges
from tidelog_spark.splitting import split_for_tasks

PARTITIONS = [TopicPartition("orders", number) for number in range(5)]
SIZES = st.lists(st.integers(0, 10**6), min_size=1, max_size=5)


def ranges_of(sizes: list[int], first: int = 10) -> list[OffsetRange]:
    """A range of each size."""
    return [
        OffsetRange(one, "id", first, first + size)
        for one, size in zip(PARTITIONS, sizes, strict=False)
    ]


@given(sizes=SIZES, least=st.none() | st.integers(1, 60), most=st.none() | st.integers(1, 10**6))
def test_pieces_tile_the_ranges(sizes: list[int], least: int | None, most: int | None) -> None:
    most = None if most is None else max(most, max(sizes) // 1_000)  # or there would be millions
    limits = {} if most is None else dict.fromkeys(PARTITIONS, most)
    whole = ranges_of(sizes)
    pieces = split_ranges(whole, least, limits)
    for one in whole:
        mine = [piece for piece in pieces if piece.partition == one.partition]
        edges = [one.start, *(piece.end for piece in mine)]
        assert [piece.start for piece in mine] == edges[:-1]
        assert edges[-1] == one.end
        assert all(piece.size > 0 for piece in mine)
    if most is not None:
        assert all(piece.size <= most for piece in pieces)
    if least is None and most is None:
        assert pieces == [one for one in whole if one.size]


def test_a_large_partition_does_not_take_the_tasks_of_the_others() -> None:
    pieces = split_ranges(ranges_of([1, 1, 1_000]), 5, {})
    assert [piece.partition.partition for piece in pieces] == [0, 1, 2, 2, 2]


def test_enough_ranges_are_left_alone() -> None:
    whole = ranges_of([5, 1_000])
    assert split_ranges(whole, 2, {}) == whole


def test_bytes_become_records_by_what_records_weigh() -> None:
    logs = FakeLogs()
    logs.record_size_bytes = 100
    limits = SplitLimits(records_max=40, bytes_max=2_000)
    pieces = split_for_tasks(limits, ranges_of([100]), logs)
    assert [piece.size for piece in pieces] == [20] * 5
    limits = SplitLimits(records_max=10, bytes_max=2_000)
    assert len(split_for_tasks(limits, ranges_of([100]), logs)) == 10


@given(sizes=SIZES, limit=st.integers(1, 10**6))
def test_shares_stay_within_what_waits(sizes: list[int], limit: int) -> None:
    start = {one: 10 for one, _ in zip(PARTITIONS, sizes, strict=False)}
    end = {one: 10 + size for one, size in zip(PARTITIONS, sizes, strict=False)}
    shared = share_out(limit, start, end)
    taken = {one: shared[one] - start[one] for one in start}
    waiting = [one for one in end if end[one] > start[one]]
    assert all(shared[one] <= end[one] for one in end)
    assert all(taken[one] >= 1 for one in waiting)
    assert sum(taken.values()) <= max(limit, len(waiting)) + len(waiting)
    if sum(sizes) <= limit:
        assert shared == end


def test_a_partition_that_has_fallen_behind_its_start_keeps_its_end() -> None:
    one, other = PARTITIONS[:2]
    assert share_out(5, {one: 10, other: 0}, {one: 4, other: 50}) == {one: 4, other: 5}


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 12)), st.integers(0, 2**60)
    )
)
def test_offsets_are_the_same_text_however_they_were_made(
    offsets: dict[TopicPartition, int],
) -> None:
    import json

    ids = {one.topic: "id of " + one.topic for one in offsets}
    backwards = dict(reversed(offsets.items()))
    text = json.dumps(OffsetMap(offsets, ids).to_json())
    assert json.dumps(OffsetMap(backwards, ids).to_json()) == text
    assert OffsetMap.from_json(json.loads(text)) == OffsetMap(offsets, ids)


def test_offsets_of_kafkas_connector_can_be_read() -> None:
    found = OffsetMap.from_json({"orders": {"0": 23, "10": 17}})
    assert found.offsets == {TopicPartition("orders", 0): 23, TopicPartition("orders", 10): 17}
    assert found.topic_ids == {}
