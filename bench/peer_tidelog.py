"""Tidelog as a peer of the peers bench: the same workloads, side by side with other brokers.

    PYTHONPATH=../shared/bench python -m peers --plugin bench/peer_tidelog.py \\
        --peers tidelog,kafka --client tidelog=all --option flush=os --alternate --repeat 5

Clients: `send` (a call a record whose result can be asked for; read by iteration), `asyncio`
(`send_nowait`, `async for`), `send_many` (read as batches of records) and `columns` (Arrow both
ways). Options: `flush=commit|interval|os` (default commit), `pure=1` for the codec in plain Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from peers.base import Client, Peer, PeerUnavailable, tail_of
from peers.worker import Pacer, payload

import tidelog

#: Values handed over by one `send_many` or `send_columns`.
MANY: Final = 500
ROWS: Final = 20_000
READ_LIMIT_S: Final = 60
START_LIMIT_S: Final = 30


class Tidelog(Peer):  # type: ignore[misc] # the package is found at run time, beside the project
    """A one-node cluster."""

    name = "tidelog"
    clients = ("send", "asyncio", "send_many", "columns")
    notes = "one node, acks=all, flush.policy by --option flush=..."

    def launch(self, directory: Path) -> None:
        """Starts the node and waits for its line of JSON."""
        if self.options.get("pure"):
            os.environ["TIDELOG_PURE"] = "1"
        flush = self.options.get("flush", "commit")
        arguments = [
            sys.executable, "-m", "tidelog_node", "--json", "--data-dir", str(directory / "data"),
            "--port", "0", "--metrics-port", "0", "--internal-port", "0",
            "--config", f"flush.policy={flush}", "--config", "message.max.bytes=8 MiB",
        ]  # fmt: skip
        log = directory / "node.log"
        process = self.run(arguments, log)
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            lines = [line for line in tail_of(log).splitlines() if line.startswith("{")]
            if lines:
                self.bootstrap = json.loads(lines[0])["bootstrap"]
                return
            if process.poll() is not None:
                raise PeerUnavailable(f"the node ended: {tail_of(log)}")
            time.sleep(0.005)
        raise PeerUnavailable(f"the node was not ready in time: {tail_of(log)}")

    def endpoint(self) -> dict[str, Any]:
        """What a worker needs to connect."""
        return {"bootstrap": self.bootstrap}

    def version(self) -> str:
        """Which version runs."""
        return tidelog.__version__


def settings_of(batch: int, acks: str) -> dict[str, Any]:
    """One record a request for `batch=1`, else the defaults."""
    chosen: dict[str, Any] = {"acks": {"leader": 1, "none": 0}.get(acks, "all")}
    if batch == 1:
        chosen |= {"linger_ms": 0, "batch_size": 1}
    return chosen


class TidelogClient(Client):  # type: ignore[misc]
    """What all four clients share: topics, and the synchronous clients' settings."""

    @property
    def address(self) -> str:
        """Where the node serves."""
        return str(self.endpoint["bootstrap"])

    async def create(self, topic: dict[str, Any]) -> None:
        """Makes the topic."""
        async with tidelog.AsyncAdmin(self.address) as admin:
            await admin.create_topic(topic["name"], partitions=topic["partitions"])

    async def delete(self, topic: dict[str, Any]) -> None:
        """Deletes the topic."""
        async with tidelog.AsyncAdmin(self.address) as admin:
            await admin.delete_topic(topic["name"])

    def producer(self, batch: int, acks: str) -> tidelog.Producer[bytes, bytes]:
        """The synchronous producer."""
        return tidelog.Producer(self.address, **settings_of(batch, acks))

    def async_producer(self, **settings: Any) -> tidelog.AsyncProducer[bytes, bytes]:
        """The one for event loops."""
        return tidelog.AsyncProducer(self.address, **settings)

    async def send_paced(self, topic: dict[str, Any], n: int, rate: float, size: int) -> int:
        """Sends as each record falls due."""
        acked = 0
        pacer = Pacer(n, rate, size)
        async with self.async_producer(linger_ms=0) as producer:
            await producer.send(topic["name"], value=b"warm", partition=0)
            deliveries = []
            for index in range(n):
                due = await pacer.wait_async(index)
                partition = index % topic["partitions"]
                deliveries.append(
                    producer.send_nowait(topic["name"], value=pacer.value(due), partition=partition)
                )
            await producer.flush()
            acked = sum(delivery.exception() is None for delivery in deliveries)
        return acked

    async def tail(
        self,
        topic: dict[str, Any],
        n: int,
        ready: Callable[[], None],
        record: Callable[[bytes], None],
    ) -> None:
        """Reads new records; the sender's warm-up record is not one of them."""
        async with tidelog.AsyncConsumer(self.address) as consumer:
            await consumer.assign(topic["name"], start="latest")
            ready()
            seen = 0
            async for received in consumer:
                if received.value is None or len(received.value) < 16:
                    continue
                record(received.value)
                seen += 1
                if seen == n:
                    return


