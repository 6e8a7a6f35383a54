"""Calls that a type checker must refuse, each on a line of its own with the rule that refuses it.

Never run. An `ignore` that nothing needs is itself an error under mypy --strict: a wrong use that
stops being refused is found. `test_types.py` holds pyright to the same lines.
"""

from __future__ import annotations

from dataclasses import dataclass

import tidelog
from tidelog import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, Receipt


@dataclass
class Order:
    """What the topic holds."""

    item: str


def misspelt() -> None:
    """Names that the package does not have, though its names are loaded lazily."""
    tidelog.Prodcer("localhost:9094")  # type: ignore[attr-defined]


def wrong_values(producer: Producer[str, Order]) -> None:
    """Keys and values of other types, and arguments that there are not."""
    producer.send("orders", key=42, value=Order("tea"))  # type: ignore[arg-type]
    producer.send("orders", key="customer-42", value="tea")  # type: ignore[arg-type]
    producer.send("orders", value=Order("tea"), header={})  # type: ignore[call-arg]
    producer.send_many("orders", values=["tea"])  # type: ignore[list-item]
    receipt: Receipt = producer.send("orders")  # type: ignore[assignment]
    print(receipt)


def without_serializer() -> None:
    """What needs a serializer and has none."""
    producer = Producer("localhost:9094")
    producer.send("orders", value=Order("tea"))  # type: ignore[arg-type]


def wrong_settings() -> None:
    """A misspelt name, and values that can't be."""
    Producer("localhost:9094", lingr_ms=20)  # type: ignore[call-arg]
    Producer("localhost:9094", acks="some")  # type: ignore[arg-type]
    Producer("localhost:9094", compression="zip")  # type: ignore[arg-type]
    Consumer("localhost:9094", max_poll_records="many")  # type: ignore[call-overload]
    Admin("localhost:9094", client_id=7)  # type: ignore[arg-type]


def wrong_reading(consumer: Consumer[str, Order]) -> None:
    """Values that may be None, or of another type."""
    for record in consumer:
        print(record.value.item)  # type: ignore[union-attr]
        length: int = record.key  # type: ignore[assignment]
        print(length)
    consumer.seek("orders", 3)  # type: ignore[arg-type]


def wrong_names() -> None:
    """The consumer's types are those of its deserializers."""
    consumer: Consumer[str, Order] = Consumer("localhost:9094", key=tidelog.utf8)  # type: ignore[assignment]
    print(consumer)


async def wrong_reading_from_asyncio(consumer: AsyncConsumer[str, Order]) -> None:
    """The same types as without await."""
    async for record in consumer:
        print(record.value.item)  # type: ignore[union-attr]
        key: bytes | None = record.key  # type: ignore[assignment]
        print(key)
    names: list[int] = await AsyncAdmin("localhost:9094").list_topics()  # type: ignore[assignment]
    print(names)


async def forgotten_await(producer: AsyncProducer[str, Order]) -> None:
    """A coroutine is no receipt, and asyncio's loops are other ones."""
    receipt: Receipt = producer.send("orders")  # type: ignore[assignment]
    print(receipt)
    for record in AsyncConsumer("localhost:9094"):  # type: ignore[attr-defined]
        print(record)
