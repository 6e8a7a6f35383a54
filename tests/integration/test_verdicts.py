"""Sends over kill -9, restarts, cuts and hasty closes of producers: one verdict each, kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.verdict_loop import ACKNOWLEDGED, OPEN, REFUSED, UNKNOWN, VerdictLoop

SENDS = 100_000


@pytest.fixture(autouse=True)
def _no_failure_is_kept() -> Iterator[None]:
    """A failure that was caught keeps its call, and so grpc's thread, until it is collected."""
    yield
    gc.collect()


def test_a_hundred_thousand_sends_have_one_verdict_each(tmp_path: Path, seed: int) -> None:
    loop = VerdictLoop(SENDS, tmp_path / "data", seed, print)
    loop.run()
    print(loop.summary())
    assert loop.broken == []
    assert loop.complaints == []
    assert loop.deeds["kills"]
    assert loop.verdicts.kinds.count(ACKNOWLEDGED) > SENDS // 10


def test_the_check_finds_each_kind_of_broken_promise(tmp_path: Path) -> None:
    loop = VerdictLoop(0, tmp_path / "data", 0, print)
    verdicts = loop.verdicts
    kinds = (ACKNOWLEDGED, REFUSED, UNKNOWN, OPEN)
    for kind in kinds:
        number = verdicts.begin()
        verdicts.kinds[number] = kind
        verdicts.told[number] = 1
    verdicts.offsets[0], verdicts.partitions[0] = 5, 0
    seen = bytearray(len(kinds))
    loop.judge(0, 0, 6, seen)
    loop.judge(1, 0, 7, seen)
    loop.judge(2, 0, 8, seen)
    loop.judge(2, 0, 9, seen)
    assert [words.split(", ", 1)[1] for words in loop.broken] == [
        "and was acknowledged at (0, 5)",
        "and was refused",
        "and at another place too",
    ]
