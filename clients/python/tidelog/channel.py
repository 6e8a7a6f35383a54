"""The transport port: how the SDK and the services reach each other, whatever lies below.

Stubs take a `Channel`, generated `add_..._to_server` functions a `Server`; both are grpc.aio's
own abstract classes, so generated code fits unchanged. Who needs a connection is given a
`ChannelFactory`, who serves a `ServerFactory`. The real ones are in `tidelog.channel_grpc`, the
simulated ones in the simulator. The invariant: no other module makes a channel or a server.

The types are for the type checker alone; importing this module does not import grpc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grpc.aio import Channel, Server


class ChannelFactory(Protocol):
    """Makes the channel to one address."""

    def __call__(self, address: str, /) -> Channel:
        """A channel to "host:port". It connects when the first call needs it; close it."""


class ServerFactory(Protocol):
    """Makes a server that listens nowhere yet."""

    def __call__(self) -> Server:
        """Register servicers with it, `add_insecure_port`, `start`; later `stop`."""
