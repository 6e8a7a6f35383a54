"""Executors, their Python workers, the driver and the broker die by SIGKILL: no record is lost.

`make soak-spark` does the same with many kills. What is there twice is explained by its attempts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_kit.copies import Copies, examine
from spark_kit.kill_run import KINDS, kill_run
from spark_kit.standalone import StandaloneCluster
from spark_kit.traced import MARK
from tidelog.records.record import Origin, Record


def record(value: str, mark: str) -> Record:
    """What the traced connector would have written."""
    return Record(Origin("target", 0), 0, 0, None, value.encode(), ((MARK, mark.encode()),))


def test_copies_of_different_attempts_at_one_batch_are_explained() -> None:
    written = [record("a", "0/0/x-1"), record("b", "0/1/x-2"), record("b", "0/1/y-9")]
    assert examine(written, ["a", "b"]) == Copies(3, 0, 0, 1, {0: 1}, ())


@pytest.mark.parametrize(
    ("written", "missing", "strange", "unexplained"),
    [
        ([record("a", "0/0/x-1")], 1, 0, 0),
        ([record(value, "0/0/x-1") for value in "abc"], 0, 1, 0),
        ([record(value, "0/0/x-1") for value in "abb"], 0, 0, 1),
        ([record("a", "0/0/x-1"), record("b", "0/0/x-1"), record("b", "1/0/x-7")], 0, 0, 1),
    ],
)
def test_what_is_lost_invented_or_unexplained_is_found(
    written: list[Record], missing: int, strange: int, unexplained: int
) -> None:
    found = examine(written, ["a", "b"])
    assert (found.missing, found.strange, len(found.unexplained)) == (missing, strange, unexplained)
    assert not found.is_clean


def test_a_copied_topic_outlives_a_kill_of_every_kind(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    with kill_run(tmp_path, standalone) as run:
        outcome = run.run(list(KINDS))
    print(outcome.summary())
    assert outcome.copies.is_clean, outcome.summary()
    assert outcome.driver_starts >= 2
    # A worker and an executor died with all rows of a task acknowledged, the driver between write
    # and commit: these three batches at least hold rows that were written again.
    assert outcome.acknowledged_kills == 2
    assert len(outcome.copies.replayed) >= 3
