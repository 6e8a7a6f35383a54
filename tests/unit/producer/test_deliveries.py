"""The handles of records: one verdict a batch, told to each who asks, within the limit given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

import pytest

import tidelog
from tidelog.errors import OutcomeUnknown, Refused, RequestTimedOut
from tidelog.producer.delivery import BatchDelivery, Deliveries, Delivery, Receipt
from tidelog.producer.failures import Failures


def settled(
    error: tidelog.TidelogError | None = None, base_offset: int = 40, count: int = 3
) -> BatchDelivery:
    batch = BatchDelivery("orders", 3, lambda blocks: None)
    batch.count = count
    batch.settle(base_offset if error is None else -1, -1, error)
    return batch


def test_a_handle_tells_offset_and_time_of_its_own_record() -> None:
    delivery = Delivery(settled(), 2, 1234)
    assert delivery.done()
    assert delivery.result() == Receipt("orders", 3, 42, 1234)
    assert delivery.exception() is None
    assert repr(delivery) == "<Delivery to orders-3: acknowledged>"


def test_the_brokers_clock_wins_where_the_topic_says_so() -> None:
    batch = BatchDelivery("orders", 3, lambda blocks: None)
    batch.settle(0, 9999, None)
    assert Delivery(batch, 0, 1).result().timestamp == 9999


def test_a_failure_is_raised_to_each_as_its_own() -> None:
    batch = settled(OutcomeUnknown("who knows"))
    caught = []
    for _ in range(2):
        with pytest.raises(OutcomeUnknown) as raised:
            Delivery(batch, 0, 1).result()
        caught.append(raised.value)
    assert caught[0] is not caught[1]
    assert str(caught[0]) == "who knows."


def test_waiting_has_a_limit_and_hurries() -> None:
    hurried: list[bool] = []
    batch = BatchDelivery("orders", 3, hurried.append)
    with pytest.raises(RequestTimedOut, match="orders-3"):
        Delivery(batch, 0, 1).result(timeout=timedelta(0))
    assert hurried == [True]


def test_one_limit_serves_all_batches_that_are_waited_for() -> None:
    batch = BatchDelivery("orders", 3, lambda blocks: None)
    with pytest.raises(RequestTimedOut, match="within 3600 s"):
        batch.wait(3600, monotonic() - 3600)


@pytest.mark.parametrize("ask", [Deliveries.verdicts, Deliveries.confirm, Deliveries.result])
def test_a_handle_of_many_has_one_limit(
    ask: Callable[[Deliveries, float], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr("tidelog.producer.delivery.monotonic", lambda: now_s)

    def settle_late(_blocks: bool) -> None:
        nonlocal now_s
        now_s = 3_600.0
        first.settle(0, -1, None)

    first = BatchDelivery("orders", 0, settle_late)
    # Whoever gives the second batch a limit of its own hears of it, instead of waiting an hour.
    rescue = threading.Timer(5, lambda: second.settle(0, -1, None))
    second = BatchDelivery("orders", 1, lambda _: rescue.start())
    deliveries = Deliveries(5)
    deliveries.add(first, 0, 1)
    deliveries.add(second, 0, 1)
    try:
        with pytest.raises(RequestTimedOut, match="orders-1 within 3600"):
            ask(deliveries, 3_600)
    finally:
        rescue.cancel()
        rescue.join()


def test_callbacks_come_once_and_one_that_fails_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch = BatchDelivery("orders", 3, lambda blocks: None)
    told: list[Delivery] = []
    first, second = Delivery(batch, 0, 1), Delivery(batch, 1, 1)
    first.add_done_callback(lambda _: 1 / 0)
    second.add_done_callback(told.append)
    batch.settle(7, -1, None)
    batch.settle(8, -1, None)
    second.add_done_callback(told.append)
    assert told == [second, second]
    assert second.result().offset == 8
    assert "A delivery callback failed" in caplog.text


def test_many_records_share_one_handle_and_have_a_verdict_each() -> None:
    deliveries = Deliveries(5)
    good, bad = settled(), settled(Refused("no"))
    deliveries.add(good, 1, 1)
    deliveries.add(good, 2, 1)
    deliveries.add(bad, 0, 1)
    verdicts = deliveries.verdicts()
    assert len(deliveries) == 3
    assert verdicts[:2] == [Receipt("orders", 3, 41, 5), Receipt("orders", 3, 42, 5)]
    assert isinstance(verdicts[2], Refused)
    with pytest.raises(Refused):
        deliveries.result()
    with pytest.raises(Refused):
        deliveries.confirm()


def test_verdicts_come_in_the_order_of_the_call() -> None:
    deliveries = Deliveries(0, [10, 11, 12])
    deliveries.order = [[2], range(2)]
    deliveries.add(settled(), 0, 3)
    assert [(r.offset, r.timestamp) for r in deliveries.result()] == [(41, 10), (42, 11), (40, 12)]


def test_failures_that_nobody_asked_about_are_summed_up() -> None:
    failures = Failures()
    asked, silent = settled(Refused("no")), settled(Refused("disk full"))
    failures.add(asked)
    failures.add(silent)
    Delivery(asked, 0, 1).exception()
    summary = failures.summary()
    assert isinstance(summary, Refused)
    assert "3 records were not acknowledged: 3 for orders-3 (Refused)" in str(summary)
    assert "disk full" in str(summary)
    failures.add(settled(Refused("no"), count=1))
    alone = Failures()
    alone.add(settled(Refused("no"), count=1))
    assert "1 record was not acknowledged" in str(alone.summary())
    failures.add(settled(OutcomeUnknown("cut")))
    assert isinstance(failures.summary(), OutcomeUnknown)
    assert Failures().summary() is None
