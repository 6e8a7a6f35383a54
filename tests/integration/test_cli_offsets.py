"""`get-offsets` and `delete-records` against a running node."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.admin.admin import Admin
from tidelog.cli import main
from tidelog.producer.producer import Producer
from tidelog_node.testing import InProcessCluster

Tool = Callable[..., tuple[int, str, str]]

FIRST_MS = 1_700_000_000_001


@pytest.fixture(autouse=True)
def _forget_calls() -> Iterator[None]:
    """An error that was caught keeps its call, and so a thread of grpc's, until it is collected."""
    yield
    gc.collect()


@pytest.fixture
def filled(tidelog_cluster: InProcessCluster) -> InProcessCluster:
    """Ten records in orders-0, a second apart, none in orders-1; and an empty topic."""
    with Admin(tidelog_cluster.address) as admin:
        admin.create_topic("orders", partitions=2)
        admin.create_topic("payments")
    with Producer(tidelog_cluster.address) as producer:
        for number in range(10):
            producer.send("orders", b"%d" % number, timestamp=FIRST_MS + number * 1000, partition=0)
    return tidelog_cluster


@pytest.fixture
def tool(filled: InProcessCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Runs a verb on the cluster: its code, output and errors."""

    def run(verb: str, *words: str) -> tuple[int, str, str]:
        code = main([verb, "--bootstrap-server", filled.address, *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ((), "orders:0:10\norders:1:0\npayments:0:0\n"),
        (("--time", "-2"), "orders:0:0\norders:1:0\npayments:0:0\n"),
        (("--time", "earliest"), "orders:0:0\norders:1:0\npayments:0:0\n"),
        (("--time", "-3"), "orders:0:9\n"),
        (("--time", str(FIRST_MS)), "orders:0:0\n"),
        (("--time", str(FIRST_MS + 1)), "orders:0:1\n"),
        (("--time", str(FIRST_MS + 3000)), "orders:0:3\n"),
        (("--time", str(FIRST_MS + 9001)), ""),
        (("--topic", "pay.*"), "payments:0:0\n"),
        (("--topic", "orders", "--partitions", "1"), "orders:1:0\n"),
        (("--topic-partitions", "orders:-1,payments"), "orders:0:10\npayments:0:0\n"),
        (("--exclude-internal-topics", "--topic", "orders"), "orders:0:10\norders:1:0\n"),
    ],
)
def test_offsets(tool: Tool, words: tuple[str, ...], printed: str) -> None:
    assert tool("get-offsets", *words) == (0, printed, "")


def test_every_millisecond_is_meant_as_it_is_written(tool: Tool) -> None:
    """Times go through no floating point on their way."""
    for number in range(10):
        at_ms = FIRST_MS + number * 1000
        words = ("--topic-partitions", "orders:0", "--time", str(at_ms))
        assert tool("get-offsets", *words)[1] == f"orders:0:{number}\n"


def test_times_behind_the_year_9999_are_told_apart(tool: Tool, filled: InProcessCluster) -> None:
    with Admin(filled.address) as admin:
        admin.create_topic("far", config={"message.timestamp.after.max.ms": 2**63 - 1})
    with Producer(filled.address) as producer:
        producer.send("far", b"", timestamp=253_402_300_900_000)
    for time, printed in ((253_402_300_900_000, "far:0:0\n"), (253_402_300_900_001, "")):
        assert tool("get-offsets", "--topic", "far", "--time", str(time)) == (0, printed, "")


def test_offsets_as_json(tool: Tool) -> None:
    assert json.loads(tool("get-offsets", "--topic", "orders", "--json")[1]) == [
        {"topic": "orders", "partition": 0, "offset": 10},
        {"topic": "orders", "partition": 1, "offset": 0},
    ]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("--topic", "ordres"), 1, "Did you mean 'orders'?"),
        (("--topic", "orders", "--partitions", "9"), 1, "Could not match any topic-partitions"),
        (("--topic-partitions", "orders:x"), 1, "is no pattern of partitions"),
        (("--time", "soon"), 2, "'soon' is no time"),
        (("--time", "-5"), 2, "tiered storage"),
        (("--topic-partitions", "a", "--topic", "b"), 2, "cannot be used together"),
    ],
)
def test_get_offsets_says_what_is_wrong(
    tool: Tool, words: tuple[str, ...], code: int, part: str
) -> None:
    found, out, err = tool("get-offsets", *words)
    assert (found, out) == (code, "")
    assert part in err
    assert err.count("\n") == 1


def offsets_file(folder: Path, *partitions: tuple[str, int, int]) -> str:
    """The file that names offsets."""
    file = folder / "offsets.json"
    entries = [
        {"topic": topic, "partition": partition, "offset": offset}
        for topic, partition, offset in partitions
    ]
    file.write_text(json.dumps({"partitions": entries, "version": 1}))
    return str(file)


def test_records_are_deleted(tool: Tool, filled: InProcessCluster, tmp_path: Path) -> None:
    file = offsets_file(tmp_path, ("orders", 0, 4), ("payments", 0, -1))
    assert tool("delete-records", "--offset-json-file", file) == (
        0,
        "Executing records delete operation\n"
        "Records delete operation completed:\n"
        "partition: orders-0\tlow_watermark: 4\n"
        "partition: payments-0\tlow_watermark: 0\n",
        "",
    )
    assert [record.offset for record in filled.records("orders")] == list(range(4, 10))
    everything = offsets_file(tmp_path, ("orders", 0, -1))
    code, out, _ = tool("delete-records", "--offset-json-file", everything, "--json")
    assert (code, json.loads(out)) == (
        0,
        [{"topic": "orders", "partition": 0, "low_watermark": 10}],
    )
    assert filled.records("orders") == []


def test_a_mark_of_the_byte_order_is_no_part_of_the_offsets(tool: Tool, tmp_path: Path) -> None:
    file = Path(offsets_file(tmp_path, ("orders", 0, 4)))
    file.write_text(file.read_text(), encoding="utf-8-sig")
    code, out, _ = tool("delete-records", "--offset-json-file", str(file))
    assert (code, out.splitlines()[-1]) == (0, "partition: orders-0\tlow_watermark: 4")


def test_an_error_of_one_partition_stops_no_other(
    tool: Tool, filled: InProcessCluster, tmp_path: Path
) -> None:
    file = offsets_file(
        tmp_path, ("ordres", 0, 1), ("orders", 7, 1), ("orders", 1, 5), ("orders", 0, 2)
    )
    code, out, _ = tool("delete-records", "--offset-json-file", file)
    assert code == 1
    unknown, missing, beyond, done = out.splitlines()[2:]
    assert unknown.startswith("partition: ordres-0\terror: Topic 'ordres' does not exist.")
    assert missing.startswith("partition: orders-7\terror: Topic 'orders' has no partition 7")
    assert beyond.startswith("partition: orders-1\terror: ")
    assert done == "partition: orders-0\tlow_watermark: 2"
    assert len(filled.records("orders")) == 8


def test_delete_records_needs_its_file(tool: Tool, tmp_path: Path) -> None:
    assert tool("delete-records")[0] == 2
    code, out, err = tool("delete-records", "--offset-json-file", str(tmp_path / "gone"))
    assert (code, out) == (1, "")
    assert "can't be read" in err
