"""The simulated network under faults: what a cut, a kill and a slow reader look like to both ends.

What it has in common with grpc.aio is in tests/contract/test_transport_contract.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, cast

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc.aio import AioRpcError

from simulation.echo import EchoServicer, EchoStub, Waiting, add_EchoServicer_to_server, say
from simulation.network import Weather
from simulation.process import Process
from simulation.world import World, run
from tidelog.wire.v1 import broker_pb2_grpc, handshake_pb2, metadata_pb2, produce_pb2

ADDRESS = "server:9092"
CALM = Weather(slow_chance=0.0)


class Pair:
    """A server process and a client on two hosts."""

    def __init__(self, world: World, servicer: Any) -> None:
        self.world = world
        self.servicer = servicer
        self.server: Process = world.process("server")
        self.server.spawn(self._serve())
        self.channel = world.network.host("client").channel_factory(ADDRESS)
        self.stub: Any = EchoStub(self.channel)

    async def _serve(self) -> None:
        server = self.world.network.host("server").server_factory()
        add_EchoServicer_to_server(self.servicer, server)
        server.add_insecure_port("0.0.0.0:9092")
        await server.start()
        await server.wait_for_termination()

    def restart(self) -> None:
        """Another process takes the port."""
        self.server = self.world.process("server")
        self.server.spawn(self._serve())

    async def expect(self, text: str) -> None:
        """A call that goes well."""
        answer = await self.stub.Unary(say(text), timeout=60, wait_for_ready=True)
        assert answer.value == text


async def failure(call: Any) -> grpc.StatusCode:
    with pytest.raises(AioRpcError) as raised:
        await call
    return raised.value.code()


Act = Callable[[Pair], Coroutine[Any, Any, Any]]


def play(act: Act, servicer: type[Any] = EchoServicer, *, weather: Weather = CALM) -> None:
    """Run the same act under a few seeds."""

    async def scenario(world: World) -> None:
        pair = Pair(world, servicer())
        await pair.expect("warm")
        await act(pair)

    for seed in range(5):
        run(scenario, seed, world=World(seed, weather=weather))


class _HalfABroker(broker_pb2_grpc.BrokerServicer):
    async def Handshake(
        self, request: handshake_pb2.HandshakeRequest, context: Any
    ) -> handshake_pb2.HandshakeResponse:
        return handshake_pb2.HandshakeResponse(cluster_id=f"for {request.client_id}")

    async def ProduceStream(
        self, request_iterator: Any, context: Any
    ) -> AsyncIterator[produce_pb2.ProduceResponse]:
        async for request in request_iterator:
            yield produce_pb2.ProduceResponse(correlation_id=request.correlation_id)

    async def WatchMetadata(
        self, request: metadata_pb2.WatchMetadataRequest, context: Any
    ) -> AsyncIterator[metadata_pb2.MetadataUpdate]:
        for revision in range(3):
            yield metadata_pb2.MetadataUpdate(revision=revision)


def test_generated_stubs_and_servicers_run_unchanged() -> None:
    async def scenario(world: World) -> None:
        server = world.network.host("server").server_factory()
        broker_pb2_grpc.add_BrokerServicer_to_server(cast("Any", _HalfABroker)(), server)
        server.add_insecure_port("0.0.0.0:9092")
        await server.start()
        channel = world.network.host("client").channel_factory(ADDRESS)
        stub = broker_pb2_grpc.BrokerStub(channel)
        hello = handshake_pb2.HandshakeRequest(client_id="me")
        assert (await stub.Handshake(hello, timeout=5)).cluster_id == "for me"
        produce = stub.ProduceStream()
        await produce.write(produce_pb2.ProduceRequest(correlation_id=7))
        answer = await produce.read()
        assert isinstance(answer, produce_pb2.ProduceResponse)
        assert answer.correlation_id == 7
        await produce.done_writing()
        watch = stub.WatchMetadata(metadata_pb2.WatchMetadataRequest())
        assert [update.revision async for update in watch] == [0, 1, 2]
        missing = stub.Metadata(metadata_pb2.MetadataRequest(), timeout=5)
        assert await failure(missing) == grpc.StatusCode.UNIMPLEMENTED
        await channel.close()
        await server.stop(None)

    run(scenario, 0)


def test_a_short_cut_only_delays_and_keeps_order() -> None:
    async def act(pair: Pair) -> None:
        stream = pair.stub.Both()
        await stream.write(say("0"))
        assert (await stream.read()).value == "0"
        pair.world.network.cut(["client"], ["server"])
        before = pair.world.now()
        for number in range(1, 10):
            await stream.write(say(str(number)))
        await asyncio.sleep(2)
        pair.world.network.heal()
        heard = [(await stream.read()).value for _ in range(1, 10)]
        assert heard == [str(number) for number in range(1, 10)]
        assert pair.world.now() - before >= 2
        stream.cancel()

    play(act)


@pytest.mark.parametrize("one_way", [("client", "server"), ("server", "client"), None])
def test_a_long_cut_breaks_both_ends_by_keepalive(one_way: tuple[str, str] | None) -> None:
    async def act(pair: Pair) -> None:
        stream = pair.stub.Both()
        assert (await stream.read()).value == "first"
        begun = pair.world.now()
        source, target = one_way or ("client", "server")
        pair.world.network.cut([source], [target], one_way=one_way is not None)
        assert await failure(stream.read()) == grpc.StatusCode.UNAVAILABLE
        assert 3 <= pair.world.now() - begun <= 13.1
        await pair.servicer.ended.wait()
        assert pair.world.now() - begun <= 13.1
        pair.world.network.heal()

    play(act, _Streaming)


class _Streaming(Waiting):
    async def Unary(self, request: StringValue, context: Any) -> StringValue:
        return request


def test_calls_during_a_cut_fail_after_the_attempt_to_connect() -> None:
    async def act(pair: Pair) -> None:
        pair.world.network.cut(["client"], ["server"])
        await asyncio.sleep(20)
        begun = pair.world.now()
        call = pair.stub.Unary(say(""), timeout=30)
        assert await failure(call) == grpc.StatusCode.UNAVAILABLE
        assert pair.world.now() - begun <= CALM.connect_timeout_s + 0.1
        again = pair.stub.Unary(say(""), timeout=30)
        assert await failure(again) == grpc.StatusCode.UNAVAILABLE
        assert pair.world.now() - begun <= CALM.connect_timeout_s + 0.1
        pair.world.network.heal()
        healed = pair.world.now()
        await pair.expect("after")
        assert pair.world.now() - healed <= 3

    play(act)


def test_a_killed_server_is_noticed_at_once_and_its_handler_ends_without_a_word() -> None:
    async def act(pair: Pair) -> None:
        stream = pair.stub.Both()
        assert (await stream.read()).value == "first"
        begun = pair.world.now()
        pair.server.kill()
        assert await failure(stream.read()) == grpc.StatusCode.UNAVAILABLE
        assert pair.world.now() - begun < 0.1
        assert not pair.servicer.ended.is_set()
        refused = pair.stub.Unary(say(""), timeout=5)
        assert await failure(refused) == grpc.StatusCode.UNAVAILABLE
        pair.restart()
        await pair.expect("restarted")

    play(act, _Streaming)


def test_a_host_without_power_is_noticed_by_keepalive_alone() -> None:
    async def act(pair: Pair) -> None:
        stream = pair.stub.Both()
        assert (await stream.read()).value == "first"
        begun = pair.world.now()
        pair.world.network.darken("server")
        pair.server.kill()
        assert await failure(stream.read()) == grpc.StatusCode.UNAVAILABLE
        assert pair.world.now() - begun >= 3
        pair.world.network.relight("server")
        pair.restart()
        await pair.expect("restarted")

    play(act, _Streaming)


def test_a_server_that_dies_while_it_is_dialled_fails_the_waiting_call() -> None:
    async def scenario(world: World, alive_s: float) -> None:
        pair = Pair(world, EchoServicer())
        await asyncio.sleep(1)
        call = pair.stub.Unary(say(""), timeout=1000)
        await asyncio.sleep(alive_s)
        pair.server.kill()
        begun = world.now()
        with contextlib.suppress(AioRpcError):
            await call
        assert world.now() - begun <= CALM.connect_timeout_s + 0.1

    for seed in range(40):
        world = World(seed, weather=CALM)
        run(partial(scenario, alive_s=seed * 1e-4), seed, world=world)


def test_a_deadline_reaches_both_ends_without_a_word_between_them() -> None:
    class Slow(_Streaming):
        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            if request.value == "slow":
                await self._wait(context)
            return request

    async def act(pair: Pair) -> None:
        call = pair.stub.Unary(say("slow"), timeout=1.0)
        await pair.servicer.begun.wait()
        pair.world.network.cut(["client"], ["server"])
        assert await failure(call) == grpc.StatusCode.DEADLINE_EXCEEDED
        await pair.servicer.ended.wait()
        assert pair.world.now() < 2
        pair.world.network.heal()

    play(act, Slow)


def test_a_killed_client_cancels_its_handlers() -> None:
    async def act(pair: Pair) -> None:
        client = pair.world.process("other-client")

        async def call() -> None:
            stub: Any = EchoStub(pair.world.network.host("other").channel_factory(ADDRESS))
            await stub.Both().read()
            await asyncio.Event().wait()

        client.spawn(call())
        await pair.servicer.begun.wait()
        client.kill()
        await pair.servicer.ended.wait()
        assert pair.servicer.cancelled

    play(act, _Streaming)


def test_a_paused_server_answers_late_or_is_given_up() -> None:
    async def act(pair: Pair) -> None:
        pair.server.pause()
        call = pair.stub.Unary(say("patience"), timeout=60)
        await asyncio.sleep(2)
        assert not call.done()
        pair.server.resume()
        assert (await call).value == "patience"
        pair.server.pause()
        begun = pair.world.now()
        call = pair.stub.Unary(say("gone"), timeout=60)
        assert await failure(call) == grpc.StatusCode.UNAVAILABLE
        assert 3 <= pair.world.now() - begun <= 13.1
        pair.server.resume()
        await pair.expect("awake")

    play(act)


def test_loss_delays_but_neither_drops_nor_repeats_nor_reorders() -> None:
    async def act(pair: Pair) -> None:
        async def numbers() -> AsyncIterator[StringValue]:
            for number in range(200):
                yield say(str(number))

        heard = [answer.value async for answer in pair.stub.Both(numbers())]
        assert heard == [str(number) for number in range(200)]

    play(act, weather=Weather(loss_chance=0.2, slow_chance=0.2))


def test_write_waits_until_the_other_side_reads() -> None:
    window = 1000

    class Deaf(EchoServicer):
        def __init__(self) -> None:
            self.listen = asyncio.Event()

        async def Up(self, requests: AsyncIterator[StringValue], context: Any) -> StringValue:
            await self.listen.wait()
            return say(str(len([request async for request in requests])))

    async def act(pair: Pair) -> None:
        call = pair.stub.Up()
        written = 0

        async def writes() -> None:
            nonlocal written
            for _ in range(50):
                await call.write(say("x" * 98))
                written += 1
            await call.done_writing()

        writer = asyncio.create_task(writes())
        await asyncio.sleep(5)
        assert written == window // 100
        pair.servicer.listen.set()
        await writer
        assert (await call).value == "50"

    play(act, Deaf, weather=Weather(slow_chance=0.0, window_bytes=window))


def test_a_message_larger_than_the_window_still_passes() -> None:
    async def act(pair: Pair) -> None:
        stream = pair.stub.Both()
        for _ in range(3):
            await stream.write(say("x" * 10_000))
            assert len((await stream.read()).value) == 10_000
        await stream.done_writing()

    play(act, weather=Weather(slow_chance=0.0, window_bytes=100))


def test_an_error_may_overtake_messages_but_an_ok_never_does() -> None:
    class Ending(EchoServicer):
        async def Down(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:
            for _ in range(5):
                yield request
            if request.value == "abort":
                await context.abort(grpc.StatusCode.ABORTED, "over")

    heard: dict[str, set[int]] = {"abort": set(), "ok": set()}

    async def act(pair: Pair) -> None:
        for how, counts in heard.items():
            call = pair.stub.Down(say(how))
            await asyncio.sleep(1)
            count = 0
            with contextlib.suppress(AioRpcError):
                async for _ in call:
                    count += 1
            counts.add(count)
            expected = grpc.StatusCode.ABORTED if how == "abort" else grpc.StatusCode.OK
            assert await call.code() == expected

    play(act, Ending)
    assert heard["ok"] == {5}
    assert heard["abort"] == {0, 5}


def test_messages_are_copies() -> None:
    kept: list[StringValue] = []

    class Keeper(EchoServicer):
        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            kept.append(request)
            return request

    async def act(pair: Pair) -> None:
        request = say("before")
        answer = await pair.stub.Unary(request)
        request.value = "after"
        assert kept[-1].value == answer.value == "before"
        answer.value = "changed"
        assert kept[-1].value == "before"

    play(act, Keeper)


def test_a_port_has_one_owner() -> None:
    async def act(pair: Pair) -> None:
        other = pair.world.network.host("server").server_factory()
        with pytest.raises(RuntimeError, match="it is taken"):
            other.add_insecure_port("127.0.0.1:9092")
        first = other.add_insecure_port("127.0.0.1:0")
        assert first not in (0, other.add_insecure_port("127.0.0.1:0"))

    play(act)


def test_a_handler_that_fails_unexpectedly_is_remembered() -> None:
    class Failing(EchoServicer):
        async def Down(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:
            raise ValueError("broken inside")
            yield request

    async def act(pair: Pair) -> None:
        assert await failure(pair.stub.Down(say("")).read()) == grpc.StatusCode.UNKNOWN
        assert pair.world.network.handler_errors == [
            "/tidelog.test.Echo/Down: ValueError('broken inside')"
        ]

    play(act, Failing)
