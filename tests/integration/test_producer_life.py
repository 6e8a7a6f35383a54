"""A producer from its first record to its end: what it writes, what it refuses, what it leaves."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog import Admin, AsyncProducer, Delivery, Producer, Receipt
from tidelog.errors import (
    ClientClosed,
    DeliveryExpired,
    InvalidConfig,
    InvalidPartitions,
    InvalidRecord,
    InvalidRequest,
    MessageTooLarge,
    Refused,
    UnknownTopic,
)
from tidelog.producer.partitioner import partition_of_key
from tidelog_node.testing import InProcessCluster


@pytest.fixture(autouse=True)
def _no_failure_is_kept() -> Iterator[None]:
    """A failure that was caught keeps its call, and so grpc's thread, until it is collected."""
    yield
    gc.collect()


@dataclass
class Order:
    """Something to send."""

    number: int


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sent_stands_in_the_log(
    tidelog_cluster: InProcessCluster, compression: str
) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    with Producer(tidelog_cluster.address, compression=compression) as producer:  # type: ignore[arg-type]
        first = producer.send(
            "orders", "grüße", key=b"k", headers={"a": "1", "b": None}, timestamp=when
        )
        producer.send("orders", None, key="deleted", timestamp=5)
        producer.send("orders", b"x" * 10_000, timestamp=6)
        receipt = first.result()
    assert receipt == Receipt("orders", 0, 0, 1_767_312_000_000)
    found = [
        (record.key, record.value, record.headers, record.timestamp)
        for record in tidelog_cluster.records("orders")
    ]
    assert found == [
        (b"k", "grüße".encode(), (("a", b"1"), ("b", None)), 1_767_312_000_000),
        (b"deleted", None, (), 5),
        (None, b"x" * 10_000, (), 6),
    ]


@pytest.mark.tidelog(num_partitions=4)
def test_keys_choose_their_partition(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address) as producer:
        handles = {key: producer.send("t", b"v", key=b"%d" % key) for key in range(20)}
        places = {key: handle.result().partition for key, handle in handles.items()}
    assert places == {key: partition_of_key(b"%d" % key, 4) for key in range(20)}
    turns = Producer(tidelog_cluster.address, partitioner="round_robin")
    with turns, Producer(tidelog_cluster.address, partitioner=lambda *_: 2) as own:
        assert {turns.send("t", b"v").result().partition for _ in range(4)} == {0, 1, 2, 3}
        assert own.send("t", b"v").result().partition == 2
        with pytest.raises(InvalidPartitions, match="no partition 4"):
            own.send("t", b"v", partition=4)


def test_objects_are_serialised(tidelog_cluster: InProcessCluster) -> None:
    producer: Producer[str, Order] = Producer(
        tidelog_cluster.address, key=tidelog.utf8, value=tidelog.json(Order)
    )
    with producer:
        producer.send("orders", Order(7), key="ä").result()
        with pytest.raises(tidelog.SerializationFailed, match="expected Order"):
            producer.send("orders", "no order")  # type: ignore[arg-type]
    (record,) = tidelog_cluster.records("orders")
    assert (record.key, record.value) == ("ä".encode(), b'{"number":7}')


@pytest.mark.tidelog(num_partitions=3)
def test_many_and_columns_have_a_verdict_for_each(tidelog_cluster: InProcessCluster) -> None:
    values = [b"%d" % number for number in range(5_000)]
    with Producer(tidelog_cluster.address, batch_size=4_096) as producer:
        sent = {
            "many": producer.send_many("many", values),
            "keys": producer.send_many("keys", values, keys=values, timestamps=range(5_000)),
            "one": producer.send_many("one", values, partition=1),
            "columns": producer.send_columns("columns", value=pa.array(values)),
            "keyed": producer.send_columns(
                "keyed", value=values, key=pa.array(values), timestamp=pa.array(range(5_000))
            ),
            "named": producer.send_columns(
                "named",
                value=pa.array(values),
                key=values,
                partition=pa.array([None if n % 7 else 2 for n in range(5_000)], pa.int32()),
            ),
        }
        for deliveries in sent.values():
            deliveries.confirm()
        receipts = {topic: deliveries.result() for topic, deliveries in sent.items()}
    for topic, found in receipts.items():
        logs = [tidelog_cluster.records(topic, partition) for partition in range(3)]
        assert sum(map(len, logs)) == 5_000
        for value, receipt in zip(values, found, strict=True):
            assert receipt.offset is not None
            record = logs[receipt.partition][receipt.offset]
            assert (record.value, record.timestamp) == (value, receipt.timestamp)
            if topic in {"keys", "keyed"}:
                assert receipt.partition == partition_of_key(value, 3)
                assert receipt.timestamp == int(value)
            if topic == "named":
                by_key = partition_of_key(value, 3)
                assert receipt.partition == (by_key if int(value) % 7 else 2)
    assert {receipt.partition for receipt in receipts["one"]} == {1}


