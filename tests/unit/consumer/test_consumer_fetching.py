"""What the consumer's core decides: sessions, generations, leaders, resets, faults."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace

import pytest
from storage_kit.batches import batch

from tidelog.consumer.fetched import Delivery, Fault, Moved, Pushed
from tidelog.consumer.fetching import Fetching, PartitionState, Phase, Plan
from tidelog.engine.cluster_view import Leader, TopicView
from tidelog.engine.places import reset_policy
from tidelog.errors import (
    BrokerUnreachable,
    FencedLeaderEpoch,
    LogCorrupt,
    NotLeader,
    OffsetOutOfRange,
    TidelogError,
    TopicAuthorizationFailed,
    UnknownTopic,
    UnknownTopicId,
    UnsupportedVersion,
)
from tidelog.model import TopicId, TopicPartition
from tidelog.records.batch import assigned_prefix, read_header

ORDERS = TopicPartition("orders", 0)
VIEW = TopicView("orders", TopicId(b"first"), False, (Leader("one:1", 3), Leader("two:2", 3)))
MARKS = (100, 0)


def at(offset: int, count: int = 10, epoch: int = 3) -> bytes:
    """A batch of so many records as a log keeps it from an offset on."""
    content = batch(*[b"x"] * count)
    return assigned_prefix(read_header(content), offset, epoch) + content[16:]


class Reader:
    """A core with one partition assigned, and what a test asks of it."""

    def __init__(self, position: int = 0, policy: str = "none", end: int | None = None) -> None:
        self.deliveries: deque[Delivery] = deque()
        self.fetching = Fetching(self.deliveries, reset_policy(policy))
        self.state = PartitionState(ORDERS, VIEW.topic_id, position, end)
        self.view: TopicView | None = VIEW
        self.fetching.assign([self.state])

    def plan(self, now: float = 0.0) -> Plan:
        return self.fetching.plan(now, lambda _: self.view)

    def begin(self, now: float = 0.0) -> int:
        """Starts the partition; its session."""
        (started,) = self.plan(now).start["one:1"]
        assert started is self.state
        return started.session

    def push(self, session: int, records: bytes) -> int:
        return self.fetching.on_records(session, records, MARKS)

    def pushed(self) -> list[tuple[int, int]]:
        """The offsets of what was delivered and still counts."""
        return [
            (delivery.base_offset, delivery.next_offset)
            for delivery in self.deliveries
            if isinstance(delivery, Pushed) and delivery.generation == self.state.generation
        ]

    def fault(self) -> TidelogError:
        """What the partition has failed with."""
        delivery = self.deliveries[-1]
        assert isinstance(delivery, Fault)
        assert self.state.phase is Phase.RESTING
        return delivery.error


def test_a_partition_is_started_once_on_its_leader() -> None:
    reader = Reader()
    session = reader.begin()
    assert reader.plan().start == {}
    assert reader.push(session, at(0) + at(10)) == 0
    assert reader.pushed() == [(0, 20)]
    assert (reader.state.fetched_to, reader.state.fetched_epoch) == (20, 3)
    assert (reader.state.high_watermark, reader.state.log_start) == MARKS


def test_the_first_batch_may_begin_below_the_position() -> None:
    reader = Reader(position=4)
    reader.push(reader.begin(), at(0))
    assert reader.pushed() == [(4, 10)]


def test_what_was_pushed_before_a_seek_is_not_delivered() -> None:
    reader = Reader()
    old = reader.begin()
    reader.push(old, at(0))
    reader.fetching.seek(reader.state, 50)
    records = at(10)
    assert reader.push(old, records) == len(records)
    plan = reader.plan()
    assert plan.stop == {"one:1": [old]}
    (state,) = plan.start["one:1"]
    assert state.session != old
    assert reader.pushed() == []
    reader.push(state.session, at(50))
    assert reader.pushed() == [(50, 60)]


def test_a_pause_voids_what_waits_and_a_resume_starts_from_the_position() -> None:
    reader = Reader()
    session = reader.begin()
    reader.push(session, at(0))
    reader.state.position = 5
    reader.fetching.pause(reader.state)
    reader.fetching.pause(reader.state)
    plan = reader.plan()
    assert (plan.start, plan.stop) == ({}, {"one:1": [session]})
    assert reader.pushed() == []
    reader.fetching.resume(reader.state)
    assert reader.state.fetched_to == 5
    assert reader.begin() != session


def test_a_lost_stream_goes_on_behind_what_was_pushed_and_keeps_it() -> None:
    reader = Reader()
    old = reader.begin()
    reader.push(old, at(0))
    reader.fetching.on_stream_lost("one:1", BrokerUnreachable(), 1.0)
    plan = reader.plan(1.0)
    assert plan.start == {}
    assert plan.wake_at is not None
    plan = reader.plan(plan.wake_at)
    assert plan.refresh == ["orders"]
    reader.fetching.on_refreshed(["orders"], {}, 2.0)
    reader.view = replace(VIEW, leaders=(Leader("two:2", 4), Leader("two:2", 3)))
    (state,) = reader.plan(2.0).start["two:2"]
    assert (state.fetched_to, state.fetched_epoch) == (10, 3)
    assert reader.push(old, at(10)) > 0
    reader.push(state.session, at(10))
    assert reader.pushed() == [(0, 10), (10, 20)]


def test_a_stream_that_is_refused_is_not_tried_for_ever() -> None:
    reader = Reader()
    reader.begin()
    reader.fetching.on_stream_lost("one:1", UnsupportedVersion("too old"), 1.0)
    assert "too old" in str(reader.fault())
    assert reader.plan(9.0).start == {}


@pytest.mark.parametrize("error", [NotLeader(), FencedLeaderEpoch(), BrokerUnreachable()])
def test_a_moved_leader_is_asked_for_with_growing_patience(error: TidelogError) -> None:
    reader = Reader()
    now, waits = 0.0, []
    for _ in range(8):
        session = reader.begin(now)
        reader.fetching.on_error(session, error, now)
        wake_at = reader.plan(now).wake_at
        assert wake_at is not None
        waits.append(wake_at - now)
        now = wake_at
        assert reader.plan(now).refresh == ["orders"]
        reader.fetching.on_refreshed(["orders"], {}, now)
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(1.0)
    reader.push(reader.begin(now), at(0))
    assert reader.state.failures == 0


def test_without_a_leader_it_waits() -> None:
    reader = Reader()
    reader.view = replace(VIEW, leaders=(Leader(None, 3),))
    plan = reader.plan(5.0)
    assert plan.start == {}
    assert plan.wake_at is not None
    assert plan.wake_at > 5.0


def test_another_topic_of_the_same_name_is_never_read() -> None:
    reader = Reader()
    session = reader.begin()
    reader.fetching.on_error(session, UnknownTopicId(), 0.0)
    reader.view = replace(VIEW, topic_id=TopicId(b"second"))
    reader.fetching.on_refreshed(["orders"], {}, 1.0)
    assert reader.plan(9.0).start == {}
    assert "created anew" in str(reader.fault())
    assert not reader.fault().retriable


def test_a_topic_that_is_gone_is_a_fault() -> None:
    reader = Reader()
    reader.fetching.on_error(reader.begin(), UnknownTopicId(), 0.0)
    reader.fetching.on_refreshed(["orders"], {"orders": UnknownTopic()}, 1.0)
    assert "was deleted" in str(reader.fault())


def test_a_damaged_log_is_a_fault_and_not_asked_for_again() -> None:
    reader = Reader()
    session = reader.begin()
    reader.push(session, at(0))
    reader.fetching.on_error(session, LogCorrupt("Offsets 10 to 19 are damaged"), 0.0)
    assert reader.pushed() == [(0, 10)]
    assert isinstance(reader.fault(), LogCorrupt)
    assert reader.plan(9.0).start == {}


def test_what_nobody_may_is_a_fault_after_what_was_pushed() -> None:
    reader = Reader()
    session = reader.begin()
    reader.push(session, at(0))
    reader.fetching.on_error(session, TopicAuthorizationFailed("no"), 0.0)
    assert reader.pushed() == [(0, 10)]
    assert isinstance(reader.fault(), TopicAuthorizationFailed)
    assert reader.plan(9.0).start == {}


def test_out_of_range_without_a_policy_is_a_fault_that_a_seek_mends() -> None:
    reader = Reader(position=7)
    reader.fetching.on_error(reader.begin(), OffsetOutOfRange("7 is too low"), 0.0)
    fault = reader.fault()
    assert "7 is too low" in str(fault)
    assert f"seek_to_beginning({reader.state.name!r})" in str(fault), "as it can be typed"
    reader.state.failed = fault
    reader.fetching.seek(reader.state, 20)
    assert reader.state.failed is None
    reader.push(reader.begin(), at(20))
    assert reader.pushed() == [(20, 30)]


def test_a_policy_looks_up_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    reader = Reader(position=7, policy="earliest")
    with caplog.at_level(logging.WARNING):
        reader.fetching.on_error(reader.begin(), OffsetOutOfRange("7 is too low"), 0.0)
        assert reader.plan().reset == [reader.state]
        assert reader.plan().reset == []
        reader.fetching.on_reset_failed(reader.state, BrokerUnreachable(), 0.0)
        wake_at = reader.plan(0.0).wake_at
        assert wake_at is not None
        reader.fetching.on_refreshed(["orders"], {}, wake_at)
        assert reader.plan(wake_at).reset == [reader.state]
        reader.fetching.on_reset(reader.state, 30)
    assert any("goes on at offset 30" in message for message in caplog.messages)
    assert isinstance(reader.deliveries[-1], Moved)
    reader.push(reader.begin(wake_at), at(30))
    assert reader.pushed() == [(30, 40)]


def test_a_reset_that_a_seek_has_overtaken_changes_nothing() -> None:
    reader = Reader(position=7, policy="earliest")
    reader.fetching.on_error(reader.begin(), OffsetOutOfRange(), 0.0)
    reader.plan()
    reader.fetching.seek(reader.state, 12)
    reader.fetching.on_reset(reader.state, 30)
    reader.fetching.on_reset_failed(reader.state, TopicAuthorizationFailed(), 0.0)
    assert reader.state.fetched_to == 12
    assert not reader.deliveries


def test_a_log_that_was_cut_is_told_or_followed() -> None:
    told = Reader(position=20)
    told.fetching.on_diverging(told.begin(), 2, 15)
    assert "cut at offset 15" in str(told.fault())
    followed = Reader(position=20, policy="latest")
    followed.fetching.on_diverging(followed.begin(), 2, 15)
    assert (followed.state.fetched_to, followed.state.fetched_epoch) == (15, 2)
    moved = followed.deliveries[-1]
    assert isinstance(moved, Moved)
    assert moved.offset == 15


def test_reading_ends_at_the_end_that_was_asked_for() -> None:
    reader = Reader(end=15)
    session = reader.begin()
    reader.push(session, at(0) + at(10) + at(20))
    assert reader.pushed() == [(0, 15)]
    assert reader.fetching.has_stops
    plan = reader.plan()
    assert (plan.start, plan.stop) == ({}, {"one:1": [session]})
    assert not reader.state.is_done
    reader.state.position = 15
    assert reader.state.is_done


def test_what_is_at_its_end_from_the_beginning_is_not_started() -> None:
    reader = Reader(position=15, end=15)
    assert reader.plan().start == {}
    assert reader.state.is_done


@pytest.mark.parametrize("cut", [1, 30, 61, 70])
def test_half_a_batch_is_a_fault_behind_the_whole_ones(cut: int) -> None:
    reader = Reader()
    reader.push(reader.begin(), at(0) + at(10)[:cut])
    assert reader.pushed() == [(0, 10)]
    assert "from offset 10 on is no whole batch" in str(reader.fault())


def test_what_was_read_already_is_not_delivered_again() -> None:
    reader = Reader()
    session = reader.begin()
    reader.push(session, at(0) + at(10))
    records = at(10)
    assert reader.push(session, records) == len(records)
    reader.push(session, at(10, 20))
    assert reader.pushed() == [(0, 20), (20, 30)]


def test_assigning_anew_ends_what_was() -> None:
    reader = Reader()
    session = reader.begin()
    reader.push(session, at(0))
    other = PartitionState(TopicPartition("orders", 1), VIEW.topic_id, 0)
    reader.fetching.assign([other])
    plan = reader.plan()
    assert (plan.start, plan.stop) == ({"two:2": [other]}, {"one:1": [session]})
    assert reader.pushed() == []


def test_when_nobody_can_be_asked_it_asks_again() -> None:
    reader = Reader()
    reader.view = None
    assert reader.plan().refresh == ["orders"]
    reader.fetching.on_refresh_failed(["orders"], 0.0)
    plan = reader.plan(0.0)
    assert plan.refresh == []
    assert plan.wake_at is not None
    assert reader.plan(plan.wake_at).refresh == ["orders"]
