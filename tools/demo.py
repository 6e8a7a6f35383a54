"""A first look (`make demo`): a throw-away node, some records through it, and what came back.

It speaks the wire directly, with the generated stubs and the record codec, and so shows what a
client in any language does: create a topic, produce one batch a partition, fetch from the start.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import grpc

from tidelog.channel_grpc import grpc_channel_factory
from tidelog.errors import TidelogError, error_from_wire
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression
from tidelog.records.decoder import decode_records
from tidelog.records.record import Record
from tidelog.wire.v1.admin_pb2 import CreateTopicsRequest, NewTopic
from tidelog.wire.v1.admin_pb2_grpc import AdminStub
from tidelog.wire.v1.broker_pb2_grpc import BrokerStub
from tidelog.wire.v1.common_pb2 import Error
from tidelog.wire.v1.fetch_pb2 import FetchPartition, FetchRequest
from tidelog.wire.v1.produce_pb2 import PartitionBatch, ProduceRequest
from tidelog_node.testing.throw_away import throw_away_node

if TYPE_CHECKING:
    from tidelog.wire.v1.admin_pb2_grpc import AdminAsyncStub
    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub

TOPIC: Final = "orders"
PARTITIONS: Final = 3
TRIES: Final = 100
PAUSE_SECONDS: Final = 0.05
CALL_SECONDS: Final = 10.0

ORDERS: Final = (
    ("customer-7", "two coffees"),
    ("customer-42", "a book on tides"),
    ("customer-7", "one more coffee"),
    ("customer-13", "a lighthouse, used"),
    ("customer-42", "another book on tides"),
    ("customer-99", "rope, 40 m"),
)

Answer = TypeVar("Answer")


def refuse(error: Error) -> None:
    """Raises what an answer says went wrong, if anything did."""
    if error.code:
        raise error_from_wire(error.code, error.message, cause=error.cause, hint=error.hint)


async def patiently(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeats what fails for a passing reason: a topic just created has no leader for a moment."""
    for _ in range(TRIES):
        try:
            return await attempt()
        except TidelogError as error:
            if not error.retriable and not error.refresh_metadata:
                raise
        await asyncio.sleep(PAUSE_SECONDS)
    return await attempt()


async def create_topic(admin: AdminAsyncStub) -> None:
    """Creates the topic of this demo."""
    topic = NewTopic(name=TOPIC, partitions=PARTITIONS, replication_factor=1)
    answer = await admin.CreateTopics(CreateTopicsRequest(topics=[topic]), timeout=CALL_SECONDS)
    for result in answer.topics:
        refuse(result.error)


def batches() -> list[PartitionBatch]:
    """One batch a partition; all records of a key go to the same one."""
    builders: dict[int, BatchBuilder] = defaultdict(BatchBuilder)
    for key, value in ORDERS:
        partition = zlib.crc32(key.encode()) % PARTITIONS
        now_ms = time.time_ns() // 1_000_000
        builders[partition].append(value.encode(), key.encode(), [], now_ms)
    return [
        PartitionBatch(topic=TOPIC, partition=partition, batch=builder.build(Compression.NONE))
        for partition, builder in sorted(builders.items())
    ]


async def produce(broker: BrokerAsyncStub, batch: PartitionBatch) -> None:
    """Appends one batch; returns once the broker promises that it stays."""
    answer = await broker.Produce(ProduceRequest(partitions=[batch]), timeout=CALL_SECONDS)
    refuse(answer.error)
    for acknowledgement in answer.partitions:
        refuse(acknowledgement.error)


async def fetch(broker: BrokerAsyncStub) -> list[Record]:
    """Reads every partition from its start."""
    wanted = [FetchPartition(topic=TOPIC, partition=number) for number in range(PARTITIONS)]
    answer = await broker.Fetch(FetchRequest(partitions=wanted), timeout=CALL_SECONDS)
    refuse(answer.error)
    records: list[Record] = []
    for partition in answer.partitions:
        refuse(partition.error)
        records += decode_records(partition.records, TOPIC, partition.partition)
    return records


async def demonstrate(address: str) -> list[Record]:
    """Creates the topic, sends the orders, and reads back what the broker keeps of them."""
    channel = grpc_channel_factory()(address)
    try:
        broker = BrokerStub(channel)
        await create_topic(AdminStub(channel))
        for batch in batches():
            await patiently(partial(produce, broker, batch))
        return await patiently(partial(fetch, broker))
    finally:
        await channel.close()


def show(records: list[Record]) -> None:
    """Prints the records as a table, in the order of each partition."""
    head = ("partition", "offset", "time", "key", "value")
    rows = [
        (
            str(record.partition),
            str(record.offset),
            datetime.fromtimestamp(record.timestamp / 1000, UTC).strftime("%H:%M:%S.%f")[:-3],
            (record.key or b"").decode(),
            (record.value or b"").decode(),
        )
        for record in records
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, tuple("-" * width for width in widths), *rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def main() -> int:
    """Runs the demo against a node of its own, or against the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-server", help="use this node and leave the topic there")
    address = parser.parse_args().bootstrap_server
    try:
        if address:
            records = asyncio.run(demonstrate(address))
        else:
            with throw_away_node() as address:
                records = asyncio.run(demonstrate(address))
    except (grpc.aio.AioRpcError, TidelogError) as error:
        said = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
        print(f"The demo failed at {address}: {said}", file=sys.stderr)
        return 1
    print(f"{len(ORDERS)} records sent to topic '{TOPIC}', {len(records)} read back:\n")
    show(records)
    return 0 if len(records) == len(ORDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
