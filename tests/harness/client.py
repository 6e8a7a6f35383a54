"""A raw client: the generated stubs and the record codec, with nothing clever between.

Tests of the integration level speak to nodes through it, so that what they see is what stands on
the wire. Answers come back as messages; only `create` insists on success.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import TYPE_CHECKING

from grpc.aio import EOF, AioRpcError

from tidelog.channel_grpc import grpc_channel_factory
from tidelog.records.decoder import decode_records
from tidelog.records.record import Record
from tidelog.wire.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    broker_pb2_grpc,
    common_pb2,
    fetch_pb2,
    offsets_pb2,
    produce_pb2,
    producer_ids_pb2,
)

if TYPE_CHECKING:
    from grpc.aio import StreamStreamCall

    from tidelog.wire.v1.admin_pb2_grpc import AdminAsyncStub
    from tidelog.wire.v1.broker_pb2_grpc import BrokerAsyncStub


class EndOfStream(Exception):
    """The broker has ended the stream."""


def partition_batch(
    topic: str,
    batch: bytes,
    *,
    partition: int = 0,
    topic_id: bytes = b"",
    leader_epoch: int | None = None,
) -> produce_pb2.PartitionBatch:
    """One batch for one partition."""
    return produce_pb2.PartitionBatch(
        topic=topic, topic_id=topic_id, partition=partition, leader_epoch=leader_epoch, batch=batch
    )


def produce_request(
    *batches: produce_pb2.PartitionBatch,
    acks: common_pb2.Acks.ValueType = common_pb2.ACKS_ALL,
    correlation_id: int = 0,
    timeout_ms: int = 0,
) -> produce_pb2.ProduceRequest:
    """One produce request."""
    return produce_pb2.ProduceRequest(
        correlation_id=correlation_id, acks=acks, timeout_ms=timeout_ms, partitions=batches
    )


def error_of(refusal: AioRpcError) -> common_pb2.Error:
    """What the broker says of a call that it refused as a whole."""
    trailing = dict(refusal.trailing_metadata() or ())
    content = trailing["tidelog-error-bin"]
    assert isinstance(content, bytes)
    return common_pb2.Error.FromString(content)


class Client:
    """Connected to one address, for as long as the `async with` block lasts."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel = grpc_channel_factory()(address)
        self.broker: BrokerAsyncStub = broker_pb2_grpc.BrokerStub(self.channel)
        self.admin: AdminAsyncStub = admin_pb2_grpc.AdminStub(self.channel)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.channel.close()

    async def create(
        self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> bytes:
        """Creates a topic; its id."""
        new = admin_pb2.NewTopic(name=topic, partitions=partitions, configs=configs)
        answer = await self.admin.CreateTopics(admin_pb2.CreateTopicsRequest(topics=[new]))
        (result,) = answer.topics
        assert not result.HasField("error"), result.error
        return result.topic_id

    async def delete(self, topic: str) -> None:
        """Deletes a topic."""
        answer = await self.admin.DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[topic]))
        (result,) = answer.topics
        assert not result.HasField("error"), result.error

    async def alter(self, topic: str, **configs: str) -> None:
        """Sets configs of a topic, by their snake_case names."""
        alteration = admin_pb2.ResourceAlteration()
        alteration.resource.type = admin_pb2.CONFIG_RESOURCE_TOPIC
        alteration.resource.name = topic
        for key, value in configs.items():
            alteration.alterations.add(key=key.replace("_", "."), value=value)
        request = admin_pb2.AlterConfigsRequest(resources=[alteration])
        (result,) = (await self.admin.AlterConfigs(request)).resources
        assert not result.HasField("error"), result.error

    async def produce(
        self,
        topic: str,
        batch: bytes,
        *,
        partition: int = 0,
        acks: common_pb2.Acks.ValueType = common_pb2.ACKS_ALL,
        timeout_ms: int = 0,
    ) -> produce_pb2.PartitionAck:
        """The verdict on one batch."""
        request = produce_request(
            partition_batch(topic, batch, partition=partition), acks=acks, timeout_ms=timeout_ms
        )
        (ack,) = (await self.broker.Produce(request)).partitions
        return ack

    async def fetch(
        self, topic: str, offset: int = 0, *, partition: int = 0, max_bytes: int = 0
    ) -> fetch_pb2.PartitionRecords:
        """What one partition has from an offset on, as much as fits."""
        request = fetch_pb2.FetchRequest()
        request.partitions.add(
            topic=topic, partition=partition, fetch_offset=offset, max_bytes=max_bytes
        )
        (answer,) = (await self.broker.Fetch(request)).partitions
        return answer

    async def fetch_all(self, topic: str, partition: int = 0) -> list[Record]:
        """Every record of one partition, from its log start to its high watermark."""
        offset = (await self.list_offset(topic, -2, partition)).offset
        end = (await self.list_offset(topic, -1, partition)).offset
        found: list[Record] = []
        while offset < end:
            answer = await self.fetch(topic, offset, partition=partition)
            assert not answer.HasField("error"), answer.error
            records = decode_records(answer.records, topic, partition, start_offset=offset)
            assert records, f"nothing at {offset} of {topic}-{partition}, which ends at {end}"
            found += records
            offset = records[-1].offset + 1
        return found

    async def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values of every record of one partition."""
        return [record.value for record in await self.fetch_all(topic, partition)]

    async def list_offset(
        self, topic: str, timestamp_ms: int, partition: int = 0
    ) -> offsets_pb2.PartitionOffset:
        """The answer of ListOffsets for one partition: -1 latest, -2 earliest, -3 the newest."""
        request = offsets_pb2.ListOffsetsRequest()
        request.partitions.add(topic=topic, partition=partition, timestamp_ms=timestamp_ms)
        (answer,) = (await self.broker.ListOffsets(request)).partitions
        return answer

    async def new_producer_id(self) -> int:
        """A producer id that nobody had before."""
        answer = await self.broker.InitProducerId(producer_ids_pb2.InitProducerIdRequest())
        assert not answer.HasField("error"), answer.error
        return answer.producer_id

    def produce_stream(self) -> ProduceStreamClient:
        """Opens a produce stream."""
        return ProduceStreamClient(self.broker)

    def fetch_stream(self) -> FetchStreamClient:
        """Opens a fetch stream."""
        return FetchStreamClient(self.broker)

    async def fill(self, places: int) -> list[FetchStreamClient]:
        """Streams that hold so many of a listener's places for calls."""
        streams = []
        for _ in range(places):
            stream = self.fetch_stream()
            await stream.say(fetch_pb2.FetchPartition(topic="gone"), credit_bytes=1)
            assert (await stream.one()).HasField("error")
            streams.append(stream)
        return streams


