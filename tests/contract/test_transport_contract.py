"""One contract for both transports: what a stub and a servicer may rely on, over TCP and simulated.

Each case is a coroutine that is given a transport. The simulated network earns its trust here: a
behaviour that services rely on gets a case, and the case must hold on the real one too.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue
from grpc.aio import EOF, AioRpcError

from simulation.echo import EchoServicer, Served, Waiting, many, say
from simulation.network import Host, Weather
from simulation.serving import SimulatedServing
from simulation.world import World, run
from tidelog.channel import ChannelFactory
from tidelog.channel_grpc import ChannelOptions, grpc_channel_factory
from tidelog_runtime.adapters.grpc_serving import AddressUnavailable, GrpcServing, ServerLimits
from tidelog_runtime.serving import Serving

#: No limit on speed: it turns a wait that would never end into a failure.
HANGS_AFTER_S = 60
SMALL_LIMIT = 1024 * 1024
LARGE_LIMIT = 8 * 1024 * 1024


class Transport:
    """Where a case runs."""

    def __init__(self, serving: Serving, channel_factory: ChannelFactory) -> None:
        self._serving = serving
        self._channel_factory = channel_factory

    def serve(self, servicer: Any) -> Served:
        """A listener with this servicer, and a stub for it."""
        return Served(self._serving, self._channel_factory, servicer)


def over_tcp() -> Transport:
    """Loopback sockets."""
    return Transport(
        GrpcServing(ServerLimits(request_bytes_max=SMALL_LIMIT)),
        grpc_channel_factory(ChannelOptions(message_bytes_max=LARGE_LIMIT)),
    )


def simulated(host: Host) -> Transport:
    """The simulated network."""
    return Transport(SimulatedServing(host), host.channel_factory)


Case = Callable[[Transport], Coroutine[Any, Any, None]]


@pytest.fixture(params=["grpc", "simulated-1", "simulated-2", "simulated-3"])
def check(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Callable[[Case], None]:
    """Runs a case on one transport; on the simulated one under several seeds."""

    def on_grpc(case: Case) -> None:
        async def main() -> None:
            async with asyncio.timeout(HANGS_AFTER_S):
                await case(over_tcp())

        try:
            asyncio.run(main())
        finally:
            # A caught or logged error keeps its call, and so grpc's poller thread, until it is
            # collected.
            caplog.clear()
            gc.collect()

    def in_a_simulation(case: Case) -> None:
        world = World(int(request.param[-1]), weather=Weather(max_message_bytes=SMALL_LIMIT))
        run(lambda world: case(simulated(world.network.host("here"))), 0, world=world)

    return on_grpc if request.param == "grpc" else in_a_simulation


async def status_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(AioRpcError) as raised:
        await call
    code = raised.value.code()
    assert await call.code() == code
    return code


def test_all_four_kinds_answer_in_order(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        async with transport.serve(EchoServicer()) as served:
            call = served.stub.Unary(say("hello"), timeout=20)
            assert (await call).value == "hello"
            assert (await call).value == "hello"
            assert await call.code() == grpc.StatusCode.OK
            down = [answer.value async for answer in served.stub.Down(say("50"), timeout=20)]
            assert down == [str(number) for number in range(50)]
            assert (await served.stub.Up(many(3), timeout=20)).value == "0,1,2"
            both = [answer.value async for answer in served.stub.Both(many(50), timeout=20)]
            assert both == down

    check(case)


def test_write_read_and_half_close(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        async with transport.serve(EchoServicer()) as served:
            call = served.stub.Both(timeout=20)
            for number in range(5):
                await call.write(say(str(number)))
                assert (await call.read()).value == str(number)
            await call.done_writing()
            await call.done_writing()
            assert await call.read() is EOF
            assert await call.read() is EOF
            assert await call.code() == grpc.StatusCode.OK
            with pytest.raises(asyncio.InvalidStateError):
                await call.write(say("late"))

    check(case)


def test_a_servicer_may_read_and_write_through_its_context(check: Callable[[Case], None]) -> None:
    class ReaderWriter(EchoServicer):
        async def Both(self, requests: Any, context: Any) -> None:  # type: ignore[override]
            while (request := await context.read()) is not EOF:
                await context.write(request)
            await context.write(say("bye"))

    async def case(transport: Transport) -> None:
        async with transport.serve(ReaderWriter()) as served:
            answers = [answer.value async for answer in served.stub.Both(many(3), timeout=20)]
            assert answers == ["0", "1", "2", "bye"]

    check(case)


def test_abort_carries_code_details_and_trailing_metadata(check: Callable[[Case], None]) -> None:
    class Aborting(EchoServicer):
        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, "not now", (("reason", "tide"),)
            )
            return request

        async def Down(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
            yield request

    async def case(transport: Transport) -> None:
        async with transport.serve(Aborting()) as served:
            with pytest.raises(AioRpcError) as raised:
                await served.stub.Unary(say(""), timeout=20)
            assert raised.value.code() == grpc.StatusCode.FAILED_PRECONDITION
            assert raised.value.details() == "not now"
            trailing = raised.value.trailing_metadata()
            assert trailing is not None
            assert trailing["reason"] == "tide"
            stream = served.stub.Down(say(""), timeout=20)
            with pytest.raises(AioRpcError) as raised:
                await stream.read()
            assert raised.value.code() == grpc.StatusCode.NOT_FOUND
            with pytest.raises(AioRpcError):
                await stream.read()

    check(case)


def test_code_and_details_set_on_the_context(check: Callable[[Case], None]) -> None:
    class Setting(EchoServicer):
        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            context.set_code(grpc.StatusCode.DATA_LOSS)
            context.set_details("gone")
            return request

    async def case(transport: Transport) -> None:
        async with transport.serve(Setting()) as served:
            call = served.stub.Unary(say(""), timeout=20)
            assert await status_of(call) == grpc.StatusCode.DATA_LOSS
            assert await call.details() == "gone"

    check(case)


def test_unknown_method_and_failing_handler(check: Callable[[Case], None]) -> None:
    class Failing(EchoServicer):
        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            raise ValueError("broken inside")

    async def case(transport: Transport) -> None:
        async with transport.serve(Failing()) as served:
            call = served.stub.Unary(say(""), timeout=20)
            assert await status_of(call) == grpc.StatusCode.UNKNOWN
            assert "broken inside" in await call.details()
            unknown: Any = served.channel.unary_unary("/tidelog.test.Echo/Nothing")
            assert await status_of(unknown(b"", timeout=20)) == grpc.StatusCode.UNIMPLEMENTED

    check(case)


def test_metadata_travels_both_ways(check: Callable[[Case], None]) -> None:
    class Labelled(EchoServicer):
        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            metadata = dict(context.invocation_metadata())
            await context.send_initial_metadata((("first", "1"),))
            context.set_trailing_metadata((("last", "2"), ("raw-bin", b"\x00\xff")))
            return say(f"{metadata['client']} from {bool(context.peer())}")

    async def case(transport: Transport) -> None:
        async with transport.serve(Labelled()) as served:
            call = served.stub.Unary(say(""), timeout=20, metadata=(("client", "me"),))
            assert (await call).value == "me from True"
            assert (await call.initial_metadata())["first"] == "1"
            trailing = await call.trailing_metadata()
            assert trailing["last"] == "2"
            assert trailing["raw-bin"] == b"\x00\xff"

    check(case)


def test_a_deadline_ends_both_sides(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        servicer = Waiting()
        async with transport.serve(servicer) as served:
            await served.channel.channel_ready()
            call = served.stub.Unary(say(""), timeout=0.5)
            assert await status_of(call) == grpc.StatusCode.DEADLINE_EXCEEDED
            await servicer.ended.wait()
            assert servicer.cancelled
            assert servicer.remaining is not None
            assert 0 < servicer.remaining < 1.0

    check(case)


def test_no_deadline_means_none_remaining(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        servicer = Waiting()
        async with transport.serve(servicer) as served:
            call = served.stub.Unary(say(""))
            await servicer.begun.wait()
            assert servicer.remaining is None
            assert call.time_remaining() is None
            assert not call.done()
            assert call.cancel()

    check(case)


def test_a_cancelled_call_cancels_its_handler(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        servicer = Waiting()
        async with transport.serve(servicer) as served:
            call = served.stub.Unary(say(""))
            await servicer.begun.wait()
            assert call.cancel()
            assert not call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert call.cancelled()
            assert await call.code() == grpc.StatusCode.CANCELLED
            await servicer.ended.wait()
            assert servicer.cancelled

    check(case)


def test_a_cancelled_read_cancels_the_whole_call(check: Callable[[Case], None]) -> None:
    class Pinged(Waiting):
        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            return request

    async def case(transport: Transport) -> None:
        servicer = Pinged()
        async with transport.serve(servicer) as served:
            call = served.stub.Both()
            assert (await call.read()).value == "first"
            await servicer.begun.wait()
            reader = asyncio.create_task(call.read())
            await served.stub.Unary(say("the reader waits by now"), timeout=20)
            assert reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert call.cancelled()
            await servicer.ended.wait()

    check(case)


def test_a_cancelled_waiter_cancels_the_call(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        servicer = Waiting()
        async with transport.serve(servicer) as served:
            call = served.stub.Unary(say(""))

            async def waits() -> None:
                await call

            waiter = asyncio.create_task(waits())
            await servicer.begun.wait()
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            await servicer.ended.wait()
            assert call.cancelled()

    check(case)


def test_stopping_the_server_ends_calls_as_unavailable(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        servicer = Waiting()
        async with transport.serve(servicer) as served:
            call = served.stub.Unary(say(""), timeout=20)
            stream = served.stub.Down(say(""), timeout=20)
            assert (await stream.read()).value == "first"
            await servicer.begun.wait()
            await served.running.stop(0)
            assert await status_of(call) in _GONE
            with pytest.raises(AioRpcError) as raised:
                await stream.read()
            assert raised.value.code() in _GONE
            again = served.stub.Unary(say(""), timeout=20)
            assert await status_of(again) == grpc.StatusCode.UNAVAILABLE

    check(case)


_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def test_a_graceful_stop_lets_running_calls_finish(check: Callable[[Case], None]) -> None:
    class Gated(EchoServicer):
        def __init__(self) -> None:
            self.begun = asyncio.Event()
            self.gate = asyncio.Event()

        async def Unary(self, request: StringValue, context: Any) -> StringValue:
            self.begun.set()
            await self.gate.wait()
            return request

    async def case(transport: Transport) -> None:
        servicer = Gated()
        async with transport.serve(servicer) as served:
            call = served.stub.Unary(say("slow"), timeout=20)
            await servicer.begun.wait()
            stop = asyncio.create_task(served.running.stop(10))
            await asyncio.sleep(0)
            servicer.gate.set()
            assert (await call).value == "slow"
            await stop

    check(case)


def test_nobody_listens(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        async with transport.serve(EchoServicer()) as served:
            await served.running.stop(0)
            for _ in range(2):
                call = served.stub.Unary(say(""), timeout=20)
                assert await status_of(call) == grpc.StatusCode.UNAVAILABLE

    check(case)


def test_a_channel_finds_a_server_that_comes_back(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        async with transport.serve(EchoServicer()) as served:
            assert (await served.stub.Unary(say("1"), timeout=20)).value == "1"
            await served.running.stop(0)
            assert await status_of(served.stub.Unary(say(""), timeout=20)) in _GONE
            again = await served.serve(EchoServicer(), port=served.running.port)
            call = served.stub.Unary(say("2"), timeout=20, wait_for_ready=True)
            assert (await call).value == "2"
            await again.stop(0)

    check(case)


def test_a_closed_channel_cancels_and_refuses(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        servicer = Waiting()
        async with transport.serve(servicer) as served:
            call = served.stub.Unary(say(""), timeout=20)
            await servicer.begun.wait()
            await served.channel.close()
            with pytest.raises(asyncio.CancelledError):
                await call
            await servicer.ended.wait()
            with pytest.raises(grpc.aio.UsageError):
                await served.stub.Unary(say(""), timeout=20)

    check(case)


def test_a_message_over_the_limit_is_refused(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        async with transport.serve(EchoServicer()) as served:
            large = say("x" * (SMALL_LIMIT + 1))
            call = served.stub.Unary(large, timeout=20)
            assert await status_of(call) == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert (await served.stub.Unary(say("ok"), timeout=20)).value == "ok"

    check(case)


def test_a_writer_waits_for_a_slow_reader(check: Callable[[Case], None]) -> None:
    """Flow control: a client that does not read stops the servicer, and nothing is lost."""
    size, count = 64 * 1024, 2_000

    class Flood(EchoServicer):
        written = 0

        async def Down(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:
            for _ in range(count):
                yield say("x" * size)
                self.written += 1

    async def case(transport: Transport) -> None:
        servicer = Flood()
        async with transport.serve(servicer) as served:
            call = served.stub.Down(say(""), timeout=20)
            assert (await call.read()) is not EOF
            for _ in range(50):
                await served.stub.Unary(say("time passes"), timeout=20)
            assert 0 < servicer.written < count
            received = 1
            while await call.read() is not EOF:
                received += 1
            assert received == count

    check(case)


def test_a_failing_request_iterator_cancels_the_call(check: Callable[[Case], None]) -> None:
    async def breaking() -> AsyncIterator[StringValue]:
        yield say("1")
        raise ValueError("no more")

    async def case(transport: Transport) -> None:
        async with transport.serve(EchoServicer()) as served:
            call = served.stub.Up(breaking(), timeout=20)
            with pytest.raises(asyncio.CancelledError):
                await call

    check(case)


def test_a_port_that_is_taken_is_said_so(check: Callable[[Case], None]) -> None:
    async def case(transport: Transport) -> None:
        async with transport.serve(EchoServicer()) as served:
            with pytest.raises(AddressUnavailable, match="test listener"):
                await served.serve(EchoServicer(), port=served.running.port)

    check(case)
