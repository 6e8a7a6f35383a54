"""Turns exceptions into what a client reads: the one place where errors meet the wire.

Total on purpose: whatever is not a `TidelogError` is a bug of ours. It is logged with its story
and becomes UNKNOWN_SERVER_ERROR, never a timeout and never silence.
"""

from __future__ import annotations

import logging
from typing import Final

from google.protobuf.message import DecodeError

from tidelog.errors import InvalidRequest, LogCorrupt, TidelogError
from tidelog.wire.v1 import common_pb2

logger = logging.getLogger(__name__)

#: Trailing metadata of a failed call: the serialised `tidelog.wire.v1.Error`.
ERROR_KEY: Final = "tidelog-error-bin"


def as_ours(error: Exception) -> Exception:
    """The error in our own words where it is the caller's fault and not ours."""
    if isinstance(error, DecodeError):
        return InvalidRequest("A message of this call can't be read", cause=str(error))
    return error


def to_wire(error: Exception) -> common_pb2.Error:
    """The wire form of a failure."""
    if isinstance(error, TidelogError):
        return common_pb2.Error(
            code=common_pb2.ErrorCode.ValueType(error.code),
            message=error.message,
            cause=error.cause,
            hint=error.hint,
            next_offset=(error.next_offset or 0) if isinstance(error, LogCorrupt) else 0,
        )
    logger.error("unexpected failure", exc_info=error)
    return common_pb2.Error(
        code=common_pb2.UNKNOWN_SERVER_ERROR,
        message=f"The broker failed in a way it did not expect: {type(error).__name__}",
        cause=str(error),
        hint="This is a fault of the broker: its log has the details",
    )
