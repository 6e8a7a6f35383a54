"""Columns of keys go, all at once, where each key alone would go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import InvalidPartitions, InvalidRecord
from tidelog.producer import column_routing
from tidelog.producer.partitioner import STICKY, Partitioner, murmur2, partition_of_key
from tidelog.records.rows import LARGE_BINARY

KEYS = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=250, max_size=300))


@given(st.lists(KEYS, min_size=1, max_size=60), st.integers(1, 100), st.integers(0, 5))
def test_keys_go_where_each_of_them_would(
    keys: list[bytes | None], partition_count: int, skipped: int
) -> None:
    column = pa.array([b"before"] * skipped + keys, LARGE_BINARY)[skipped:]
    chosen = column_routing.key_partitions(column, partition_count)
    expected = [STICKY if key is None else partition_of_key(key, partition_count) for key in keys]
    assert chosen.tolist() == expected


def test_the_hash_is_that_of_one_key() -> None:
    keys = [b"", b"a", b"ab", b"abc", b"abcd", "größe".encode(), bytes(range(256)) * 3]
    hashed = column_routing.murmur2_of(pa.array(keys, LARGE_BINARY))
    assert hashed.tolist() == [murmur2(key) for key in keys]
    assert column_routing.murmur2_of(pa.array([], LARGE_BINARY)).tolist() == []


@given(st.lists(st.integers(-1, 40_000), min_size=1))
def test_groups_hold_every_row_once_in_its_order(chosen: list[int]) -> None:
    found = {
        number: list(range(len(chosen))) if rows is None else rows.tolist()
        for number, rows in column_routing.grouped(np.array(chosen))
    }
    expected: dict[int, list[int]] = {}
    for row, number in enumerate(chosen):
        expected.setdefault(number, []).append(row)
    assert found == expected


def test_a_named_partition_comes_before_the_key() -> None:
    otherwise = np.array([5, 6, STICKY])
    named = column_routing.numbers(pa.array([0, None, 2], pa.int32()))
    chosen = column_routing.named_partitions(named, "orders", 7, otherwise)
    assert chosen.tolist() == [0, 6, 2]


def test_rows_without_a_key_go_together_with_those_that_have_one() -> None:
    assert column_routing.settled(np.array([STICKY, 4, STICKY]), 2).tolist() == [2, 4, 2]
    assert column_routing.settled(np.array([STICKY, STICKY]), 2).tolist() == [STICKY, STICKY]


@pytest.mark.parametrize("bad", [-1, 7])
def test_a_partition_that_is_not_there_is_refused(bad: int) -> None:
    named = column_routing.numbers([0, bad])
    with pytest.raises(InvalidPartitions, match=f"'orders' has no partition {bad}: it has 7"):
        column_routing.named_partitions(named, "orders", 7, np.array([0, 0]))


def test_partitions_are_integers() -> None:
    assert column_routing.numbers(pa.chunked_array([[1], [2]])).to_pylist() == [1, 2]
    with pytest.raises(InvalidRecord, match="has the type string"):
        column_routing.numbers(pa.array(["1"]))


def test_other_partitioners_are_asked_row_by_row() -> None:
    keys = pa.array([b"a", None, b"ccc"], LARGE_BINARY)
    own = Partitioner(lambda topic, key, count: len(key or b"") % count)
    chosen = column_routing.chosen_partitions(own, "t", 3, keys, range(10, 13))
    assert chosen.tolist() == [1, 0, 0]
    turns = column_routing.chosen_partitions(
        Partitioner("round_robin"), "t", 3, keys, range(10, 13)
    )
    assert turns.tolist() == [1, 2, 0]
