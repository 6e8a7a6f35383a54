"""The two sides of `bench.compare`: the same few calls to Tidelog and to any Kafka.

Both settings are those of one another where both have them: acks=all, idempotence, batches of up to
1 MiB, 5 ms of linger (none for latency), no compression, prefetch that never runs dry.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Final, Protocol

import tidelog

Send = Callable[[bytes], object]

LINGER_MS: Final = 5
BATCH_BYTES: Final = 1024 * 1024
STAMP_BYTES: Final = 8
#: How many records confluent-kafka is given between two looks at what failed.
POLL_EVERY: Final = 1_000
TIME_LIMIT_S: Final = 60
ADMIN_LIMIT_S: Final = 30


class Side(Protocol):
    """A cluster, and the client that goes with it."""

    name: ClassVar[str]

    def version(self) -> str:
        """What runs here."""

    def create(self, topic: str) -> None:
        """Makes a topic of one partition."""

    def delete(self, topic: str) -> None:
        """Deletes it."""

    def produce(self, topic: str, count: int, size: int) -> float:
        """Sends records, one a call; seconds from the first to the last acknowledgement."""

    def consume(self, topic: str, count: int) -> float:
        """Reads records from the beginning, one an object; seconds from the first to the last."""

    def sender(self, topic: str) -> AbstractContextManager[Send]:
        """Sends each record at once; all have been acknowledged when the block ends."""

    def follow(self, topic: str) -> Iterator[bytes]:
        """Values from the beginning on, as they come; for ever."""


def value_of(size: int) -> bytes:
    """A value that no compression makes smaller."""
    return os.urandom(size)


class TidelogSide:
    """Tidelog with its own client."""

    name: ClassVar[str] = "tidelog"

    def __init__(self, address: str) -> None:
        self._address = address

    def version(self) -> str:
        """The cluster's version and the client's."""
        with tidelog.Admin(self._address) as admin:
            served = admin.describe_cluster().software_version
        return f"cluster {served}, client {tidelog.__version__}"

    def create(self, topic: str) -> None:
        """Makes a topic of one partition."""
        with tidelog.Admin(self._address) as admin:
            admin.create_topic(topic, partitions=1)

    def delete(self, topic: str) -> None:
        """Deletes it."""
        with tidelog.Admin(self._address) as admin:
            admin.delete_topic(topic)

    def produce(self, topic: str, count: int, size: int) -> float:
        """One `send` a record."""
        value = value_of(size)
        with tidelog.Producer(self._address, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as sender:
            send = sender.send
            send(topic, value=b"warm").result()
            started = time.perf_counter()
            for _ in range(count):
                send(topic, value=value)
            sender.flush()
            return time.perf_counter() - started

    def consume(self, topic: str, count: int) -> float:
        """One object a record."""
        started = 0.0
        seen = 0
        with tidelog.Consumer(self._address) as consumer:
            consumer.assign(topic, start="earliest")
            for _ in consumer.records(timeout=TIME_LIMIT_S):
                started = started or time.perf_counter()
                seen += 1
                if seen == count:
                    return time.perf_counter() - started
        raise RuntimeError(f"only {seen} of {count} records came from Tidelog")

    @contextmanager
    def sender(self, topic: str) -> Iterator[Send]:
        """Without linger."""
        with tidelog.Producer(self._address, linger_ms=0) as producer:
            yield lambda value: producer.send(topic, value=value)

    def follow(self, topic: str) -> Iterator[bytes]:
        """Values from the beginning on."""
        with tidelog.Consumer(self._address) as consumer:
            consumer.assign(topic, start="earliest")
            for record in consumer.records(timeout=TIME_LIMIT_S):
                yield record.value or b""


class KafkaSide:
    """Any Kafka, through confluent-kafka."""

    name: ClassVar[str] = "kafka"

    def __init__(self, address: str) -> None:
        try:
            self._client: Any = importlib.import_module("confluent_kafka")
            self._admin_module: Any = importlib.import_module("confluent_kafka.admin")
        except ModuleNotFoundError as missing:
            raise SystemExit(
                f"--kafka needs the module {missing.name!r}: pip install confluent-kafka"
            ) from None
        self._basics = {"bootstrap.servers": address, "log_level": 0}
        self._admin = self._admin_module.AdminClient(self._basics)
        try:
            self._admin.list_topics(timeout=ADMIN_LIMIT_S)
        except self._client.KafkaException as error:
            raise SystemExit(f"No Kafka answers at {address}: {error}") from None

    def version(self) -> str:
        """The client's versions; Kafka tells nobody its own."""
        return f"confluent-kafka {self._client.version()[0]}, {self._client.libversion()[0]}"

    def create(self, topic: str) -> None:
        """Makes a topic of one partition, with as many replicas as the cluster gives."""
        new = self._admin_module.NewTopic(topic, num_partitions=1)
        self._admin.create_topics([new])[topic].result(ADMIN_LIMIT_S)

    def delete(self, topic: str) -> None:
        """Deletes it."""
        self._admin.delete_topics([topic])[topic].result(ADMIN_LIMIT_S)

    def _producer(self, linger_ms: int) -> Any:
        settings = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1024 * 1024,
            # Cheaper than to be told of each record that was written.
            "delivery.report.only.error": True,
        }
        return self._client.Producer(self._basics | settings)

    def _consumer(self, topic: str) -> Any:
        settings = {
            "group.id": f"bench-compare-{os.getpid()}",
            "enable.auto.commit": False,
            # By default it stops fetching for a second once so many records wait.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 262_144,
            "fetch.queue.backoff.ms": 2,
        }
        consumer = self._client.Consumer(self._basics | settings)
        start = self._client.TopicPartition(topic, 0, self._client.OFFSET_BEGINNING)
        consumer.assign([start])
        return consumer

    def produce(self, topic: str, count: int, size: int) -> float:
        """One `produce` a record."""
        value = value_of(size)
        producer = self._producer(LINGER_MS)
        failures: list[Any] = []

        def told(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        producer.produce(topic, value=b"warm", on_delivery=told)
        producer.flush(TIME_LIMIT_S)
        produce, poll = producer.produce, producer.poll
        started = time.perf_counter()
        for index in range(count):
            try:
                produce(topic, value=value, on_delivery=told)
            except BufferError:
                poll(0.1)
                produce(topic, value=value, on_delivery=told)
            if index % POLL_EVERY == 0:
                poll(0)
        left = producer.flush(TIME_LIMIT_S)
        took_s = time.perf_counter() - started
        if left or failures:
            raise RuntimeError(f"{left} records without a verdict, {len(failures)} failed on Kafka")
        return took_s

    def consume(self, topic: str, count: int) -> float:
        """Lists of a thousand objects: faster than one `poll` a record."""
        started = 0.0
        seen = 0
        consumer = self._consumer(topic)
        try:
            while seen < count:
                # It waits for as many as it is asked for.
                messages = consumer.consume(min(1_000 if seen else 1, count - seen), TIME_LIMIT_S)
                if not messages:
                    raise RuntimeError(f"only {seen} of {count} records came from Kafka")
                started = started or time.perf_counter()
                seen += sum(message.error() is None for message in messages)
            return time.perf_counter() - started
        finally:
            consumer.close()

    @contextmanager
    def sender(self, topic: str) -> Iterator[Send]:
        """Without linger."""
        producer = self._producer(0)

        def send(value: bytes) -> None:
            producer.produce(topic, value=value)
            producer.poll(0)

        yield send
        producer.flush(TIME_LIMIT_S)

    def follow(self, topic: str) -> Iterator[bytes]:
        """Values from the beginning on."""
        consumer = self._consumer(topic)
        try:
            while (message := consumer.poll(TIME_LIMIT_S)) is not None:
                if message.error() is None:
                    yield message.value()
        finally:
            consumer.close()


def latencies_ms(side: Side, topic: str, *, count: int, rate: int, size: int) -> list[float]:
    """From when a record was due to when it was read; the first tenth is left out.

    An open loop: a record that is sent late because the one before was slow has waited since it
    was due. The reader runs in a thread of its own; the clock starts once a record went all the
    way, so that connecting is no part of it.
    """
    waits_ms: list[float] = []
    connected = threading.Event()

    def read() -> None:
        for value in side.follow(topic):
            if not connected.is_set():
                connected.set()
                continue
            due_ns = int.from_bytes(value[:STAMP_BYTES])
            waits_ms.append((time.perf_counter_ns() - due_ns) / 1e6)
            if len(waits_ms) == count:
                return

    reader = threading.Thread(target=read, name="bench-compare-reader")
    reader.start()
    padding = value_of(size - STAMP_BYTES)
    with side.sender(topic) as send:
        send(padding)
        if not connected.wait(TIME_LIMIT_S):
            raise RuntimeError(f"no record went through {side.name} within {TIME_LIMIT_S} s")
        begun_ns = time.perf_counter_ns()
        for index in range(count):
            due_ns = begun_ns + index * 1_000_000_000 // rate
            while (early_ns := due_ns - time.perf_counter_ns()) > 0:
                time.sleep(early_ns / 1e9)
            send(due_ns.to_bytes(STAMP_BYTES) + padding)
    reader.join()
    if len(waits_ms) < count:
        raise RuntimeError(f"only {len(waits_ms)} of {count} records were read from {side.name}")
    return waits_ms[count // 10 :]