class ProduceStreamClient:
    """One produce stream."""

    def __init__(self, broker: BrokerAsyncStub) -> None:
        self.call: StreamStreamCall[produce_pb2.ProduceRequest, produce_pb2.ProduceResponse] = (
            broker.ProduceStream()
        )

    async def abandon(self) -> None:
        """Cancels the call, and waits until gRPC's own task for it has ended."""
        self.call.cancel()
        with contextlib.suppress(AioRpcError, asyncio.CancelledError):
            await self.call.wait_for_connection()

    async def send(self, *requests: produce_pb2.ProduceRequest) -> None:
        """Sends requests one after the other."""
        for request in requests:
            await self.call.write(request)

    async def answer(self) -> produce_pb2.ProduceResponse:
        """The next answer; EndOfStream where there is none."""
        response = await self.call.read()
        if not isinstance(response, produce_pb2.ProduceResponse):
            raise EndOfStream
        return response

    async def finish(self) -> list[produce_pb2.ProduceResponse]:
        """Half-closes; the answers that were still owed."""
        await self.call.done_writing()
        owed = []
        while (response := await self.call.read()) is not EOF:
            assert isinstance(response, produce_pb2.ProduceResponse)
            owed.append(response)
        return owed


class FetchStreamClient:
    """One fetch stream."""

    def __init__(self, broker: BrokerAsyncStub) -> None:
        self.call: StreamStreamCall[fetch_pb2.FetchStreamRequest, fetch_pb2.FetchStreamResponse] = (
            broker.FetchStream()
        )

    async def say(
        self,
        *start: fetch_pb2.FetchPartition,
        credit_bytes: int = 0,
        stop: tuple[int, ...] = (),
        options: fetch_pb2.FetchOptions | None = None,
    ) -> None:
        """Sends one request."""
        await self.call.write(
            fetch_pb2.FetchStreamRequest(
                credit_bytes=credit_bytes, start=start, stop=stop, options=options
            )
        )

    async def answer(self) -> fetch_pb2.FetchStreamResponse:
        """The next answer; EndOfStream where there is none."""
        response = await self.call.read()
        if not isinstance(response, fetch_pb2.FetchStreamResponse):
            raise EndOfStream
        return response

    async def one(self) -> fetch_pb2.PartitionRecords:
        """The next answer, which must concern one partition."""
        (answer,) = (await self.answer()).partitions
        return answer

    async def take(self, count: int) -> list[fetch_pb2.PartitionRecords]:
        """The next answers of partitions, exactly so many, in one message or in several."""
        taken: list[fetch_pb2.PartitionRecords] = []
        while len(taken) < count:
            taken += (await self.answer()).partitions
        assert len(taken) == count, f"{len(taken)} came where {count} were expected"
        return taken

    async def finish(self) -> list[fetch_pb2.FetchStreamResponse]:
        """Half-closes; what came before the broker ended the stream too."""
        await self.call.done_writing()
        late = []
        while (response := await self.call.read()) is not EOF:
            assert isinstance(response, fetch_pb2.FetchStreamResponse)
            late.append(response)
        return late