@pytest.mark.tidelog(num_partitions=3)
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_few_rows_of_columns_are_written_as_any(
    tidelog_cluster: InProcessCluster, kind: pa.DataType
) -> None:
    """Arrow columns of few rows go the way of `send_many`; a list goes through Arrow."""
    values, keys = [b"1", None, b"", b"\xc3\xa4"], [b"a", b"", b"c", b"\xc3\xa4"]
    arrow = pa.array(values, pa.binary()).cast(kind), pa.array(keys, pa.binary()).cast(kind)
    with Producer(tidelog_cluster.address, linger_ms=10_000) as producer:
        ways = {
            "arrow": producer.send_columns("arrow", value=arrow[0], key=arrow[1], timestamp=17),
            "lists": producer.send_columns("lists", value=values, key=keys, timestamp=17),
        }
        assert [receipt.partition for receipt in ways["arrow"].result()] == [
            receipt.partition for receipt in ways["lists"].result()
        ]
        for value in values:
            column = pa.array([value], pa.binary())
            producer.send_columns("one-by-one", value=column, partition=1, timestamp=17)
        for wrong in ({"key": arrow[1][:2]}, {"partition": 3}, {"timestamp": -1}):
            with pytest.raises(tidelog.Refused) as few:
                producer.send_columns("arrow", value=arrow[0], **wrong)
            words = re.escape(few.value.message.replace("'arrow'", "'lists'"))
            with pytest.raises(type(few.value), match=words):
                producer.send_columns("lists", value=values, **wrong)
    for partition in range(3):
        logs = [tidelog_cluster.records(topic, partition) for topic in ("arrow", "lists")]
        assert [list(map(fields, log)) for log in logs] == [list(map(fields, logs[0]))] * 2
    alone = tidelog_cluster.records("one-by-one", 1)
    assert [fields(record) for record in alone] == [
        (offset, None, value, 17) for offset, value in enumerate(values)
    ]


def fields(record: Any) -> tuple[Any, ...]:
    """What of a record is compared."""
    return record.offset, record.key, record.value, record.timestamp


def test_many_are_checked_before_the_first_is_taken(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address) as producer:
        with pytest.raises(tidelog.SerializationFailed, match="not int"):
            producer.send_many("orders", [b"1", 2])  # type: ignore[list-item]
        with pytest.raises(InvalidRecord, match=r"2 values and 1 key\b"):
            producer.send_many("orders", [b"1", b"2"], keys=[b"1"])
        with pytest.raises(InvalidRecord, match=r"2 values and 1 key\b"):
            producer.send_columns("orders", value=[b"1", b"2"], key=[b"1"])
        assert producer.send_many("orders", ["text"]).result()[0].offset == 0


def test_asyncio_does_all_that_threads_do(tidelog_cluster: InProcessCluster) -> None:
    async def run() -> list[int | None]:
        found: list[int | None] = []
        async with AsyncProducer(tidelog_cluster.address) as producer:
            staged = [producer.send_nowait("t", b"%d" % number) for number in range(3)]
            assert staged[0].partition == -1
            told: list[Delivery] = []
            found.append((await producer.send("t", b"3", on_delivery=told.append)).offset)
            assert len(told) == 1
            for deliveries in (
                await producer.send_many("t", [b"4", b"5"]),
                await producer.send_columns("t", value=[b"6", b"7"]),
            ):
                found += [receipt.offset for receipt in await deliveries]
            return [(await handle).offset for handle in staged] + found

    assert asyncio.run(run()) == list(range(8))
    assert [record.value for record in tidelog_cluster.records("t")] == [
        b"%d" % i for i in range(8)
    ]


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_large_batches_are_compressed_beside_the_loop(
    tidelog_cluster: InProcessCluster, compression: str
) -> None:
    async def run() -> list[int | None]:
        async with AsyncProducer(
            tidelog_cluster.address,
            compression=compression,  # type: ignore[arg-type]
            batch_size="100 KiB",
        ) as producer:
            await producer.send("t", b"first")
            deliveries = await producer.send_many("t", [b"%d" % i * 500 for i in range(3_000)])
            names = [thread.name for thread in threading.enumerate()]
            receipts = await deliveries
            names += [thread.name for thread in threading.enumerate()]
            assert any(name.startswith("asyncio_") for name in names)
        return [receipt.offset for receipt in receipts]

    assert asyncio.run(run()) == list(range(1, 3_001))
    found = [record.value for record in tidelog_cluster.records("t")]
    assert found == [b"first", *(b"%d" % i * 500 for i in range(3_000))]


