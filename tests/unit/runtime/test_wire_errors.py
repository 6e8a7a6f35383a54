"""Errors as clients read them: total, in words, and never a traceback's text."""

from __future__ import annotations

import logging

import pytest
from google.protobuf.message import DecodeError

from tidelog.errors import BY_CODE, InvalidRequest, error_from_wire
from tidelog.wire.v1 import common_pb2
from tidelog_runtime.disk import AlreadyLocked
from tidelog_runtime.wire_errors import as_ours, to_wire


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_error_comes_back_as_itself(code: int) -> None:
    sent = BY_CODE[code]("it happened", cause="below it", hint="do this")
    wire = to_wire(sent)
    back = error_from_wire(wire.code, wire.message, cause=wire.cause, hint=wire.hint)
    assert type(back) is type(sent)
    assert str(back) == str(sent) == "it happened. Cause: below it. do this."


def test_what_is_no_error_of_ours_is_logged_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        wire = to_wire(KeyError("orders"))
    assert wire.code == common_pb2.UNKNOWN_SERVER_ERROR
    assert "KeyError" in wire.message
    assert "unexpected failure" in caplog.text


def test_an_unreadable_message_is_the_callers_mistake() -> None:
    ours = as_ours(DecodeError("wrong wire type"))
    assert isinstance(ours, InvalidRequest)
    assert "wrong wire type" in str(ours)
    other = ValueError("x")
    assert as_ours(other) is other


def test_a_locked_data_directory_is_told_in_words() -> None:
    error = AlreadyLocked("data/node.lock", "process 7")
    assert "process 7" in str(error)
    assert "data/node.lock" in str(error)
    assert "Stop that process" in str(error)
