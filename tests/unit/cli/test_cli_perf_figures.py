"""The lines of the perf tests stand as in Kafka's tools, and their figures are right."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

import pytest

from tidelog.cli.perf_figures import (
    MIB,
    Consumed,
    ProducerFigures,
    consumer_header,
    consumer_row,
    consumer_window,
    date_format,
    shown_date,
)
from tidelog.cli.producer_perf import payloads
from tidelog.errors import InvalidRequest


def test_a_producers_lines() -> None:
    figures = ProducerFigures(1000.0)
    for latency_ms in range(1, 101):
        figures.add(latency_ms, 10, MIB // 100)
    assert figures.window_line(3000.0) == (
        "1000 records sent, 500.0 records/sec (0.50 MB/sec), 50.5 ms avg latency,"
        " 100.0 ms max latency."
    )
    figures.add(200.0, 1000, 0)
    assert figures.window_line(4000.0) == (
        "1000 records sent, 1000.0 records/sec (0.00 MB/sec), 200.0 ms avg latency,"
        " 200.0 ms max latency."
    )
    assert figures.total_line(5000.0) == (
        "2000 records sent, 500.000000 records/sec (0.25 MB/sec), 51.98 ms avg latency,"
        " 200.00 ms max latency, 51 ms 50th, 96 ms 95th, 100 ms 99th, 200 ms 99.9th."
    )
    assert figures.as_json(5000.0)["p50_ms"] == 51


def test_nothing_sent_can_be_told() -> None:
    assert ProducerFigures(0.0).total_line(0.0).startswith("0 records sent, 0.000000 records/sec")


def test_a_consumers_lines() -> None:
    assert consumer_header(detailed=False) == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,"
        " rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    )
    assert consumer_header(detailed=True).startswith("time, threadId, data.consumed.in.MB, ")
    begin = Consumed(10_000.0)
    middle = Consumed(12_000.0, 1000, 2 * MIB)
    pattern = date_format("ss:SSS")
    assert consumer_row(begin, middle, 1000.0, pattern) == (
        "10:000, 12:000, 2.0000, 1.0000, 1000, 500.0000, 1000, 1000, 2.0000, 1000.0000"
    )
    end = Consumed(13_000.0, 4000, 3 * MIB)
    assert consumer_window(middle, end, 0.0, pattern) == (
        "13:000, 0, 3.0000, 1.0000, 4000, 3000.0000, 0, 1000, 1.0000, 3000.0000"
    )


def test_moments_are_written_as_java_writes_them() -> None:
    moment_ms = datetime(2026, 3, 4, 5, 6, 7).timestamp() * 1000 + 89
    assert (
        shown_date(moment_ms, date_format("yyyy-MM-dd HH:mm:ss:SSS")) == "2026-03-04 05:06:07:089"
    )
    assert shown_date(moment_ms, date_format("ssSSS 100%")) == "07089 100%"
    with pytest.raises(InvalidRequest, match="'YYYY' has letters that are not understood"):
        date_format("YYYY")


def options(**given: object) -> argparse.Namespace:
    """The options of the producer's test that say what values are."""
    known = {"payload_monotonic": False, "record_size": None, "payload_file": None}
    return argparse.Namespace(**known | {"payload_delimiter": None} | given)


def test_payloads(tmp_path: Path) -> None:
    assert [payloads(options(payload_monotonic=True))(number) for number in (0, 12)] == [
        b"0",
        b"12",
    ]
    assert len(payloads(options(record_size=100))(3)) == 100
    assert payloads(options(record_size=0))(3) == b""
    file = tmp_path / "values"
    file.write_bytes(b"one\ntwo\n")
    drawn = payloads(options(payload_file=str(file)))
    assert {drawn(number) for number in range(100)} == {b"one", b"two"}
    file.write_bytes(b"one|two")
    drawn = payloads(options(payload_file=str(file), payload_delimiter="|"))
    assert {drawn(number) for number in range(100)} == {b"one", b"two"}


def test_a_file_without_values_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidRequest, match="holds no values"):
        payloads(options(payload_file=str(tmp_path / "empty")))
    with pytest.raises(InvalidRequest, match="can't be read"):
        payloads(options(payload_file=str(tmp_path / "gone")))
