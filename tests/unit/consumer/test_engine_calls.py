"""What a call to a broker fails with: who was cancelled, the task or only the call."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from tidelog.engine.calls import ERROR_KEY, error_of_call, in_words, translated
from tidelog.errors import BrokerUnreachable, RecordListTooLarge, TooManyCalls
from tidelog.wire.v1 import common_pb2


def test_a_call_whose_channel_was_closed_is_a_lost_connection() -> None:
    async def asks() -> None:
        with translated("one:1"):
            raise asyncio.CancelledError

    async def begins_too_late() -> None:
        with translated("one:1"):
            raise grpc.aio.UsageError("Channel is closed.")

    for ask in (asks, begins_too_late):
        with pytest.raises(BrokerUnreachable, match="one:1") as raised:
            asyncio.run(ask())
        assert raised.value.retriable


def test_a_task_that_was_cancelled_stays_so() -> None:
    async def asks() -> None:
        with translated("one:1"):
            await asyncio.Event().wait()

    async def run() -> None:
        asking = asyncio.create_task(asks())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asks()

    asyncio.run(run())


def test_a_failed_connection_is_told_without_grpcs_inner_workings() -> None:
    refused = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to"
        " connect to remote host: connect: Connection refused (111)"
    )
    assert in_words(refused) == "the connection was refused: nothing listens there"
    mute = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: connection"
        " attempt timed out before receiving SETTINGS frame"
    )
    assert "says nothing" in in_words(mute)
    assert in_words("something new") == "something new"


def failed(details: str, *trailing: tuple[str, bytes]) -> grpc.aio.AioRpcError:
    """A call that ended with the status that gRPC has for all that is used up."""
    return grpc.aio.AioRpcError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(*trailing),
        details,
    )


@pytest.mark.parametrize(
    "details",
    [
        "SERVER: Received message larger than max (7 vs. 5)",
        "CLIENT: Sent message larger than max (7 vs. 5)",
        "Decompressed message larger than max",
    ],
)
def test_only_words_of_a_size_are_the_error_of_a_size(details: str) -> None:
    error = error_of_call(failed(details), "one:1")
    assert type(error) is RecordListTooLarge
    assert details in str(error)


def test_a_broker_that_takes_no_more_calls_is_asked_again() -> None:
    error = error_of_call(failed("Concurrent RPC limit exceeded!"), "one:1")
    assert type(error) is TooManyCalls
    assert error.retriable
    assert not error.outcome_unknown
    assert "one:1" in str(error)
    assert "max.concurrent.rpcs" in str(error)


def test_what_is_used_up_for_reasons_unknown_is_asked_again() -> None:
    error = error_of_call(failed("envoy overloaded"), "one:1")
    assert type(error) is BrokerUnreachable
    assert error.retriable
    assert "one:1" in str(error)
    assert "envoy overloaded" in str(error)


def test_a_refusal_at_the_door_names_the_broker() -> None:
    wire = common_pb2.Error(code=common_pb2.THROTTLING_QUOTA_EXCEEDED, message="full", hint="wait")
    error = error_of_call(failed("full", (ERROR_KEY, wire.SerializeToString())), "one:1")
    assert type(error) is TooManyCalls
    assert str(error) == ("The broker at one:1 takes no more calls at present. Cause: full. wait.")
