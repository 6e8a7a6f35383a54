"""Hostile input to a node in a process of its own: typed errors, bounded memory, whole logs.

TIDELOG_TEST_HOSTILE=100000 chooses another number of mutated batches than the usual one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc.aio import AioRpcError
from storage_kit.batches import batch

from harness.client import Client, error_of, partition_batch, produce_request
from harness.hostile import fill, mutated_batch, mutated_bytes, valid_batches
from harness.processes import ProcessNode, running_node
from tidelog.records.batch import batch_headers, check_batch
from tidelog.wire.envelopes import varint
from tidelog.wire.v1 import (
    admin_pb2,
    broker_pb2,
    common_pb2,
    fetch_pb2,
    produce_pb2,
)
from tidelog_broker.api.request_limits import REQUEST_ITEMS_MAX

BATCHES: Final = int(os.environ.get("TIDELOG_TEST_HOSTILE", "20000"))
BATCHES_A_REQUEST: Final = 100
PARTITIONS: Final = 8
MESSAGES: Final = 2_000
CALLS: Final = 3_000
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024
CALL_LIMIT_S: Final = 60.0

Scenario = Callable[[Client], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessNode]:
    data_dir = tmp_path_factory.mktemp("hostile") / "data"
    with running_node(data_dir, "--config", "log.format=json") as running:
        yield running


def survives(node: ProcessNode, scenario: Scenario) -> None:
    """Runs a scenario and checks that the node is as well as before."""

    async def main() -> None:
        async with Client(node.bootstrap) as client:
            await warm_up(client)
            before = node.resident_bytes
            await scenario(client)
            await check_logs(client)
            grown = node.resident_bytes - before
            print(f"the node grew by {grown / 1e6:.1f} MB")
            assert grown < GROWTH_BYTES_MAX

    try:
        asyncio.run(main())
    finally:
        gc.collect()
    assert not node.has_ended
    events = [json.loads(line) for line in node.log_lines()]
    assert [event for event in events if event["level"] not in ("INFO", "DEBUG")] == []


async def warm_up(client: Client) -> None:
    """Makes the topic unless it is there, and the node as large as honest work makes it."""
    for partition in range(PARTITIONS):
        await client.produce("hostile", batch(b"x"), partition=partition)
    if (await client.fetch("hostile", partition=PARTITIONS - 1)).HasField("error"):
        await client.delete("hostile")
        await client.create("hostile", PARTITIONS)
    for number in range(50):
        content = batch(*[b"x" * 500] * 100, producer=(1_000 + number, 0, 0))
        for partition in range(PARTITIONS):
            await client.produce("hostile", content, partition=partition)


async def check_logs(client: Client) -> None:
    """Every log reads from its start to its end, batch by batch, and takes another record."""
    for partition in range(PARTITIONS):
        ack = await client.produce("hostile", batch(b"after"), partition=partition)
        assert not ack.HasField("error"), ack.error
        offset = 0
        while offset <= ack.base_offset:
            answer = await client.fetch("hostile", offset, partition=partition)
            assert not answer.HasField("error"), answer.error
            position = 0
            for header in batch_headers(answer.records, whole=True):
                check_batch(answer.records, position)
                assert header.base_offset == offset
                offset, position = header.next_offset, position + header.size
            assert position, f"nothing at {offset} of partition {partition}"


def check_typed(error: common_pb2.Error) -> None:
    """An error with a code of the table, and in words."""
    assert error.code in common_pb2.ErrorCode.values(), error
    assert error.code not in (common_pb2.NONE, common_pb2.UNKNOWN_SERVER_ERROR), error
    assert error.message


def test_mutated_batches_get_typed_errors(node: ProcessNode, random_source: random.Random) -> None:
    verdicts: Counter[str] = Counter()

    async def scenario(client: Client) -> None:
        originals = valid_batches()
        window = asyncio.Semaphore(8)
        requests = BATCHES // BATCHES_A_REQUEST

        async def send() -> AsyncIterator[produce_pb2.ProduceRequest]:
            for number in range(requests):
                await window.acquire()
                items = [
                    partition_batch(
                        "hostile",
                        mutated_batch(originals, random_source),
                        partition=random_source.randrange(PARTITIONS),
                    )
                    for _ in range(BATCHES_A_REQUEST)
                ]
                yield produce_request(*items, correlation_id=number)

        async for answer in client.broker.ProduceStream(send()):
            window.release()
            assert not answer.HasField("error"), answer.error
            assert len(answer.partitions) == BATCHES_A_REQUEST
            for ack in answer.partitions:
                if ack.HasField("error"):
                    check_typed(ack.error)
                verdicts[common_pb2.ErrorCode.Name(ack.error.code)] += 1

    survives(node, scenario)
    print(dict(verdicts))
    assert verdicts.total() == BATCHES // BATCHES_A_REQUEST * BATCHES_A_REQUEST
    assert verdicts["CORRUPT_MESSAGE"] > BATCHES // 10
    assert verdicts["NONE"] > 0, "some mutations leave a batch that is fine as far as brokers look"


def test_mutated_messages_end_their_own_call_only(
    node: ProcessNode, random_source: random.Random
) -> None:
    """Bytes that are no protobuf message, or quite another one, through a stub without types."""
    request = produce_request(
        *(partition_batch("hostile", content, partition=1) for content in valid_batches()),
        correlation_id=7,
    )
    fetch = fetch_pb2.FetchStreamRequest(credit_bytes=1_000)
    fetch.start.add(topic="hostile", session=3)

    async def scenario(client: Client) -> None:
        for method, original in (("Produce", request), ("Fetch", fetch)):
            call: Any = client.channel.unary_unary(f"/tidelog.wire.v1.Broker/{method}")
            content = original.SerializeToString()
            for _ in range(MESSAGES // 4):
                await attempt(call(mutated_bytes(content, random_source), timeout=CALL_LIMIT_S))
        for method, original in (("ProduceStream", request), ("FetchStream", fetch)):
            stream: Any = client.channel.stream_stream(f"/tidelog.wire.v1.Broker/{method}")
            content = original.SerializeToString()
            for _ in range(MESSAGES // 4):
                await attempt(exchange(stream, mutated_bytes(content, random_source)))

    survives(node, scenario)


async def exchange(stream: Any, content: bytes) -> None:
    """One message on a stream of its own, to its end."""
    call = stream(timeout=CALL_LIMIT_S)
    await call.write(content)
    await call.done_writing()
    while await call.read() is not grpc.aio.EOF:
        pass
    assert await call.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)


async def attempt(call: Any) -> None:
    """Awaits a call that may be refused in words."""
    try:
        await call
    except AioRpcError as refusal:
        check_typed(error_of(refusal))


def request_types() -> dict[str, type[Message]]:
    """The request of every unary call that clients may make, by its path."""
    services = (
        broker_pb2.DESCRIPTOR.services_by_name["Broker"],
        admin_pb2.DESCRIPTOR.services_by_name["Admin"],
    )
    return {
        f"/{service.full_name}/{method.name}": GetMessageClass(method.input_type)
        for service in services
        for method in service.methods
        if not method.client_streaming and not method.server_streaming
    }


def errors_in(message: Message) -> Iterator[common_pb2.Error]:
    """Every error that an answer carries, however deep."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for item in [value] if isinstance(value, Message) else value:
            if isinstance(item, common_pb2.Error):
                yield item
            else:
                yield from errors_in(item)