def test_without_answers_the_offset_is_unknown_by_request(
    tidelog_cluster: InProcessCluster,
) -> None:
    with Producer(tidelog_cluster.address, acks=0) as producer:
        assert producer.send("orders", b"x", timestamp=5).result() == Receipt("orders", 0, None, 5)
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"x"]


def test_an_oversized_record_takes_no_other_with_it(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address, batch_size=1_000, linger_ms=0) as producer:
        producer.send("orders", b"first").result()
        handles = [
            producer.send("orders", b"x" * (3_000_000 if number == 5 else 900))
            for number in range(30)
        ]
        errors = [handle.exception() for handle in handles]
    assert [type(error) for error in errors if error] == [MessageTooLarge]
    assert isinstance(errors[5], MessageTooLarge)
    assert len(tidelog_cluster.records("orders")) == 30


def test_leaving_tells_of_failures_that_nobody_asked_about(
    tidelog_cluster: InProcessCluster,
) -> None:
    producer = Producer(tidelog_cluster.address)
    for _ in range(2):
        producer.send("orders", b"x" * 3_000_000)
    with pytest.raises(Refused, match=r"2 records were not acknowledged: .*orders-0"):
        producer.close()
    with pytest.raises(Refused), Producer(tidelog_cluster.address) as leaving:
        leaving.send("orders", b"x" * 3_000_000)


def test_an_error_of_the_body_is_not_hidden(tidelog_cluster: InProcessCluster) -> None:
    with pytest.raises(KeyError), Producer(tidelog_cluster.address) as producer:
        raise KeyError(producer.send("orders", b"x" * 3_000_000))


@pytest.mark.tidelog(auto_create_topics_enable="false")
def test_an_unknown_topic_is_said_before_anything_is_sent(
    tidelog_cluster: InProcessCluster,
) -> None:
    async def run() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            handle = producer.send_nowait("ordres", b"x")
            with pytest.raises(UnknownTopic):
                await producer.send("ordres", b"x")
            with pytest.raises(UnknownTopic):
                await handle

    with Admin(tidelog_cluster.address) as admin:
        admin.create_topic("orders", partitions=1)
    producer = Producer(tidelog_cluster.address)
    with producer, pytest.raises(UnknownTopic, match="Did you mean 'orders'"):
        producer.send("ordres", b"x")
    asyncio.run(run())


def test_a_topic_created_anew_is_another_topic(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address, linger_ms=0) as producer:
        assert producer.send("orders", b"old").result().offset == 0
        with Admin(tidelog_cluster.address) as admin:
            admin.delete_topic("orders")
            admin.create_topic("orders", partitions=1)
        with pytest.raises(UnknownTopic, match=r"created anew|does not exist"):
            producer.send("orders", b"meant for the old one").result()
        assert producer.send("orders", b"new").result().offset == 0
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"new"]


def test_new_partitions_are_found(tidelog_cluster: InProcessCluster) -> None:
    with Producer(tidelog_cluster.address, metadata_max_age_ms=100) as producer:
        producer.send("orders", b"x").result()
        with Admin(tidelog_cluster.address) as admin:
            admin.create_partitions("orders", 2)
        found: set[int] = set()
        while found != {0, 1}:
            found.add(producer.send("orders", b"x").result().partition)


def test_nobody_there_is_said_in_words() -> None:
    producer = Producer("127.0.0.1:1", max_block_ms=2_000)
    refused = r"127\.0\.0\.1:1: the connection was refused.*tidelog up"
    with producer, pytest.raises(DeliveryExpired, match=refused):
        producer.send("orders", b"x")
    with pytest.raises(InvalidConfig, match="host:port"):
        Producer("localhost")


def test_callbacks_come_in_order_and_may_send_but_not_wait(
    tidelog_cluster: InProcessCluster,
) -> None:
    told: list[int | None] = []
    refused: list[Exception] = []
    chained: list[Delivery] = []

    with Producer(tidelog_cluster.address, linger_ms=0) as producer:

        def on_delivery(delivery: Delivery) -> None:
            told.append(delivery.result().offset)
            if not chained:
                chained.append(producer.send("orders", b"from a callback"))
                try:
                    producer.flush()
                except InvalidRequest as error:
                    refused.append(error)

        for _ in range(100):
            producer.send("orders", b"x", on_delivery=on_delivery)
        producer.flush()
        assert told == sorted(told, key=lambda offset: offset or 0)
        assert len(told) == 100
        assert chained[0].result().offset is not None
    assert "callback" in str(refused[0])


