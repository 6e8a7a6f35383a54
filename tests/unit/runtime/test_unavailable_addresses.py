"""Why an address can't be served at: each reason has its own advice."""

from __future__ import annotations

import errno
import socket
from typing import NoReturn

import pytest

from tidelog_runtime.adapters.grpc_serving import AddressUnavailable, check_bindable
from tidelog_runtime.principal import ANONYMOUS
from tidelog_runtime.serving import Listener


def refusal(host: str, port: int) -> str:
    with pytest.raises(AddressUnavailable) as refused:
        check_bindable(Listener("client", host, port, ANONYMOUS, "a.port"))
    return str(refused.value)


def test_a_port_in_use_asks_for_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        said = refusal("127.0.0.1", holder.getsockname()[1])
    assert "Another program may hold the port: set a.port, or 0" in said


def test_a_name_that_does_not_resolve_is_no_busy_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: object, **_keywords: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    said = refusal("nowhere.invalid", 0)
    assert "nowhere.invalid" in said
    assert "Name or service not known" in said
    assert "of this machine" in said
    assert "Another program" not in said


@pytest.mark.parametrize("host", ["a" * 64, "\udcff"])
def test_what_can_be_no_name_is_refused_in_words(host: str) -> None:
    said = refusal(host, 0)
    assert "idna" in said
    assert "of this machine" in said


def test_an_address_of_another_machine_is_no_busy_port() -> None:
    said = refusal("192.0.2.1", 0)
    assert "of this machine" in said
    assert "Another program" not in said


def test_a_port_that_needs_rights_is_no_busy_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_arguments: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", forbid)
    assert "from 1024 on" in refusal("127.0.0.1", 80)
