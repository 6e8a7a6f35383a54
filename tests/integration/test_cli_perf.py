"""The perf tests against a running node: what they send and read is all there."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog_node.testing import InProcessCluster

Tool = Callable[..., tuple[int, str, str]]

PRODUCED = re.compile(
    r"(\d+) records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency,"
    r" \d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n"
)
WINDOW = re.compile(
    r"\d+ records sent, \d+\.\d records/sec \(\d+\.\d\d MB/sec\), \d+\.\d ms avg latency,"
    r" \d+\.\d ms max latency\."
)
DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
FIGURES = r"\d+\.\d{4}, \d+\.\d{4}, (\d+), \d+\.\d{4}, \d+, \d+, \d+\.\d{4}, \d+\.\d{4}"


SMALLEST = ("--num-records", "1", "--throughput", "-1", "--record-size", "1")


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
    """An error that was caught keeps its call, and so a thread of grpc's, until it is collected."""
    yield
    gc.collect()


@pytest.fixture
def tool(tidelog_cluster: InProcessCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Runs a verb on the topic `perf`: its code, output and errors."""

    def run(verb: str, *words: str) -> tuple[int, str, str]:
        server = ("--bootstrap-server", tidelog_cluster.address, "--topic", "perf")
        code = main([verb, *server, *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_every_record_is_sent_and_counted(tool: Tool, tidelog_cluster: InProcessCluster) -> None:
    words = ("--num-records", "500", "--record-size", "100", "--throughput", "-1")
    code, out, err = tool("producer-perf-test", *words)
    assert (code, err) == (0, "")
    match = PRODUCED.fullmatch(out)
    assert match is not None, out
    assert match[1] == "500"
    assert [len(record.value or b"") for record in tidelog_cluster.records("perf")] == [100] * 500


def test_more_records_than_samples_are_all_counted(
    tool: Tool, tidelog_cluster: InProcessCluster
) -> None:
    words = ("--num-records", "100007", "--payload-monotonic", "--throughput", "-1")
    code, out, _ = tool("producer-perf-test", *words)
    assert code == 0
    assert out.splitlines()[-1].startswith("100007 records sent, ")
    values = [record.value for record in tidelog_cluster.records("perf")]
    assert values == [b"%d" % number for number in range(100_007)]


def test_progress_is_shown(tool: Tool) -> None:
    words = ("--num-records", "300", "--record-size", "10", "--throughput", "1000")
    properties = ("--producer-props", "linger.ms=0", "acks=1")
    code, out, _ = tool("producer-perf-test", *words, "--reporting-interval", "50", *properties)
    *windows, total = out.splitlines(keepends=True)
    assert code == 0
    assert windows
    assert all(WINDOW.fullmatch(window.rstrip("\n")) for window in windows), windows
    assert PRODUCED.fullmatch(total)


def test_figures_as_json(tool: Tool) -> None:
    words = ("--num-records", "50", "--record-size", "10", "--throughput", "-1", "--json")
    figures = json.loads(tool("producer-perf-test", *words)[1])
    assert (figures["records"], figures["failed"]) == (50, 0)
    assert figures["p50_ms"] <= figures["p999_ms"] <= figures["max_ms"]


def test_failures_are_told(tool: Tool) -> None:
    words = ("--num-records", "3", "--record-size", "2000000", "--throughput", "-1")
    code, out, err = tool("producer-perf-test", *words)
    assert code == 1
    assert out.startswith("0 records sent, ")
    assert err.startswith("3 records failed. The first: ")
    assert "max.message.bytes" in err


def test_values_of_a_file(tool: Tool, tidelog_cluster: InProcessCluster, tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_bytes(b"one|two")
    words = ("--num-records", "40", "--throughput", "-1", "--payload-file", str(file))
    assert tool("producer-perf-test", *words, "--payload-delimiter", "|")[0] == 0
    assert {record.value for record in tidelog_cluster.records("perf")} == {b"one", b"two"}


def test_every_record_is_read_and_counted(tool: Tool) -> None:
    words = ("--num-records", "1000", "--record-size", "100", "--throughput", "-1")
    tool("producer-perf-test", *words)
    code, out, err = tool("consumer-perf-test", "--messages", "1000")
    header, row = out.splitlines()
    assert (code, err) == (0, "")
    assert header.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, ")
    match = re.fullmatch(f"{DATE}, {DATE}, {FIGURES}", row)
    assert match is not None, row
    assert match[1] == "1000"
    assert row.split(", ")[2] == f"{1000 * 100 / 1024 / 1024:.4f}"


def test_details_are_shown(tool: Tool) -> None:
    words = ("--num-records", "50000", "--record-size", "100", "--throughput", "-1")
    tool("producer-perf-test", *words)
    details = ("--num-records", "50001", "--timeout", "200", "--show-detailed-stats")
    limits = ("--reporting-interval", "1", "--fetch-size", "10000", "--hide-header")
    code, out, _ = tool("consumer-perf-test", *details, *limits)
    *windows, warning = out.splitlines()
    assert code == 0
    assert windows
    assert all(re.fullmatch(f"{DATE}, 0, {FIGURES}", window) for window in windows), windows
    assert warning == (
        "WARNING: Exiting before consuming the expected number of records: timeout (200 ms)"
        " exceeded. You can use the --timeout option to increase the timeout."
    )


@pytest.mark.parametrize(
    ("verb", "words", "code", "part"),
    [
        ("producer-perf-test", ("--throughput", "1", "--record-size", "1"), 2, "--num-records is"),
        ("producer-perf-test", ("--num-records", "1", "--throughput", "1"), 2, "give one of"),
        (
            "producer-perf-test",
            (*SMALLEST, "--payload-delimiter", "|"),
            2,
            "--payload-delimiter goes with --payload-file only",
        ),
        (
            "producer-perf-test",
            ("--num-records", "1", "--throughput", "0", "--record-size", "1"),
            2,
            "would send nothing",
        ),
        (
            "producer-perf-test",
            (*SMALLEST, "--transactional-id", "t"),
            1,
            "no transactions yet",
        ),
        ("producer-perf-test", (*SMALLEST, "--transactional-id", ""), 1, "no transactions yet"),
        (
            "producer-perf-test",
            (*SMALLEST, "--transaction-duration-ms", ""),
            1,
            "no transactions yet",
        ),
        (
            "producer-perf-test",
            (*SMALLEST[:4], "--payload-file", "values", "--payload-delimiter", ""),
            2,
            "--payload-delimiter '' divides nothing: leave it out where values end with their line",
        ),
        ("consumer-perf-test", (), 2, "--num-records is missing"),
        ("consumer-perf-test", ("--num-records", "1", "--group", "g"), 1, "no consumer groups"),
        ("consumer-perf-test", ("--num-records", "1"), 1, "Topic 'perf' does not exist"),
        (
            "consumer-perf-test",
            ("--num-records", "1", "--date-format", "QQ"),
            1,
            "letters that are not understood",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    tool: Tool, verb: str, words: tuple[str, ...], code: int, part: str
) -> None:
    found, _, err = tool(verb, *words)
    assert found == code
    assert part in err
    assert err.count("\n") == 1


def test_metrics_are_said_to_be_elsewhere(tool: Tool) -> None:
    assert "/metrics" in tool("producer-perf-test", *SMALLEST, "--print-metrics")[2]
    assert "/metrics" in tool("consumer-perf-test", "--num-records", "1", "--print-metrics")[2]


def test_an_empty_name_is_refused(tool: Tool) -> None:
    code, _, err = tool("consumer-perf-test", "--num-records", "1", "--topic", "")
    assert (code, err) == (1, "tidelog consumer-perf-test: Topic '' does not exist.\n")


def test_a_record_larger_than_any_topic_takes_is_refused(tool: Tool) -> None:
    words = ("--num-records", "1", "--throughput", "-1", "--record-size", "9999999999")
    code, _, err = tool("producer-perf-test", *words)
    assert code == 2
    assert "9999999999 is too large, it must be at most 134217728" in err
