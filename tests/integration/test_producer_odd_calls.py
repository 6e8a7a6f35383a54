"""Calls of a producer that few think of: callbacks that exit, times of many records at once."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest

from support.hang_guard import HANG_S
from tidelog import Producer
from tidelog.errors import InvalidRecord, InvalidRequest, InvalidTimestamp
from tidelog_node.testing import InProcessCluster


def test_a_callback_that_exits_takes_no_verdict_from_others(
    tidelog_cluster: InProcessCluster,
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        handles = [
            producer.send("orders", b"x", on_delivery=lambda _: sys.exit(1)) for _ in range(3)
        ]
        assert [handle.result(HANG_S).offset for handle in handles] == [0, 1, 2]
        assert producer.send("orders", b"next").result(HANG_S).offset == 3


def test_many_records_with_times_of_their_own(tidelog_cluster: InProcessCluster) -> None:
    noon = datetime(2026, 11, 18, 12, tzinfo=UTC)
    with Producer(tidelog_cluster.address) as producer:
        with pytest.raises(InvalidRequest, match="timestamp= and timestamps= are both given"):
            producer.send_many("orders", [b"a"], timestamps=[1], timestamp=2)
        with pytest.raises(InvalidTimestamp, match="'noon' is no time"):
            producer.send_many("orders", [b"a", b"b"], timestamps=[1, "noon"])  # type: ignore[list-item]
        with pytest.raises(InvalidRequest, match="takes a list of timestamps, not one int"):
            producer.send_many("orders", [b"a", b"b"], timestamps=5)  # type: ignore[arg-type]
        with pytest.raises(InvalidRecord, match="There are 2 values and 1 timestamp"):
            producer.send_many("orders", [b"a", b"b"], timestamps=[5])
        times = (time for time in (5, noon))
        sent = producer.send_many("orders", [b"a", b"b"], timestamps=times).result()  # type: ignore[arg-type]
    assert [receipt.timestamp for receipt in sent] == [5, int(noon.timestamp()) * 1000]
    assert [record.timestamp for record in tidelog_cluster.records("orders")] == [
        receipt.timestamp for receipt in sent
    ]
