"""The values of `producer-perf-test`: as large as asked for, made quickly, hard to compress."""

from __future__ import annotations

import argparse
import string
import tracemalloc
import zlib

import pytest

from tidelog.cli.producer_perf import BLOCK, payloads


def letters(size: int) -> bytes:
    """The value of the first record."""
    return payloads(argparse.Namespace(payload_monotonic=False, record_size=size))(0)


@pytest.mark.parametrize("size", [0, 1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7])
def test_a_value_has_the_size_that_was_asked_for(size: int) -> None:
    value = letters(size)
    assert len(value) == size
    assert set(value) <= set(string.ascii_uppercase.encode())


def test_a_value_is_as_random_as_letters_can_be() -> None:
    value = letters(1_000_000)
    assert {value.count(letter) // 10_000 for letter in string.ascii_uppercase.encode()} <= {3, 4}
    assert len(zlib.compress(value)) > 590_000, "log2(26) / 8 of it is what no codec can leave out"


def test_a_large_value_takes_little_more_than_itself() -> None:
    size = 4 * BLOCK
    tracemalloc.start()
    try:
        value = letters(size)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(value) == size
    assert peak < size + 4 * BLOCK
