"""The checkers find what is wrong in histories that were made wrong by hand, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulation.checkers import CHECKS
from simulation.history import Acks, Batch, FinalLog, History, LogKey, Read, Span, Trim, Verdict

LOG = LogKey(b"topic-id", 0)


def batch(number: int, *values: bytes, offset: int = -1, acks: Acks = Acks.ALL) -> Batch:
    """A batch that was acknowledged at this offset, else one whose outcome is unknown."""
    verdict = Verdict.OK if offset >= 0 else Verdict.UNKNOWN
    return Batch(LOG, "producer", number, values, acks, float(number), verdict, offset)


def read(offset: int, value: bytes, *, session: int = 1, high_watermark: int = 4) -> Read:
    """One record as a reader got it."""
    return Read(LOG, "reader", session, offset, value, high_watermark, 10.0)


def good() -> History:
    """A history with nothing wrong: three batches, four records, two of them read."""
    return History(
        batches=[
            batch(0, b"a", b"b", offset=0),
            batch(1, b"c"),
            batch(2, b"d", offset=3, acks=Acks.LEADER),
            batch(3, b"never seen"),
        ],
        reads=[read(0, b"a"), read(1, b"b")],
        spans=[Span(LOG, "reader", 1, 0, 2), Span(LOG, "reader", 9, 3, 3)],
        final={LOG: FinalLog(0, 4, {0: b"a", 1: b"b", 2: b"c", 3: b"d"})},
        recoveries_s=[(1.0, 5.0)],
    )


def broken_promises(history: History) -> set[str]:
    """The promises that some checker says were broken."""
    return {promise for promise, check in CHECKS.items() if check(history)}


def swap_batches(history: History) -> None:
    history.final[LOG].records.update({2: b"d", 3: b"c"})
    history.batches[2].base_offset = 2


def tear_batch(history: History) -> None:
    history.reads.clear()
    history.spans.clear()
    history.batches[0].verdict = Verdict.UNKNOWN
    history.final[LOG].records.update({0: b"a", 1: b"c", 2: b"b"})
    history.batches[1].number = -1


def lose_the_end(history: History) -> None:
    history.final[LOG] = FinalLog(0, 3, {0: b"a", 1: b"b", 2: b"c"})


def lose_the_partition(history: History) -> None:
    history.final.clear()


def begin_later_unasked(history: History) -> None:
    history.final[LOG] = FinalLog(1, 4, {1: b"b", 2: b"c", 3: b"d"})


def never_answer(history: History) -> None:
    history.batches[1].verdict = Verdict.OPEN


def write_refused(history: History) -> None:
    history.batches[1].verdict = Verdict.REFUSED


def acknowledge_acks_none(history: History) -> None:
    history.batches[2].acks = Acks.NONE


def show_what_nobody_sent(history: History) -> None:
    history.batches.pop(1)


def note_an_anomaly(history: History) -> None:
    history.anomalies.append("the broker said something impossible")


def show_above_the_watermark(history: History) -> None:
    history.reads.append(read(2, b"c", high_watermark=2))


def take_back_what_was_shown(history: History) -> None:
    history.reads.append(read(3, b"never seen", session=2))


def store_twice(history: History) -> None:
    history.final[LOG] = FinalLog(0, 5, {0: b"a", 1: b"b", 2: b"c", 3: b"d", 4: b"a"})


def skip(history: History) -> None:
    history.reads.append(read(3, b"d"))


def go_back(history: History) -> None:
    history.reads.append(read(0, b"a"))


def begin_behind_the_first(history: History) -> None:
    history.spans[0].first_offset = -1


def end_before_the_end(history: History) -> None:
    history.spans[0].end_offset = 3


def show_nothing_of_a_span(history: History) -> None:
    history.spans.append(Span(LOG, "reader", 8, 2, 4))


def leave_a_gap(history: History) -> None:
    del history.final[LOG].records[2]


def reach_beyond_the_end(history: History) -> None:
    history.final[LOG].high_watermark = 3


def show_what_was_deleted(history: History) -> None:
    history.trims.append(Trim(LOG, 2, 5.0, low_watermark=2, ended_s=6.0))
    history.final[LOG] = FinalLog(2, 4, {2: b"c", 3: b"d"})


def bring_back_what_was_deleted(history: History) -> None:
    history.reads.clear()
    history.spans.clear()
    history.trims.append(Trim(LOG, 2, 5.0, low_watermark=2, ended_s=6.0))


def come_back_late(history: History) -> None:
    history.recoveries_s.append((float("inf"), 5.0))


BROKEN: list[tuple[Callable[[History], None], str]] = [
    (swap_batches, "P1 order"),
    (tear_batch, "P1 order"),
    (lose_the_end, "P2 durable"),
    (lose_the_partition, "P2 durable"),
    (begin_later_unasked, "P2 durable"),
    (never_answer, "P3 one verdict"),
    (write_refused, "P3 one verdict"),
    (acknowledge_acks_none, "P3 one verdict"),
    (show_what_nobody_sent, "P3 one verdict"),
    (note_an_anomaly, "P3 one verdict"),
    (show_above_the_watermark, "P4 visibility"),
    (take_back_what_was_shown, "P4 visibility"),
    (store_twice, "P5 no duplicates"),
    (skip, "P7 offsets"),
    (go_back, "P7 offsets"),
    (begin_behind_the_first, "P7 offsets"),
    (end_before_the_end, "P7 offsets"),
    (show_nothing_of_a_span, "P7 offsets"),
    (leave_a_gap, "P7 offsets"),
    (reach_beyond_the_end, "P7 offsets"),
    (show_what_was_deleted, "P7 offsets"),
    (bring_back_what_was_deleted, "P7 offsets"),
    (come_back_late, "P9 restart"),
]


def test_nothing_is_wrong_with_a_good_history() -> None:
    assert broken_promises(good()) == set()
    assert broken_promises(History()) == set()


@pytest.mark.parametrize(("damage", "promise"), BROKEN)
def test_a_broken_promise_is_found(damage: Callable[[History], None], promise: str) -> None:
    history = good()
    damage(history)
    assert promise in broken_promises(history)


def test_a_power_cut_may_take_what_only_the_leader_acknowledged() -> None:
    history = good()
    lose_the_end(history)
    history.losses_s.append(2.5)
    assert broken_promises(history) == set()
    history.losses_s[:] = [1.5]  # before the batch was begun
    assert broken_promises(history) == {"P2 durable"}


def test_what_was_asked_for_is_no_loss() -> None:
    deleted, trimmed, retained = good(), good(), good()
    lose_the_partition(deleted)
    deleted.deleted[LOG.topic_id] = None
    begin_later_unasked(trimmed)
    trimmed.trims.append(Trim(LOG, 1, 5.0))
    begin_later_unasked(retained)
    retained.retained[LOG.topic_id] = None
    for history in (deleted, trimmed, retained):
        assert broken_promises(history) == set()


def test_a_seek_may_go_back() -> None:
    history = good()
    history.reads += [read(0, b"a", session=2), read(1, b"b", session=2)]
    assert broken_promises(history) == set()
