"""The prefetch buffer is shared, never exceeded for long, and never leaves a leader without."""

from __future__ import annotations

from tidelog.consumer.credit import PORTIONS, Credit


def test_what_is_handed_out_comes_back_in_portions() -> None:
    credit = Credit(1_600)
    assert credit.join("one", 1) == 1_600
    credit.pushed("one", 1_600)
    granted = [credit.handed_out("one", 100) for _ in range(16)]
    assert sum(granted) == 1_600
    assert [grant for grant in granted if grant] == [1_600 // PORTIONS] * PORTIONS


def test_leaders_that_are_expected_share_from_the_beginning() -> None:
    credit = Credit(900)
    assert [credit.join(name, 3) for name in ("one", "two", "three")] == [300, 300, 300]


def test_a_leader_that_joins_late_gets_its_share_of_what_comes_back() -> None:
    credit = Credit(1_000)
    assert credit.join("one", 1) == 1_000
    assert credit.join("two", 1) == 500
    credit.pushed("one", 1_000)
    assert sum(credit.handed_out("one", 100) for _ in range(10)) == 500


def test_a_batch_above_the_credit_is_paid_back_first() -> None:
    credit = Credit(100)
    credit.join("one", 1)
    credit.pushed("one", 500)
    assert credit.handed_out("one", 400) == 400  # which only makes good what was overdrawn
    assert credit.handed_out("one", 100) == 100


def test_what_waits_of_a_lost_stream_still_counts() -> None:
    credit = Credit(1_000)
    credit.join("one", 1)
    credit.pushed("one", 800)
    credit.leave("one")
    assert credit.handed_out("one", 100) == 0
    assert credit.join("one", 1) == 300
    assert credit.handed_out("one", 700) == 700


def test_a_full_buffer_still_lets_one_batch_through() -> None:
    credit = Credit(1_000)
    credit.join("one", 1)
    credit.pushed("one", 1_000)
    credit.leave("one")
    assert credit.join("one", 1) == 1
