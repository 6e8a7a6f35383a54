"""An application as people write it: every client with typed keys and values.

`test_types.py` has mypy and pyright check it, strictly. It is never run: the documents are. What is
assigned to an annotated name, or passed to `assert_type`, is what a user's editor will say.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_type

import tidelog
from tidelog import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRecord,
    Deliveries,
    Delivery,
    Producer,
    Receipt,
    Serializer,
    TidelogError,
    TopicPartition,
)


@dataclass
class Order:
    """What the topic holds."""

    item: str
    count: int


ADDRESS = "localhost:9094"
ORDERS: Serializer[Order] = tidelog.json(Order)
FIRST = TopicPartition("orders", 0)


def sent(delivery: Delivery) -> None:
    """A delivery callback."""
    error = delivery.exception()
    assert_type(error, TidelogError | None)


def produce_orders() -> None:
    """Typed keys and values."""
    producer: Producer[str, Order]
    with Producer(ADDRESS, key=tidelog.utf8, value=ORDERS) as producer:
        delivery = producer.send("orders", key="customer-42", value=Order("coffee", 2))
        assert_type(delivery, Delivery)
        assert_type(delivery.result(timeout=5), Receipt)
        assert_type(delivery.result().offset, int | None)
        producer.send("orders", key="customer-42", value=None, on_delivery=sent)
        many = producer.send_many("orders", values=[Order("rope", 1)], keys=["customer-7"])
        assert_type(many, Deliveries)
        assert_type(many.result(), list[Receipt])
        producer.flush(timedelta(seconds=5))


def produce_payloads() -> None:
    """Without serializers: what needs none."""
    with Producer(ADDRESS, linger_ms=timedelta(milliseconds=20), batch_size="64 KiB") as producer:
        producer.send("orders", key="text", value=b"bytes", headers={"trace": "4bf9"})
        producer.send("orders", memoryview(b"view"), timestamp=datetime.now(UTC), partition=0)
        producer.send("orders", headers=[("trace", None), ("raw", b"1")], delivery_timeout=2.5)
        producer.send("orders", headers={"trace": "4bf9", "raw": b"1", "none": None})


def serialize_count(count: int) -> bytes:
    """A serializer may be a function."""
    return str(count).encode()


def produce_counts() -> None:
    """The function's argument is the type of the value."""
    with Producer(ADDRESS, key=tidelog.utf8, value=serialize_count) as producer:
        assert_type(producer, Producer[str, int])
        producer.send("counts", key="a", value=3)


def consume_orders() -> None:
    """Typed records, one by one and many."""
    with Consumer(ADDRESS, key=tidelog.utf8, value=ORDERS) as consumer:
        assert_type(consumer, Consumer[str, Order])
        consumer.assign("orders", start=timedelta(hours=1), until="end")
        for record in consumer:
            assert_type(record, ConsumerRecord[str, Order])
            assert_type(record.key, str | None)
            assert_type(record.value, Order | None)
        assert_type(consumer.poll(max_records=10, timeout=0.5), list[ConsumerRecord[str, Order]])
        for batch in consumer.batches():
            assert_type(batch.values(), list[Order | None])
        assert_type(consumer.lag(FIRST), dict[TopicPartition, int])
        consumer.seek(FIRST, 3)


def consume_payloads() -> None:
    """Without deserializers: bytes."""
    consumer: Consumer[bytes, bytes]
    with Consumer(ADDRESS, auto_offset_reset="earliest") as consumer:
        consumer.assign("orders", start={0: 5, 1: "latest"})
        consumer.assign({"orders": {0: 5, 1: "latest"}, "returns": "earliest"})
        consumer.assign({FIRST: 5, TopicPartition("orders", 1): "latest"})
        for record in consumer.records(timeout=timedelta(seconds=1)):
            assert_type(record.value, bytes | None)


async def produce_from_asyncio() -> None:
    """The same with await."""
    producer: AsyncProducer[str, Order]
    async with AsyncProducer(ADDRESS, key=tidelog.utf8, value=ORDERS) as producer:
        assert_type(await producer.send("orders", Order("tea", 1), "customer-42"), Receipt)
        pending = producer.send_nowait("orders", value=Order("tea", 1))
        assert_type(await pending, Receipt)
        many = await producer.send_many("orders", values=[Order("rope", 1), None])
        assert_type(await many, list[Receipt])


async def consume_from_asyncio() -> None:
    """The same with await."""
    async with AsyncConsumer(ADDRESS, value=ORDERS) as consumer:
        assert_type(consumer, AsyncConsumer[bytes, Order])
        await consumer.assign(["orders"], start="earliest")
        await consumer.assign({"orders": {0: 5, 1: "latest"}})
        async for record in consumer:
            assert_type(record, ConsumerRecord[bytes, Order])
            assert_type(record.key, bytes | None)
            assert_type(record.value, Order | None)
        assert_type(await consumer.poll(timeout=0.5), list[ConsumerRecord[bytes, Order]])
        async for batch in consumer.batches():
            assert_type(batch.values(), list[Order | None])
            assert_type(batch.records(), list[ConsumerRecord[bytes, Order]])
        assert_type(await consumer.lag(FIRST), dict[TopicPartition, int])
        assert_type(await consumer.end_offsets("orders"), dict[TopicPartition, int])
        assert_type(consumer.position(FIRST), int)


async def consume_both_from_asyncio() -> None:
    """Key and value each have their own type."""
    async with AsyncConsumer(ADDRESS, key=tidelog.utf8, value=ORDERS) as both:
        assert_type(both, AsyncConsumer[str, Order])
    async with AsyncConsumer(ADDRESS, key=tidelog.utf8) as keys:
        assert_type(keys, AsyncConsumer[str, bytes])
        async for record in keys.records(timeout=1):
            assert_type(record.key, str | None)
            assert_type(record.value, bytes | None)


def deserialize_count(payload: bytes | None) -> int | None:
    """A deserializer may be a function."""
    return None if payload is None else int(payload)


def consume_counts() -> None:
    """The function's result is the type of the value."""
    with Consumer(ADDRESS, value=deserialize_count) as consumer:
        assert_type(consumer, Consumer[bytes, int])


def administrate() -> None:
    """Plain values, typed."""
    with Admin(ADDRESS) as admin:
        admin.create_topic("orders", partitions=6, config={"retention.ms": 86_400_000})
        assert_type(admin.list_topics(), list[str])
        assert_type(admin.describe_topic("orders").partition_count, int)
        assert_type(admin.delete_topic("orders", if_exists=True), bool)


async def administrate_from_asyncio() -> None:
    """The same with await."""
    async with AsyncAdmin(ADDRESS) as admin:
        assert_type(await admin.list_topics(), list[str])
        described = await admin.describe_topic("orders")
        assert_type(described.partition_count, int)
        assert_type(await admin.delete_topic("orders", if_exists=True), bool)
