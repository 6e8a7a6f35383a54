"""What a signal's handler meets that closes a client: nothing is held that the closing needs.

Signals come by chance. Here other threads do what the loop's thread does for a handler, just while
the interrupted thread stands where it would hold something.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tidelog.engine.bell import Bell, Bells
from tidelog.errors import InvalidRecord, InvalidRequest, TidelogError
from tidelog.producer.accumulator import Accumulator, TopicRoute
from tidelog.producer.delivery import BatchDelivery, Deliveries
from tidelog.producer.partitioner import STICKY
from tidelog.records.batch import LooseBatch
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression

Add = Callable[[Accumulator, TopicRoute], object]


def elsewhere(work: Callable[[], object]) -> bool:
    """Whether another thread gets this done."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    return not thread.is_alive()


def test_a_ring_is_kept_for_who_comes_later_and_counts_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.wait()
    assert not bell.wait(0)
    bell.ring()
    bell.silence()
    bell.silence()
    assert not bell.wait(-1.5)


def test_all_who_wait_look_again_at_a_ring() -> None:
    bells, is_so = Bells(), threading.Event()
    found: list[bool] = []
    looked = threading.Barrier(3)

    def wait() -> None:
        looks = iter([lambda: bool(looked.wait()) and False])

        def look() -> bool:
            return next(looks, is_so.is_set)()

        found.append(bells.wait_for(look, 1e9))

    waiting = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for thread in waiting:
        thread.start()
    looked.wait()
    is_so.set()
    bells.ring()
    for thread in waiting:
        thread.join(30)
    assert found == [True, True]


def test_a_wait_ends_with_its_limit_and_leaves_nothing() -> None:
    bells = Bells()
    assert not bells.wait_for(lambda: False, 0)
    assert not bells.wait_for(lambda: False, -1)
    assert bells.wait_for(lambda: True, 0)
    assert not bells._waiting


def test_who_looks_holds_up_nobody_who_rings() -> None:
    bells = Bells()
    assert bells.wait_for(lambda: elsewhere(bells.ring), 1)


@pytest.mark.parametrize(
    "add",
    [
        lambda accumulator, route: accumulator.add(route, 0, b"x", None, (), 1000),
        lambda accumulator, route: accumulator.add_alone(route, 0, b"x", None, (), 1000, 1.0),
        lambda accumulator, route: accumulator.add_many(
            route, STICKY, [b"x"], 0, 1000, None, Deliveries(0)
        ),
        lambda accumulator, route: accumulator.add_batch(route, 0, encoded(b"x"), Deliveries(0)),
    ],
    ids=["add", "add_alone", "add_many", "add_batch"],
)
def test_the_engine_is_woken_when_it_may_take(add: Add) -> None:
    taken: list[bool] = []

    def interrupted() -> None:
        taken.append(elsewhere(accumulator.take))

    accumulator, route = of_one_topic(interrupted)
    add(accumulator, route)
    assert taken == [True]


@pytest.mark.parametrize("interrupts", [1, 2])
def test_a_wake_that_was_cut_off_is_made_good(interrupts: int) -> None:
    """At once, and again with the next record: it may have been cut off twice."""
    woken: list[bool] = []

    def cut_off() -> None:
        woken.append(True)
        if len(woken) <= interrupts:
            raise KeyboardInterrupt

    accumulator, route = of_one_topic(cut_off)
    with pytest.raises(KeyboardInterrupt):
        accumulator.add(route, 0, b"x", None, (), 1000)
    assert len(woken) == 2
    for _ in range(2):
        accumulator.add(route, 0, b"y", None, (), 1000)
    assert len(woken) == 3


def test_a_refused_record_wakes_for_the_batch_that_it_began() -> None:
    woken: list[bool] = []
    accumulator, route = of_one_topic(lambda: woken.append(True))
    with pytest.raises(TidelogError):
        accumulator.add(route, 0, b"x", None, (), -5)
    assert woken == [True]


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_record_in_the_midst_of_another_is_refused_in_words(is_shared: bool) -> None:
    """Python's own locks let the same thread in again, or stand still for ever."""
    accumulator, route = of_one_topic(lambda: None, is_shared=is_shared)

    def interrupted() -> float:
        found.append(accumulator.is_adding_here())
        with pytest.raises(InvalidRequest, match="in the midst of sending another one"):
            accumulator.add(route, 0, b"no", None, (), 1000)
        return 1.0

    found: list[bool] = []
    accumulator._clock = interrupted
    accumulator.add(route, 0, b"x", None, (), 1000)
    accumulator.add(route, 0, b"y", None, (), 1000)
    assert not accumulator.is_adding_here()
    assert found == [is_shared]
    accumulator.seal_all([])
    ((batch,), _) = accumulator.take()
    assert batch.delivery.count == 2


def test_half_a_record_spoils_no_log() -> None:
    """Without a compiler Ctrl-C may come between two pieces of a record."""
    builder = BatchBuilder(200)
    builder.append(b"x", None, (), 1000)
    builder._pieces.append(b"half")
    builder.append(b"y", None, (), 1000)
    with pytest.raises(InvalidRecord, match="cut off while it was added"):
        builder.loose(Compression.NONE, None)


def test_who_asks_late_and_who_settles_call_back_once_each() -> None:
    """Both may find the other's callback, since no lock parts them."""
    batch = BatchDelivery("orders", 0, lambda blocks: None)
    told: list[str] = []

    def late() -> None:
        told.append("first")
        batch.when_settled(lambda: told.append("late"))

    batch.when_settled(late)
    batch.when_settled(lambda: told.append("second"))
    batch.settle(4, -1, None)
    batch.settle(5, -1, None)
    assert told == ["first", "late", "second"]
    assert batch.base_offset == 4


def of_one_topic(
    wake: Callable[[], None], *, is_shared: bool = True
) -> tuple[Accumulator, TopicRoute]:
    accumulator = Accumulator(
        batch_bytes=200,
        limit_bytes=10_000,
        clock=lambda: 1.0,
        wake=wake,
        hurry=lambda blocks: None,
        is_shared=is_shared,
    )
    route = accumulator.routes["t"] = TopicRoute("t", b"id", 1, 0)
    return accumulator, route


def encoded(value: bytes) -> LooseBatch:
    builder = BatchBuilder(200)
    builder.append(value, None, (), 1000)
    return builder.loose(Compression.NONE, None)
