"""Addresses as they stand in `listeners`: "127.0.0.1:9094", "PLAINTEXT://broker-1:9094", "[::1]:0".

Used by the broker's configuration alone. One listener, in plain text until TLS comes; anything
else is refused in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.errors import InvalidConfig

PORT_MAX: Final = 65_535
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
    refusal = f"Invalid value '{text}' for '{key}' {where}"
    if "," in text:
        raise InvalidConfig(refusal, hint=f"One listener is supported yet. {_ACCEPTED}")
    if "://" in address:
        raise InvalidConfig(refusal, hint=f"Only PLAINTEXT is supported yet. {_ACCEPTED}")
    host, separator, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host == f"[{bare}]"
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= PORT_MAX
    if not separator or not bare or not is_port or (":" in bare) != bracketed:
        raise InvalidConfig(refusal, hint=_ACCEPTED)
    return Endpoint(bare, int(port))
