"""Columns as people have them: the times in the receipts are those in the log, or words say why."""

from __future__ import annotations

import array
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped] # it has no stubs here
import pyarrow as pa
import pytest

from support.hang_guard import HANG_S
from tidelog import Producer
from tidelog.errors import InvalidRecord, InvalidRequest, InvalidTimestamp
from tidelog_node.testing import InProcessCluster

NOON: Final = datetime(2026, 11, 18, 12, 0, 0, 5_999, tzinfo=UTC)
NOON_MS: Final = 1_795_003_200_005
DAY: Final = ["2026-11-18"] * 2
DAY_MS: Final = 1_794_960_000_000

TIMES: Final[list[tuple[Any, list[int]]]] = [
    ([NOON, NOON], [NOON_MS] * 2),
    ((5, 6), [5, 6]),
    (range(7, 9), [7, 8]),
    (iter([5, 6]), [5, 6]),
    (array.array("q", [1, 2]), [1, 2]),
    (np.array([3, 4]), [3, 4]),
    *((np.array(DAY, f"datetime64[{unit}]"), [DAY_MS] * 2) for unit in ("s", "ms", "us", "ns")),
    (pd.Series([1, 2, 3])[1:], [2, 3]),
    (pd.Series([NOON, NOON], dtype="datetime64[ns, UTC]"), [NOON_MS] * 2),
    (pd.DatetimeIndex(DAY), [DAY_MS] * 2),
    (pa.array([1, 2, 3], pa.int32()).slice(1), [2, 3]),
    (pa.chunked_array([[1], [2]]), [1, 2]),
    (pa.array([NOON, NOON], pa.timestamp("ns", "Asia/Tokyo")), [NOON_MS] * 2),
    (pa.chunked_array([pa.array([NOON] * 2, pa.timestamp("us"))]), [NOON_MS] * 2),
]


@pytest.mark.parametrize("keys", [None, ["a", "b"]])
def test_receipts_have_the_times_of_the_log(
    tidelog_cluster: InProcessCluster, keys: list[str] | None
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        for number, (times, expected) in enumerate(TIMES):
            if not hasattr(times, "__len__"):
                times = iter(expected)  # noqa: PLW2901 - an iterator serves once
            topic = f"times-{number}"
            sent = producer.send_columns(topic, value=[b"a", b"b"], key=keys, timestamp=times)
            assert [receipt.timestamp for receipt in sent.result(HANG_S)] == expected, times
            written = sorted(record.timestamp for record in tidelog_cluster.records(topic))
            assert written == expected, times


@pytest.mark.parametrize(
    ("times", "kind", "words"),
    [
        ([NOON, NOON.replace(tzinfo=None)], InvalidRequest, "has no time zone.*Say which"),
        (np.array([NOON.replace(tzinfo=None)] * 2), InvalidRequest, "has no time zone"),
        (pa.array([1, None]), InvalidTimestamp, "The timestamp in row 1 is null"),
        ([date(2026, 11, 18)] * 2, InvalidTimestamp, "has the type date32.*Milliseconds"),
        (np.array(DAY, "datetime64[D]"), InvalidTimestamp, "has the type date32"),
        ([1.0, 2.0], InvalidTimestamp, "has the type double"),
        (pa.array([2**63 + 1] * 2, pa.uint64()), InvalidTimestamp, "numbers that are no times"),
        ([2**70, 1], InvalidRecord, "none that Arrow takes"),
        ([1, -3], InvalidTimestamp, "The timestamp -3 in row 1 is not possible"),
        (1.5, InvalidRecord, "timestamp=1.5 is no column, but of type float"),
        ([1], InvalidRecord, "There are 2 values and 1 timestamp"),
    ],
)
def test_times_that_are_none_are_refused_before_anything_is_taken(
    tidelog_cluster: InProcessCluster, times: Any, kind: type[Exception], words: str
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"first").result(HANG_S)
        with pytest.raises(kind, match=words):
            producer.send_columns("orders", value=[b"a", b"b"], timestamp=times)
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"first"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (lambda: {"value": pa.scalar("a")}, "is no column, but of type StringScalar"),
        (lambda: {"value": None}, "value=None is no column, but of type NoneType"),
        (lambda: {"value": {b"a": 1}}, "is no column, but of type dict"),
        (lambda: {"value": [b"a"], "key": 5}, "key=5 is no column"),
        (lambda: {"value": [b"a", b"b"], "partition": [2**80, 1]}, "is no column of partitions"),
        (
            lambda: {"value": [b"a"], "partition": pa.array([2**63 + 5], pa.uint64())},
            "9223372036854775813.* is no column of partitions",
        ),
    ],
)
def test_what_is_no_column_is_refused_in_words(
    tidelog_cluster: InProcessCluster, columns: Callable[[], Any], words: str
) -> None:
    with Producer(tidelog_cluster.address) as producer:
        producer.send("orders", b"first").result(HANG_S)
        with pytest.raises(InvalidRecord, match=words):
            producer.send_columns("orders", **columns())
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"first"]


def test_columns_that_can_be_read_once_are_read_once(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address) as producer:
        sent = producer.send_columns(
            "orders", value=(value for value in (b"a", b"b")), partition=(one for one in (0, 0))
        )
        assert [receipt.offset for receipt in sent.result(HANG_S)] == [0, 1]