def test_absurd_values_get_typed_errors(node: ProcessNode, random_source: random.Random) -> None:
    codes: Counter[str] = Counter()

    async def scenario(client: Client) -> None:
        methods = {
            method.name: GetMessageClass(method.output_type)
            for file in (broker_pb2, admin_pb2)
            for service in file.DESCRIPTOR.services_by_name.values()
            for method in service.methods
        }
        paths = request_types()
        for number in range(CALLS):
            path = list(paths)[number % len(paths)]
            request = paths[path]()
            fill(request, random_source)
            call: Any = client.channel.unary_unary(
                path,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=methods[path.rpartition("/")[2]].FromString,
            )
            try:
                answer = await call(request, timeout=CALL_LIMIT_S)
            except AioRpcError as refusal:
                check_typed(error_of(refusal))
                codes["call refused"] += 1
                continue
            for error in errors_in(answer):
                check_typed(error)
                codes[common_pb2.ErrorCode.Name(error.code)] += 1

    survives(node, scenario)
    print(dict(codes))
    assert codes.total() > CALLS // 2


def too_many_items(method: Any) -> bytes:
    """A request of one call with more items in its first list than a broker serves."""
    lists = [
        field
        for field in method.input_type.fields
        # (Entries of a map that are alike become one.)
        if field.is_repeated
        and not (field.message_type and field.message_type.GetOptions().map_entry)
    ]
    item = varint(lists[0].number << 3 | 2) + b"\x00" if lists else b""
    return item * (REQUEST_ITEMS_MAX + 1)


def test_requests_of_too_many_items_are_not_served(node: ProcessNode) -> None:
    """Two bytes each on the wire, a hundred each once they are read, and an answer each."""
    contents = {
        f"/{service.full_name}/{method.name}": too_many_items(method)
        for file in (broker_pb2, admin_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }

    async def scenario(client: Client) -> None:
        for path, content in contents.items():
            if not content:
                continue
            stream: Any = client.channel.stream_stream(path)
            call = stream(timeout=CALL_LIMIT_S)
            await call.write(content)
            await call.done_writing()
            answers = b""
            # gRPC raises here for some kinds of calls and not for others.
            with contextlib.suppress(AioRpcError):
                while (answer := await call.read()) is not grpc.aio.EOF:
                    answers += answer
            refusal = answers.decode(errors="replace") + (await call.details() or "")
            assert "more than 100000 items is not served" in refusal, path

    assert sum(map(bool, contents.values())) >= 11
    survives(node, scenario)
