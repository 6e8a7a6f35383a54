"""Addresses as they stand in `listeners`: "127.0.0.1:9094", "PLAINTEXT://broker-1:9094", "[::1]:0".

Used by the broker's configuration alone. One listener, in plain text until TLS comes; anything
else is refused in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from tidelog.errors import InvalidConfig

PORT_MAX: Final = 65_535
_LABEL_LENGTH_MAX: Final = 63
_PLAIN_TEXT: Final = "PLAINTEXT://"
_ACCEPTED: Final = "Accepted: host:port, with an IPv6 address in brackets"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port; port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str, *, key: str, where: str) -> Endpoint:
    """The endpoint that `text` names; key and where go into the message of a refusal."""
    address = text.removeprefix(_PLAIN_TEXT)
    refusal = f"Invalid value {text!r} for '{key}' {where}"
    if "," in text:
        raise InvalidConfig(refusal, hint=f"One listener is supported yet. {_ACCEPTED}")
    if "://" in address:
        raise InvalidConfig(refusal, hint=f"Only PLAINTEXT is supported yet. {_ACCEPTED}")
    host, separator, port = address.rpartition(":")
    bare = bare_host(host)
    bracketed = host == f"[{bare}]"
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= PORT_MAX
    if not separator or not bare or not is_port or (":" in bare) != bracketed:
        raise InvalidConfig(refusal, hint=_ACCEPTED)
    wrong = _wrong_with_host(bare)
    if wrong:
        raise InvalidConfig(refusal, cause=wrong, hint=_ACCEPTED)
    return Endpoint(bare, int(port))


def bare_host(host: str) -> str:
    """The host without the brackets that an IPv6 address has beside a port."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _wrong_with_host(host: str) -> str:
    """Why no machine can be called so; empty where one can.

    What the resolver and the wire would fail at later, each with an error of its own, is told here.
    """
    if not host.isprintable() or any(character.isspace() for character in host):
        return "A host has no blanks, no control characters and no bytes that are no text"
    if ":" in host:
        return _wrong_with_address(host)
    try:
        host.encode("idna")
    except UnicodeError:
        return f"The parts of a name, between dots, have 1 to {_LABEL_LENGTH_MAX} characters each"
    return ""


def _wrong_with_address(host: str) -> str:
    try:
        IPv6Address(host)
    except AddressValueError as error:
        return f"That is no IPv6 address: {error}"
    return ""
