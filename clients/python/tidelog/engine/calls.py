"""Turns what gRPC raises into Tidelog's errors: the one place where the SDK meets status codes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import grpc

from tidelog.engine.wire_errors import error_of
from tidelog.errors import (
    BrokerUnreachable,
    OutcomeUnknown,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    TidelogError,
    TooManyCalls,
    UnsupportedVersion,
    error_from_wire,
)
from tidelog.wire.v1 import common_pb2

#: Trailing metadata of a failed call: the serialised `tidelog.wire.v1.Error`.
ERROR_KEY: Final = "tidelog-error-bin"

#: What gRPC's details of a failed connection contain, and what that means to a person.
CONNECTING_FAILURES: Final = {
    "before receiving SETTINGS": "it takes connections and says nothing: it hangs, or is no broker",
    "Failed parsing HTTP/2": "what answers there speaks no gRPC: it is no port for clients",
    "Connection refused": "the connection was refused: nothing listens there",
    "Connection reset": "the connection was reset",
    "Socket closed": "the connection was closed",
    "No route to host": "no way leads to that machine",
    "Network is unreachable": "no way leads to that network",
    "DNS resolution failed": "the name of the machine is not known",
    "Domain name not found": "the name of the machine is not known",
    "connection attempt timed out": "nothing answered, not even a refusal",
}

#: gRPC has one status for messages that are too large and for all else that may be used up. So
#: its details decide: these are of the sender or the receiver of a message, on either side.
SIZE_SIGN: Final = "message larger than max"
#: These are of a server whose limit is gRPC's own, as it was in brokers before they had words.
LIMIT_SIGN: Final = "Concurrent RPC limit exceeded"


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Around a call to a broker: whatever it fails with becomes an error of Tidelog's.

    A call whose channel is closed meanwhile ends as if its own task had been cancelled. If nobody
    has cancelled the task, that is a lost connection like any other, and its user tries again.
    """
    try:
        yield
    except grpc.aio.AioRpcError as failure:
        raise error_of_call(failure, address) from failure
    except grpc.aio.UsageError as failure:
        raise _closed_meanwhile(address) from failure
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        raise _closed_meanwhile(address) from None


def is_being_cancelled() -> bool:
    """Whether somebody cancels the running task. Apart, so that no frame above holds the task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _closed_meanwhile(address: str) -> BrokerUnreachable:
    return BrokerUnreachable(
        f"The connection to the broker at {address} was closed during the call",
        hint="Another call has found it broken; a new one is made for the next call",
    )


def in_words(details: str) -> str:
    """gRPC's reason for a connection that could not be made, without its inner workings."""
    for sign, words in CONNECTING_FAILURES.items():
        if sign in details:
            return words
    return details


def error_of_call(failure: grpc.aio.AioRpcError, address: str) -> TidelogError:
    """The exception for a call that failed as a whole."""
    for key, value in failure.trailing_metadata() or ():
        if key == ERROR_KEY and isinstance(value, bytes):
            return _as_said(error_of(common_pb2.Error.FromString(value)), failure.code(), address)
    details = in_words(failure.details() or failure.code().name)
    match failure.code():
        case grpc.StatusCode.UNAVAILABLE:
            return BrokerUnreachable(
                f"The broker at {address} can't be reached",
                cause=details,
                hint="Is it running, and is this its address? `tidelog doctor` finds out",
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return RequestTimedOut(f"The broker at {address} did not answer in time")
        case grpc.StatusCode.UNIMPLEMENTED:
            return UnsupportedVersion(
                f"The server at {address} does not know this call",
                cause=details,
                hint="It may be an older Tidelog, or no Tidelog at all",
            )
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return _used_up(details, address)
        case _:
            return OutcomeUnknown(
                f"The call to {address} failed with {failure.code().name}", cause=details
            )


def _as_said(error: TidelogError, code: grpc.StatusCode, address: str) -> TidelogError:
    """The broker's own error; one that it gives at the door does not know the address dialled."""
    at_the_door = code is grpc.StatusCode.RESOURCE_EXHAUSTED
    if at_the_door and isinstance(error, ThrottlingQuotaExceeded):
        return _too_many_calls(address, error.message, error.hint)
    return error


def _used_up(details: str, address: str) -> TidelogError:
    if SIZE_SIGN in details:
        return error_from_wire(
            common_pb2.RECORD_LIST_TOO_LARGE, f"A message for {address} is too large: {details}"
        )
    if LIMIT_SIGN in details:
        hint = "Try again when some have ended, or raise max.concurrent.rpcs of the broker"
        return _too_many_calls(address, details, hint)
    # Nobody knows who says so, nor what of the call was done.
    return BrokerUnreachable(
        f"The broker at {address}, or what stands before it, can't serve a call at present",
        cause=details,
        hint="Something is used up there: its log and its machine have the reason",
    )


def _too_many_calls(address: str, cause: str, hint: str) -> TooManyCalls:
    return TooManyCalls(
        f"The broker at {address} takes no more calls at present", cause=cause, hint=hint
    )
