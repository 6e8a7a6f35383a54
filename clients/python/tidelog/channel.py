"""The transport port: how the SDK and the services reach each other, whatever lies below.

Generated stubs take a `grpc.aio.Channel`, an abstract class, so they run unchanged on any channel
of that type. Who needs a connection is given a `ChannelFactory` (and listeners are the affair of
`tidelog_runtime.serving`). The real channels are in `tidelog.channel_grpc`, the simulated ones in
the simulator. The invariant: nobody makes a channel for himself.

The type is for the type checker alone; importing this module does not import grpc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grpc.aio import Channel


class ChannelFactory(Protocol):
    """Makes the channel to one address."""

    def __call__(self, address: str, /) -> Channel:
        """A channel to "host:port". It connects when the first call needs it; close it."""
