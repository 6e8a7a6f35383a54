"""A producer against a broker that does exactly what a test says, on the generated servicer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, NoReturn

import grpc
import pytest

from tidelog import AsyncProducer, Delivery, OutcomeUnknown
from tidelog.errors import InvalidProducerEpoch, Refused, TidelogError
from tidelog.producer import core
from tidelog.records.batch import read_header
from tidelog.records.decoder import decode_records
from tidelog.wire.v1 import (
    broker_pb2_grpc,
    common_pb2,
    handshake_pb2,
    metadata_pb2,
    produce_pb2,
    producer_ids_pb2,
)

TOPIC_ID: Final = b"0123456789abcdef"

Request = produce_pb2.ProduceRequest
Response = produce_pb2.ProduceResponse


async def _not_asked(*_: Any) -> NoReturn:
    raise AssertionError("a producer asks no such thing")


NOT_ASKED: Final[Any] = _not_asked


@pytest.fixture(autouse=True)
def _no_failure_is_kept() -> Iterator[None]:
    """A failure that was caught keeps its call, and so grpc's thread, until it is collected."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _one_batch_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts answer request by request, and their batches go as large ones do."""
    monkeypatch.setattr(core, "SMALL_REQUEST_BYTES", 0)


class Sent:
    """One batch as it came over the wire."""

    def __init__(self, item: produce_pb2.PartitionBatch) -> None:
        header = read_header(item.batch)
        self.partition = item.partition
        self.epoch = int(header.producer_epoch)
        self.sequence = int(header.base_sequence)
        self.values = [record.value for record in decode_records(item.batch, "t", 0)]

    def __repr__(self) -> str:
        return f"{self.values} as {self.epoch}:{self.sequence}"


Script = Callable[["ScriptedBroker", Request], Awaitable[Response | None]]


class ScriptedBroker(broker_pb2_grpc.BrokerServicer):
    """Knows one topic of two partitions; `script` answers each request, or None: never."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.sent: list[Sent] = []
        self.requests: list[Request] = []
        self.epoch = -1
        self.port = 0
        self.hold = asyncio.Event()
        self._arrived = asyncio.Condition()

    async def received(self, count: int) -> None:
        """Returns once so many requests have come."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    def tell(self) -> list[tuple[list[bytes | None], int, int]]:
        """What came: values, epoch, sequence."""
        return [(sent.values, sent.epoch, sent.sequence) for sent in self.sent]

    Produce = Fetch = FetchStream = ListOffsets = OffsetForLeaderEpoch = WatchMetadata = NOT_ASKED

    async def Handshake(self, request: Any, context: Any) -> handshake_pb2.HandshakeResponse:
        """Everybody is welcome."""
        return handshake_pb2.HandshakeResponse(cluster_id="c", protocol_version=1)

    async def Metadata(self, request: Any, context: Any) -> metadata_pb2.MetadataResponse:
        """This broker leads everything."""
        answer = metadata_pb2.MetadataResponse(cluster_id="c", revision=1)
        answer.brokers.add(broker_id=1, host="127.0.0.1", port=self.port)
        topic = answer.topics.add(name="t", topic_id=TOPIC_ID)
        for partition in range(2):
            topic.partitions.add(partition=partition, leader_id=1, leader_epoch=4)
        return answer

    async def InitProducerId(
        self, request: Any, context: Any
    ) -> producer_ids_pb2.InitProducerIdResponse:
        """The next epoch of the only producer."""
        self.epoch += 1
        return producer_ids_pb2.InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    async def ProduceStream(
        self, requests: AsyncIterator[Request], context: Any
    ) -> AsyncIterator[Response]:
        """Asks the script, request by request; an answer that is not due holds no other up."""
        answers: asyncio.Queue[Response | None] = asyncio.Queue()

        async def serve(request: Request) -> None:
            answer = await self.script(self, request)
            if answer is not None:
                answer.correlation_id = request.correlation_id
                await answers.put(answer)

        async def read() -> None:
            async with asyncio.TaskGroup() as group:
                async for request in requests:
                    self.requests.append(request)
                    self.sent.extend(Sent(item) for item in request.partitions)
                    async with self._arrived:
                        self._arrived.notify_all()
                    group.create_task(serve(request))
            await answers.put(None)

        reader = asyncio.create_task(read())
        try:
            while (answer := await answers.get()) is not None:
                yield answer
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


