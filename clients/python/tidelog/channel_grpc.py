"""The transport port over real sockets: grpc.aio with options that notice a dead peer.

Chosen where a client or a service is put together; nothing else imports it. Without these options
a frozen peer is noticed after a minute or never, and a channel needs half a minute to come back.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc.aio

from tidelog import forking
from tidelog.channel import ChannelFactory
from tidelog.quiet_channel import QuietChannel

#: As large as what a broker takes (socket.request.max.bytes), and above what one answers with.
DEFAULT_MESSAGE_BYTES_MAX = 100 * 1024 * 1024
#: An answer of the largest that is asked for by default: it is on its way while one is read.
DEFAULT_LOOKAHEAD_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """The calling side's options. The defaults notice a silent peer within 13 seconds.

    `lookahead_bytes` is what gRPC takes in of a stream before anybody reads it. A stream carries
    about as much in the time that a word to the broker and back takes: 100 MB/s over 10 ms.
    """

    message_bytes_max: int = DEFAULT_MESSAGE_BYTES_MAX
    lookahead_bytes: int = DEFAULT_LOOKAHEAD_BYTES
    keepalive_ms: int = 10_000
    keepalive_timeout_ms: int = 3_000
    initial_reconnect_backoff_ms: int = 100
    min_reconnect_backoff_ms: int = 500
    max_reconnect_backoff_ms: int = 2_000

    def arguments(self) -> list[tuple[str, int]]:
        """The options by gRPC's names."""
        return [
            ("grpc.max_receive_message_length", self.message_bytes_max),
            ("grpc.max_send_message_length", self.message_bytes_max),
            # Left to itself, gRPC widens a stream to what arrives, and its threads then hold tens
            # of megabytes that no buffer of a client's counts.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", self.lookahead_bytes),
            ("grpc.keepalive_time_ms", self.keepalive_ms),
            ("grpc.keepalive_timeout_ms", self.keepalive_timeout_ms),
            # The keepalive timeout alone leaves a frozen peer unnoticed for a minute.
            ("grpc.http2.ping_timeout_ms", self.keepalive_timeout_ms),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.initial_reconnect_backoff_ms", self.initial_reconnect_backoff_ms),
            ("grpc.min_reconnect_backoff_ms", self.min_reconnect_backoff_ms),
            ("grpc.max_reconnect_backoff_ms", self.max_reconnect_backoff_ms),
            # Only who knows that a call is idempotent may repeat it.
            ("grpc.enable_retries", 0),
        ]


def grpc_channel_factory(options: ChannelOptions | None = None) -> ChannelFactory:
    """Channels over TCP; ForkedClient where a fork has left none that work."""
    forking.check()
    arguments = (options or ChannelOptions()).arguments()

    def channel(address: str, /) -> grpc.aio.Channel:
        forking.check()
        return QuietChannel(grpc.aio.insecure_channel(address, options=arguments))

    return channel