class SendClient(TidelogClient):
    """`send()` a record, `for record in consumer`."""

    async def produce(  # noqa: PLR0917 - the bench's own signature
        self, topic: dict[str, Any], n: int, size: int, batch: int, acks: str, inflight: int
    ) -> float:
        """One call a record."""
        name, count, value = topic["name"], topic["partitions"], payload(size)
        with self.producer(batch, acks) as producer:
            send = producer.send
            started = time.perf_counter()
            for index in range(n):
                send(name, value=value, partition=index % count)
            producer.flush()
            return time.perf_counter() - started

    async def consume(self, topic: dict[str, Any], n: int) -> tuple[float, int]:
        """An object a record."""
        started = time.perf_counter()
        total = seen = 0
        with tidelog.Consumer(self.address) as consumer:
            consumer.assign(topic["name"], start="earliest")
            for record in consumer:
                total += len(record.value or b"")
                seen += 1
                if seen == n:
                    break
            return time.perf_counter() - started, total


class AsyncioClient(TidelogClient):
    """`send_nowait()`, `async for`."""

    async def produce(  # noqa: PLR0917 - the bench's own signature
        self, topic: dict[str, Any], n: int, size: int, batch: int, acks: str, inflight: int
    ) -> float:
        """One call a record, waiting only where the buffer is full."""
        name, count, value = topic["name"], topic["partitions"], payload(size)
        async with self.async_producer(**settings_of(batch, acks)) as producer:
            send_nowait = producer.send_nowait
            started = time.perf_counter()
            await producer.send(name, value=value, partition=0)
            index = 1
            while index < n:
                try:
                    while index < n:
                        send_nowait(name, value=value, partition=index % count)
                        index += 1
                except tidelog.BufferFull:
                    await producer.wait_for_room()
            await producer.flush()
            return time.perf_counter() - started

    async def consume(self, topic: dict[str, Any], n: int) -> tuple[float, int]:
        """An object a record."""
        started = time.perf_counter()
        total = seen = 0
        async with tidelog.AsyncConsumer(self.address) as consumer:
            await consumer.assign(topic["name"], start="earliest")
            async for record in consumer:
                total += len(record.value or b"")
                seen += 1
                if seen == n:
                    break
            return time.perf_counter() - started, total


class SendManyClient(TidelogClient):
    """`send_many()`, `consumer.batches()`."""

    async def produce(  # noqa: PLR0917 - the bench's own signature
        self, topic: dict[str, Any], n: int, size: int, batch: int, acks: str, inflight: int
    ) -> float:
        """Lists of values, round-robin over the partitions."""
        name, count, value = topic["name"], topic["partitions"], payload(size)
        with self.producer(batch, acks) as producer:
            group = 1 if batch == 1 else MANY
            started = time.perf_counter()
            for number, sent in enumerate(range(0, n, group)):
                values = [value] * min(group, n - sent)
                producer.send_many(name, values=values, partition=number % count)
            producer.flush()
            return time.perf_counter() - started

    async def consume(self, topic: dict[str, Any], n: int) -> tuple[float, int]:
        """Lists of records."""
        started = time.perf_counter()
        total = seen = 0
        with tidelog.Consumer(self.address) as consumer:
            consumer.assign(topic["name"], start="earliest")
            for batch in consumer.batches():
                records = batch.records()
                for record in records:
                    total += len(record.value or b"")
                seen += len(records)
                if seen >= n:
                    break
            return time.perf_counter() - started, total


class ColumnsClient(TidelogClient):
    """Arrow both ways."""

    async def produce(  # noqa: PLR0917 - the bench's own signature
        self, topic: dict[str, Any], n: int, size: int, batch: int, acks: str, inflight: int
    ) -> float:
        """Arrow arrays, round-robin over the partitions."""
        import pyarrow as pa  # noqa: PLC0415 - the other clients do without it

        name, count = topic["name"], topic["partitions"]
        rows = 1 if batch == 1 else ROWS
        values = pa.array([payload(size)] * rows, pa.binary())
        with self.producer(batch, acks) as producer:
            started = time.perf_counter()
            for number, sent in enumerate(range(0, n, rows)):
                column = values.slice(0, min(rows, n - sent))
                producer.send_columns(name, value=column, partition=number % count)
            producer.flush()
            return time.perf_counter() - started

    async def consume(self, topic: dict[str, Any], n: int) -> tuple[float, int]:
        """Arrow tables."""
        import tidelog.records.column_decoder  # noqa: PLC0415 - NumPy and pyarrow: 0.1 s

        started = time.perf_counter()
        total = seen = 0
        with tidelog.Consumer(self.address) as consumer:
            consumer.assign(topic["name"], start="earliest")
            while seen < n:
                table = consumer.read_arrow(timeout=READ_LIMIT_S)
                if table.num_rows == 0:
                    raise RuntimeError(f"only {seen} of {n} records there")
                seen += table.num_rows
                total += table.column("value").nbytes
            return time.perf_counter() - started, total


CLIENTS: Final[dict[str, type[TidelogClient]]] = {
    "send": SendClient,
    "asyncio": AsyncioClient,
    "send_many": SendManyClient,
    "columns": ColumnsClient,
}


def make_client(name: str, endpoint: dict[str, Any]) -> TidelogClient:
    """A worker's client by name."""
    return CLIENTS[name](endpoint)