def acknowledged(request: Request, base_offset: int = 0) -> Response:
    """Every batch is written."""
    answer = Response()
    for item in request.partitions:
        answer.partitions.add(
            topic_id=item.topic_id,
            partition=item.partition,
            base_offset=base_offset,
            append_time_ms=-1,
        )
    return answer


def refused(request: Request, code: common_pb2.ErrorCode.ValueType) -> Response:
    """Every batch is refused."""
    answer = acknowledged(request)
    for ack in answer.partitions:
        ack.error.code = code
        ack.error.message = "as the script says"
    return answer


def values_of(request: Request) -> list[bytes | None]:
    return [value for item in request.partitions for value in Sent(item).values]


async def with_broker(
    script: Script,
    scenario: Callable[[ScriptedBroker, AsyncProducer], Coroutine[Any, Any, None]],
    **options: Any,
) -> ScriptedBroker:
    """Runs a scenario with a producer of a scripted broker."""
    broker = ScriptedBroker(script)
    server = grpc.aio.server()
    broker_pb2_grpc.add_BrokerServicer_to_server(broker, server)
    broker.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        producer: AsyncProducer = AsyncProducer(f"127.0.0.1:{broker.port}", linger_ms=0, **options)
        try:
            await scenario(broker, producer)
        finally:
            broker.hold.set()
            await producer._close(None)
    finally:
        await server.stop(None)
    return broker


async def always(broker: ScriptedBroker, request: Request) -> Response | None:
    return acknowledged(request)


def alone(producer: AsyncProducer, value: bytes, timeout: float = 60) -> Delivery:
    """One record as a batch of its own, to partition 0."""
    return producer.send_nowait("t", value, partition=0, delivery_timeout=timeout)


