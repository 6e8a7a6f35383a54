"""The small parts of a producer: partitioner, settings, serializers, accumulator."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as kafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from tidelog.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTimestamp,
    SerializationFailed,
)
from tidelog.producer.accumulator import Accumulator, TopicRoute
from tidelog.producer.columns import _is_plain
from tidelog.producer.delivery import Deliveries, Delivery
from tidelog.producer.handing_over import to_bytes, to_headers, to_milliseconds
from tidelog.producer.partitioner import (
    IN_TURN,
    STICKY,
    Partitioner,
    murmur2,
    partition_of_key,
)
from tidelog.producer.producer_settings import (
    ProducerOptions,
    ProducerSettings,
    producer_settings,
)
from tidelog.records.compression import Compression
from tidelog.records.decoder import decode_records
from tidelog.settings import LONGEST_MS, addresses

# ---------------------------------------------------------------------- partitioner

#: From the tests of Kafka's Java client, as signed numbers.
GOLDEN: Final = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", GOLDEN)
def test_keys_are_hashed_as_kafka_does(key: bytes) -> None:
    assert murmur2(key) == GOLDEN[key] & 0xFFFFFFFF


@given(st.binary(max_size=64))
def test_any_key_is_hashed_as_another_client_does(key: bytes) -> None:
    assert murmur2(key) == kafka_murmur2(key) & 0xFFFFFFFF
    assert partition_of_key(key, 7) == (kafka_murmur2(key) & 0x7FFFFFFF) % 7


def test_partitioners_choose() -> None:
    assert Partitioner("default").choose("t", None, 4) == STICKY
    assert Partitioner("default").choose("t", b"21", 4) == partition_of_key(b"21", 4)
    assert Partitioner("round_robin").choose("t", b"21", 4) == IN_TURN
    assert Partitioner(lambda topic, key, count: count - 1).choose("t", None, 4) == 3


def test_a_misspelt_partitioner_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="Did you mean 'round_robin'"):
        Partitioner("roundrobin")


# ---------------------------------------------------------------------- settings


def test_the_types_of_the_options_are_those_of_the_settings() -> None:
    fields = {field.name for field in dataclasses.fields(ProducerSettings)}
    assert fields == set(ProducerOptions.__annotations__)


def test_durations_and_sizes_may_be_written_as_people_do() -> None:
    found, _ = producer_settings(
        {"linger_ms": timedelta(seconds=1), "buffer_memory": "64 MiB", "batch_size": "16k"}
    )
    assert (found.linger_ms, found.buffer_memory, found.batch_size) == (1000, 64 << 20, 16 << 10)


def test_defaults_are_those_that_the_documents_promise() -> None:
    found, _ = producer_settings({})
    assert (found.acks, found.linger_ms, found.delivery_timeout_ms) == ("all", 5, 120_000)
    assert found.is_idempotent
    assert not producer_settings({"acks": 0})[0].is_idempotent


def test_a_small_buffer_makes_small_batches() -> None:
    assert producer_settings({"buffer_memory": 1000})[0].batch_size == 1000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"linger": 5}, "no setting 'linger'"),
        ({"bootstrap_servers": "a:1"}, "The address is the first argument, such as Producer"),
        ({"transactional_id": "t"}, "no transactions yet"),
        ({"max_inflight": 5}, "Did you mean 'max_in_flight'"),
        ({"acks": "al"}, "Did you mean 'all'"),
        ({"acks": True}, "acks=True is not possible"),
        ({"compression": "zst"}, "Did you mean 'zstd'"),
        ({"compression": "gzip", "compression_level": 11}, "levels 1 to 9"),
        ({"linger_ms": "soon"}, "is no duration"),
        ({"linger_ms": -1}, "too small"),
        ({"batch_size": "many"}, "is no size"),
        ({"batch_size": 2000, "buffer_memory": 1000}, "larger than buffer_memory"),
        ({"max_in_flight": 6}, "more than the 5 batches"),
        ({"max_in_flight": 1_001, "acks": 0}, "not between 1 and 1000"),
        ({"max_in_flight": 2.5}, "no whole number"),
        ({"enable_idempotence": 1}, "enable_idempotence=1 is not possible"),
        ({"linger_ms": float("nan")}, "linger_ms=nan is no duration"),
        ({"buffer_memory": 2**63}, "is too large: at most 9223372036854775807 bytes"),
        ({"buffer_memory": "9" * 400}, "is too large"),
        ({"client_id": ""}, "must be text"),
        ({"client_id": "caf\u00e9"}, "printable ASCII"),
        ({"client_id": "two\nlines"}, "printable ASCII"),
        ({"client_id": "\udcff"}, "printable ASCII"),
        ({"client_id": "x" * 1001}, "At most 1000 characters"),
        ({"partitioner": 3}, "neither a name nor a function"),
        ({"compression": "zstd", "compression_level": "1_0"}, "='1_0' is no whole number"),
        ({"compression": "zstd", "compression_level": 1.5}, "level=1.5 is no whole number"),
        ({"compression": "zstd", "compression_level": True}, "level=True is no whole number"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        producer_settings(given)


@pytest.mark.parametrize("forever", [float("inf"), 10**400, 2**63 - 1, 1e300, timedelta.max])
def test_the_longest_duration_is_one_that_every_clock_takes(forever: Any) -> None:
    found, _ = producer_settings({"linger_ms": forever, "request_timeout_ms": forever})
    assert found.linger_ms == found.request_timeout_ms == LONGEST_MS


def test_addresses_are_checked_before_anything_is_dialled() -> None:
    assert addresses("a:1, b:2") == ["a:1", "b:2"]
    assert addresses(["[::1]:9094"]) == ["[::1]:9094"]
    words = (
        "",
        "localhost",
        "localhost:",
        "localhost:http",
        "localhost:70000",
        "a b:1",
        "\udcff:1",
    )
    odd = ("localhost:\u00b2", "localhost:\u0663", "localhost:" + "9" * 5000, "a\nb:1", "a:+1")
    others: list[Any] = ["http://localhost:9094", 9094, [9094], None]
    for wrong in (*words, *odd, *others):
        with pytest.raises(InvalidConfig, match="host:port"):
            addresses(wrong)
    with pytest.raises(InvalidConfig, match=re.escape('in brackets: "[::1]:9094"')):
        addresses("::1:9094")


@pytest.mark.parametrize(
    "address", ["[]:1", "[x]:1", "[::1:1", "::1]:1", "[localhost:1]:1", "[1.2.3.4]:1", "[[::1]]:1"]
)
def test_brackets_stand_around_addresses_of_ipv6_alone(address: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        addresses(address)
    assert str(refused.value) == (
        f"{address!r} is no address of a broker."
        ' Brackets stand around an address of IPv6 alone, as in "[::1]:9094".'
    )


@pytest.mark.parametrize("address", ["localhost:1:1", "1.2.3.4:1:2", "g::1:1"])
def test_what_is_no_address_of_ipv6_needs_no_brackets(address: str) -> None:
    with pytest.raises(InvalidConfig, match=re.escape('Write "host:port"')):
        addresses(address)


# ---------------------------------------------------------------------- serializers


@dataclasses.dataclass
class Item:
    """Something inside something."""

    name: str
    price: float


@dataclasses.dataclass
class Order:
    """Something to send."""

    number: int
    item: Item
    note: str | None = None


def test_a_dataclass_goes_out_and_comes_back() -> None:
    orders = tidelog.json(Order)
    order = Order(7, Item("tëa", 2.5))
    encoded = orders.serialize(order)
    assert encoded == '{"number":7,"item":{"name":"tëa","price":2.5},"note":null}'.encode()
    assert orders.deserialize(encoded) == order
    assert orders.serialize(None) is None
    assert orders.deserialize(None) is None


def test_json_of_plain_values_and_text() -> None:
    assert tidelog.json(dict).deserialize(b'{"a":1}') == {"a": 1}
    assert tidelog.utf8.deserialize(tidelog.utf8.serialize("grüße")) == "grüße"
    with pytest.raises(TypeError, match="expected dict, got list"):
        tidelog.json(dict).deserialize(b"[]")


def test_what_cannot_be_turned_into_bytes_names_its_topic() -> None:
    with pytest.raises(SerializationFailed, match=r"for topic 'orders'.*expected Order, got int"):
        to_bytes(3, tidelog.json(Order).serialize, "value", "orders")
    with pytest.raises(SerializationFailed, match="must be bytes, str or None, not int"):
        to_bytes(3, None, "key", "orders")
    assert to_bytes(bytearray(b"a"), None, "value", "t") == b"a"
    assert to_bytes("ä", None, "value", "t") == "ä".encode()


def test_headers_and_timestamps_as_people_write_them() -> None:
    assert to_headers({"a": "x", "b": None}) == [("a", b"x"), ("b", None)]
    assert to_headers([("a", b"1"), ("a", b"2")]) == [("a", b"1"), ("a", b"2")]
    with pytest.raises(SerializationFailed, match="name of a header"):
        to_headers({1: b""})  # type: ignore[dict-item]
    assert to_milliseconds(datetime(2026, 1, 1, tzinfo=UTC)) == 1_767_225_600_000
    assert to_milliseconds(5) == 5
    with pytest.raises(InvalidRequest, match="no time zone"):
        to_milliseconds(datetime(2026, 1, 1))


# ---------------------------------------------------------------------- accumulator


class Bench:
    """An accumulator with one topic."""

    def __init__(self, partitions: int = 3, batch_bytes: int = 200) -> None:
        self.woken = 0
        wake: Callable[[], None] = self._wake
        self.accumulator = Accumulator(
            batch_bytes=batch_bytes,
            limit_bytes=10_000,
            clock=lambda: 1.0,
            wake=wake,
            hurry=lambda blocks: None,
            is_shared=False,
        )
        self.route = TopicRoute("t", b"id", partitions, 0)
        self.accumulator.routes["t"] = self.route

    def _wake(self) -> None:
        self.woken += 1

    def add(self, value: bytes, partition: int = STICKY) -> Delivery:
        return self.accumulator.add(self.route, partition, value, None, (), 1000)

    def taken(self) -> list[tuple[int, list[bytes | None]]]:
        """The sealed batches: partition and values."""
        sealed, _ = self.accumulator.take()
        return [(batch.slot.partition, values(batch)) for batch in sealed]


def values(batch: Any) -> list[bytes | None]:
    encoded = batch.encode(Compression.NONE, None, (1, 0, 0))
    return [record.value for record in decode_records(b"".join(encoded), "t", 0)]


def test_records_without_a_key_stay_with_a_partition_for_a_batch() -> None:
    bench = Bench()
    handles = [bench.add(b"x" * 50) for _ in range(7)]
    assert [handle.partition for handle in handles] == [0, 0, 1, 1, 2, 2, 0]
    assert bench.taken() == [(0, [b"x" * 50] * 2), (1, [b"x" * 50] * 2), (2, [b"x" * 50] * 2)]


def test_records_in_turn_go_round() -> None:
    bench = Bench()
    assert [bench.add(b"x", IN_TURN).partition for _ in range(5)] == [0, 1, 2, 0, 1]


def test_the_engine_is_woken_once_until_it_has_looked() -> None:
    bench = Bench()
    for _ in range(9):
        bench.add(b"x" * 50)
    assert bench.woken == 1
    bench.accumulator.take()
    for _ in range(2):
        bench.add(b"x" * 50)
    assert bench.woken == 2


def test_who_ends_batches_is_not_woken_for_them() -> None:
    bench = Bench()
    bench.add(b"x" * 50)
    bench.accumulator.take()
    bench.accumulator.seal_all([])
    assert bench.woken == 1
    assert bench.taken() == [(0, [b"x" * 50])]


def test_the_buffer_counts_until_the_verdict() -> None:
    bench = Bench(batch_bytes=1000)
    bench.add(b"x" * 500)
    bench.accumulator.seal_all([])
    (batch,), _ = bench.accumulator.take()
    assert bench.accumulator.used_bytes == batch.bytes_held() > 500
    size = batch.bytes_held()
    batch.encode(Compression.NONE, None, (1, 0, 0))
    bench.accumulator.give_back(size)
    assert bench.accumulator.used_bytes == 0


def test_a_refused_first_record_leaves_nothing() -> None:
    bench = Bench()
    with pytest.raises(InvalidTimestamp):
        bench.accumulator.add(bench.route, 0, b"x", None, (), -5)
    bench.accumulator.seal_all([])
    assert bench.taken() == []
    assert bench.accumulator.used_bytes == 0


def test_a_batch_is_stamped_anew_when_its_producer_changes() -> None:
    bench = Bench()
    bench.add(b"x")
    bench.accumulator.seal_all([])
    (batch,), _ = bench.accumulator.take()
    first = batch.encode(Compression.NONE, None, (1, 0, 0))
    assert batch.encode(Compression.NONE, None, (1, 0, 0)) is first
    second = batch.encode(Compression.NONE, None, (1, 1, 0))
    assert second != first
    records = decode_records(b"".join(second), "t", 0)
    assert [record.value for record in records] == [b"x"]


def test_many_values_fill_batches_one_after_the_other() -> None:
    bench = Bench()
    deliveries = Deliveries(0)
    added = bench.accumulator.add_many(
        bench.route, STICKY, [b"x" * 50] * 5, 0, 1000, None, deliveries
    )
    bench.accumulator.seal_all([])
    assert added == 5
    assert [(partition, len(found)) for partition, found in bench.taken()] == [
        (0, 2),
        (1, 2),
        (2, 1),
    ]
    assert bench.accumulator.used_bytes == 3 * 61 + 5 * 57


def test_a_partition_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidPartitions, match="'t' has no partition 3"):
        Bench().add(b"x", 3)


@pytest.mark.parametrize("given", [{"enable_idempotence": False}, {"acks": 0}])
def test_more_may_be_in_flight_where_brokers_remember_nothing(given: dict[str, Any]) -> None:
    found, _ = producer_settings({"max_in_flight": 32, **given})
    assert found.max_in_flight == 32


def test_few_rows_are_taken_out_of_arrow_only_while_they_are_small() -> None:
    """Large values would be copied whole beside the buffer, which could not push back."""
    small, large = b"a" * 1000, b"a" * (1 << 20)
    assert _is_plain(pa.array([small] * 200))
    assert not _is_plain(pa.array([large, small]))
    assert not _is_plain(pa.array([small] * 300))
    assert not _is_plain(pa.array([1, 2]))
    assert not _is_plain([small])
