"""The wire's error codes and the client's error classes are one table, in both directions."""

from __future__ import annotations

import pytest

from tidelog.errors import BY_CODE, TidelogError, error_from_wire
from tidelog.wire.v1.common_pb2 import ErrorCode


def classes_with_codes(root: type[TidelogError] = TidelogError) -> list[type[TidelogError]]:
    """Every error class that stands for a code of its own."""
    found = []
    for below in root.__subclasses__():
        found += [below] if "code" in vars(below) else []
        found += classes_with_codes(below)
    return found


def test_every_code_of_the_wire_has_one_class_and_no_class_lacks_a_code() -> None:
    codes_of_the_wire = sorted(number for number in ErrorCode.values() if number != ErrorCode.NONE)
    codes_of_the_classes = sorted(cls.code for cls in classes_with_codes())
    assert codes_of_the_classes == codes_of_the_wire


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_a_code_becomes_its_class_and_keeps_its_words(code: int) -> None:
    error = error_from_wire(code, "what", cause="why", hint="do this")
    assert type(error).code == code
    assert (error.message, error.cause, error.hint) == ("what", "why", "do this")


def test_a_code_of_a_newer_server_stays_readable() -> None:
    assert "31999" in str(error_from_wire(31999, ""))