def test_an_expiry_in_flight_renumbers_what_was_certainly_not_written() -> None:
    """The second batch is never answered and expires; the third was refused for the gap."""

    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        if values_of(request) == [b"1"]:
            await broker.hold.wait()
            return None
        if values_of(request) != [b"0"] and broker.epoch == 0:
            return refused(request, common_pb2.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return acknowledged(request)

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        await producer.send("t", b"0", partition=0)
        handles = [alone(producer, b"1", 0.3), alone(producer, b"2"), alone(producer, b"3")]
        with pytest.raises(OutcomeUnknown, match="no answer came before its deadline"):
            await handles[0]
        assert not handles[1].done(), "the verdict of the gap is awaited first"
        await handles[1]
        await handles[2]

    broker = asyncio.run(with_broker(script, scenario, request_timeout_ms=600))
    assert broker.tell()[:4] == [([b"0"], 0, 0), ([b"1"], 0, 1), ([b"2"], 0, 2), ([b"3"], 0, 3)]
    assert broker.tell()[-2:] == [([b"2"], 1, 0), ([b"3"], 1, 1)]


def test_a_passing_refusal_keeps_the_order_and_the_numbers() -> None:
    seen: list[int] = []

    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        seen.append(Sent(request.partitions[0]).sequence)
        if seen.count(1) == 1 and seen[-1] == 1:
            return refused(request, common_pb2.NOT_ENOUGH_REPLICAS)
        if seen.count(1) == 1 and seen[-1] > 1:
            return refused(request, common_pb2.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return acknowledged(request, seen[-1])

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        await producer.send("t", b"0", partition=0)
        handles = [alone(producer, b"%d" % number) for number in (1, 2, 3)]
        assert [(await handle).offset for handle in handles] == [1, 2, 3]

    asyncio.run(with_broker(script, scenario))
    assert seen == [0, 1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("code", [common_pb2.DISK_FULL, common_pb2.SHUTTING_DOWN])
def test_refusals_of_a_whole_request_are_repeated(code: common_pb2.ErrorCode.ValueType) -> None:
    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        if len(broker.requests) > 1:
            return acknowledged(request)
        return Response(error=common_pb2.Error(code=code, message="not now"))

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        assert (await producer.send("t", b"x")).offset == 0

    broker = asyncio.run(with_broker(script, scenario))
    assert [sequence for _, _, sequence in broker.tell()] == [0, 0]


def test_a_fenced_producer_takes_nothing_more() -> None:
    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        return refused(request, common_pb2.INVALID_PRODUCER_EPOCH)

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        for _ in range(2):
            with pytest.raises(InvalidProducerEpoch):
                await producer.send("t", b"x")

    broker = asyncio.run(with_broker(script, scenario))
    assert len(broker.requests) == 1


def test_an_unknown_failure_of_the_server_is_an_unknown_outcome() -> None:
    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        return refused(request, common_pb2.UNKNOWN_SERVER_ERROR)

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        with pytest.raises(OutcomeUnknown, match="as the script says"):
            await producer.send("t", b"x")

    asyncio.run(with_broker(script, scenario))


def test_what_waits_while_a_request_is_under_way_becomes_the_next_one() -> None:
    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        if len(broker.requests) == 2:
            await broker.hold.wait()
        return acknowledged(request)

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        await producer.send("t", b"0", partition=0)
        first = producer.send_nowait("t", b"1", partition=0)
        await broker.received(2)
        rest = [producer.send_nowait("t", b"%d" % number, partition=0) for number in range(2, 9)]
        await asyncio.sleep(0)
        broker.hold.set()
        await asyncio.gather(*(handle_of(handle) for handle in [first, *rest]))

    broker = asyncio.run(with_broker(script, scenario))
    assert [sent.values for sent in broker.sent] == [
        [b"0"],
        [b"1"],
        [b"%d" % number for number in range(2, 9)],
    ]


async def handle_of(handle: Delivery) -> int | None:
    return (await handle).offset


def test_awaiting_tasks_share_one_request() -> None:
    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        await producer.send("t", b"0", partition=0)
        await producer.send("t", b"0", partition=1)
        await asyncio.gather(
            *(producer.send("t", b"%d" % task, partition=task % 2) for task in range(32))
        )
        assert len(broker.requests) == 3
        assert [len(sent.values) for sent in broker.sent[2:]] == [16, 16]

    asyncio.run(with_broker(always, scenario))


def test_a_throttled_producer_waits() -> None:
    times: list[float] = []

    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        times.append(asyncio.get_running_loop().time())
        answer = acknowledged(request)
        answer.throttle_ms = 200
        return answer

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        for _ in range(3):
            await producer.send("t", b"x")

    asyncio.run(with_broker(script, scenario))
    assert times[1] - times[0] >= 0.19
    assert times[2] - times[1] >= 0.19


def test_a_request_says_what_was_asked_for() -> None:
    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        await producer.send("t", b"x", partition=1)
        (request,) = broker.requests
        (item,) = request.partitions
        assert (request.acks, request.timeout_ms) == (common_pb2.ACKS_LEADER, 8_000)
        assert (item.topic_id, item.partition, item.leader_epoch) == (TOPIC_ID, 1, 4)
        assert broker.tell() == [([b"x"], -1, -1)]

    options = {"acks": 1, "request_timeout_ms": 10_000, "enable_idempotence": False}
    asyncio.run(with_broker(always, scenario, **options))


def test_closing_while_a_batch_is_unanswered() -> None:
    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        if values_of(request) == [b"0"]:
            return acknowledged(request)
        await broker.hold.wait()
        return None

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        await producer.send("t", b"0", partition=0)
        handles = [alone(producer, b"%d" % number) for number in range(1, 8)]
        await broker.received(6)
        with pytest.raises(OutcomeUnknown, match="7 records were not acknowledged"):
            await producer.close(timeout=0)
        verdicts: list[type[TidelogError]] = []
        for handle in handles:
            error = handle.exception()
            assert error is not None
            verdicts.append(type(error))
        assert verdicts[:5] == [OutcomeUnknown] * 5
        assert all(issubclass(verdict, Refused) for verdict in verdicts[5:])

    asyncio.run(with_broker(script, scenario))


def test_batches_of_one_request_are_repeated_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "SMALL_REQUEST_BYTES", 64 * 1024)

    async def script(broker: ScriptedBroker, request: Request) -> Response | None:
        answer = acknowledged(request)
        if len(broker.requests) == 2:
            answer.partitions[0].error.code = common_pb2.NOT_ENOUGH_REPLICAS
            for ack in answer.partitions[1:]:
                ack.error.code = common_pb2.OUT_OF_ORDER_SEQUENCE_NUMBER
        return answer

    async def scenario(broker: ScriptedBroker, producer: AsyncProducer) -> None:
        await producer.send("t", b"0", partition=0)
        for handle in [alone(producer, b"%d" % number) for number in range(1, 4)]:
            await handle

    broker = asyncio.run(with_broker(script, scenario))
    sent = [([b"%d" % number], 0, number) for number in range(4)]
    assert broker.tell() == sent + sent[1:]
    assert [len(request.partitions) for request in broker.requests] == [1, 3, 3]
