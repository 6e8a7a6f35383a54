"""What one caller may ask of this broker at once; told to clients in the handshake."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.wire.v1 import handshake_pb2


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Each limit holds per request or stream; the memory limits hold for the whole broker."""

    request_bytes_max: int
    fetch_bytes_max: int
    fetch_credit_bytes_max: int
    fetch_partitions_max: int
    produce_batches_in_flight_max: int = 5

    def to_wire(self) -> handshake_pb2.Limits:
        """As the handshake tells them."""
        return handshake_pb2.Limits(
            request_bytes_max=self.request_bytes_max,
            fetch_bytes_max=self.fetch_bytes_max,
            fetch_credit_bytes_max=self.fetch_credit_bytes_max,
            fetch_partitions_max=self.fetch_partitions_max,
            produce_batches_in_flight_max=self.produce_batches_in_flight_max,
        )