def test_many_threads_share_a_producer(tidelog_cluster: InProcessCluster) -> None:
    handles: dict[int, list[Delivery]] = {}
    with Producer(tidelog_cluster.address, batch_size=2_000) as producer:

        def send(number: int) -> None:
            handles[number] = [
                producer.send("orders", b"%d-%d" % (number, index)) for index in range(2_000)
            ]

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    log = [record.value for record in tidelog_cluster.records("orders")]
    assert len(log) == 8_000
    for number, mine in handles.items():
        offsets = [handle.result().offset or 0 for handle in mine]
        assert offsets == sorted(offsets)
        assert [log[offset] for offset in offsets] == [b"%d-%d" % (number, i) for i in range(2_000)]


def test_closing_twice_is_no_error_and_nothing_is_taken_after(
    tidelog_cluster: InProcessCluster,
) -> None:
    producer = Producer(tidelog_cluster.address)
    producer.send("orders", b"x")
    producer.close()
    producer.close()
    for late in (
        lambda: producer.send("orders", b"x"),
        lambda: producer.send_many("orders", [b"x"]),
        producer.flush,
    ):
        with pytest.raises(ClientClosed):
            late()


PROGRAM_EXIT = """
import logging, sys, tidelog
logging.basicConfig(level=logging.INFO)
producer = tidelog.Producer(sys.argv[1], linger_ms=60_000)
for number in range(1000):
    producer.send("orders", b"%d" % number)
"""

PROGRAM_FORK = """
import os, sys, tidelog
producer = tidelog.Producer(sys.argv[1])
handle = producer.send("orders", b"parent")
child = os.fork()
if child == 0:
    said = []
    for act in (lambda: producer.send("orders", b"child"), producer.flush):
        try:
            act()
        except tidelog.ForkedClient as error:
            said.append("spawn" in str(error))
    os._exit(0 if said == [True, True] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
handle.result()
producer.close()
"""


def run_program(program: str, address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, address], capture_output=True, text=True, check=False
    )


def test_the_exit_of_the_interpreter_flushes(tidelog_cluster: InProcessCluster) -> None:
    seen = run_program(PROGRAM_EXIT, tidelog_cluster.address)
    assert seen.returncode == 0, seen.stderr
    assert len(tidelog_cluster.records("orders")) == 1_000


def test_a_fork_gets_a_clear_error(tidelog_cluster: InProcessCluster) -> None:
    seen = run_program(PROGRAM_FORK, tidelog_cluster.address)
    assert seen.returncode == 0, seen.stderr
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"parent"]


def test_types_of_a_sample_application(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "from dataclasses import dataclass\n"
        "import tidelog\n\n\n"
        "@dataclass\n"
        "class Order:\n"
        "    number: int\n\n\n"
        'plain = tidelog.Producer("a:1")\n'
        'plain.send("t", "text", key=b"k")\n'
        'typed = tidelog.Producer("a:1", key=tidelog.utf8, value=tidelog.json(Order))\n'
        'typed.send("t", Order(1), key="k")\n'
        'typed.send("t", 3)\n'
        'tidelog.Producer("a:1", lingr_ms=3)\n'
    )
    environment = {**os.environ, "MYPYPATH": str(Path(tidelog.__file__).parents[1])}
    seen = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(sample)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    errors = [line for line in seen.stdout.splitlines() if "sample.py" in line and "error" in line]
    assert len(errors) == 2, seen.stdout
    assert ":14:" in errors[0]
    assert "arg-type" in errors[0]
    assert ":15:" in errors[1]
    assert "lingr_ms" in errors[1]


def test_few_rows_of_text_that_is_none_are_written_as_they_are(
    tidelog_cluster: InProcessCluster,
) -> None:
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    with Producer(tidelog_cluster.address) as producer:
        producer.send_columns("text", value=text, partition=0).confirm()
        producer.send_columns("text", value=pa.chunked_array([text] * 300), partition=0).confirm()
    assert {record.value for record in tidelog_cluster.records("text", 0)} == {b"\xff"}


@pytest.mark.tidelog(num_partitions=4)
def test_a_partitioner_is_asked_once_for_each_row(tidelog_cluster: InProcessCluster) -> None:
    asked: list[bytes | None] = []

    def choose(topic: str, key: bytes | None, partitions: int) -> int:
        asked.append(key)
        return len(asked) % partitions

    values = pa.array([b"a", b"b", b"c", b"d"], pa.binary())
    with Producer(tidelog_cluster.address, partitioner=choose) as producer:
        few = producer.send_columns("asked", value=values).result()
        many = producer.send_many("asked", [b"e", b"f"], keys=[b"k", b"l"]).result()
    assert asked == [None, None, None, None, b"k", b"l"]
    assert [receipt.partition for receipt in few] == [1, 2, 3, 0]
    assert [receipt.partition for receipt in many] == [1, 2]
