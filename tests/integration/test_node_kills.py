"""kill -9 under load, each one a power cut; and a checker that would notice any loss."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from faults.checker import judge
from faults.kill_loop import KillLoop, Outcome, Plan
from faults.producers import Lane
from tidelog.records.record import Origin, Record

KILLS = 10


def run(plan: Plan, data_dir: Path) -> Outcome:
    async def main() -> Outcome:
        return await KillLoop(plan, data_dir, print).run()

    try:
        return asyncio.run(main())
    finally:
        # A caught error keeps its call, and so grpc's poller thread, until it is collected.
        gc.collect()


def test_ten_power_cuts_lose_double_and_reorder_nothing(tmp_path: Path, seed: int) -> None:
    outcome = run(Plan(kills=KILLS, seed=seed), tmp_path / "data")
    print(outcome.summary())
    assert outcome.findings.words == []
    assert outcome.complaints == []
    assert outcome.kills == KILLS
    assert outcome.acknowledged > 1_000


def test_the_checker_finds_what_a_policy_without_syncs_loses(tmp_path: Path, seed: int) -> None:
    """`flush.policy=os` leaves syncs to the operating system, which loses power here."""
    outcome = run(Plan(kills=5, flush_policy="os", seed=seed, early_share=0.0), tmp_path / "data")
    assert outcome.findings.lost > 0, outcome.summary()


# --- the checker itself --------------------------------------------------------------------------


def records(*authors: tuple[int, int], start: int = 0) -> list[Record]:
    """Records by producer and number, at offsets that follow each other."""
    return [
        Record(Origin("t", 0), offset, 0, None, b"%d %d " % author, ())
        for offset, author in enumerate(authors, start)
    ]


def lane(producer: int, *offsets: int) -> tuple[Lane, int]:
    """A lane whose records were acknowledged at these offsets."""
    made = Lane(producer, "t", 0)
    made.offsets.extend(offsets)
    return made, len(offsets)


def test_a_whole_story_is_clean() -> None:
    found = judge("t-0", 0, records((1, 0), (2, 0), (1, 1)), [lane(1, 0, 2), lane(2, 1)])
    assert found.is_clean
    assert judge("t-0", 5, records((1, 7), (1, 8), start=5), [lane(1, *range(-2, 7))]).is_clean


def test_lost_records_are_found() -> None:
    assert judge("t-0", 0, records((1, 0)), [lane(1, 0, 1)]).lost == 1
    assert judge("t-0", 0, records((1, 0), (2, 0)), [lane(1, 0, 1)]).lost == 1
    assert judge("t-0", 0, [], [lane(1, 0)]).lost == 1


def test_duplicates_and_gaps_in_a_lane_are_found() -> None:
    assert judge("t-0", 0, records((1, 0), (1, 0)), []).duplicated == 1
    assert judge("t-0", 0, records((1, 1), (1, 0)), []).duplicated == 1
    assert judge("t-0", 0, records((1, 0), (1, 2)), []).reordered == 1


def test_gaps_between_offsets_are_found() -> None:
    assert judge("t-0", 0, records((1, 0)) + records((1, 1), start=2), []).gaps == 1
    assert judge("t-0", 0, records((1, 0), start=1), []).gaps == 1
