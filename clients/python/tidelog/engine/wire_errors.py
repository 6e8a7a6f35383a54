"""Errors inside responses, as exceptions. Pure; `calls.py` does the same for failed calls."""

from __future__ import annotations

from tidelog.errors import LogCorrupt, TidelogError, error_from_wire
from tidelog.wire.v1 import common_pb2


def error_of(wire: common_pb2.Error) -> TidelogError:
    """The exception for an error inside a response."""
    error = error_from_wire(wire.code, wire.message, cause=wire.cause, hint=wire.hint)
    if isinstance(error, LogCorrupt):
        error.next_offset = wire.next_offset or None
    return error
