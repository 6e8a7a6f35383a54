"""Handshake: the two sides tell what they can before anything else is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import UnsupportedVersion
from tidelog.version import __version__
from tidelog.wire.v1 import handshake_pb2
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker

#: The versions of the public protocol that this broker speaks.
PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1


def check_protocol(lowest: int, highest: int, software: str) -> int:
    """The highest version both sides speak; refused in words when there is none."""
    if lowest > highest:
        raise UnsupportedVersion(
            f"{software} offers protocol versions {lowest} to {highest}, which is no range"
        )
    chosen = min(highest, PROTOCOL_MAX)
    if chosen < max(lowest, PROTOCOL_MIN):
        older, newer = ("client", "broker") if highest < PROTOCOL_MIN else ("broker", "client")
        raise UnsupportedVersion(
            f"{software} speaks protocol versions {lowest} to {highest}, this broker"
            f" (tidelog {__version__}) speaks {PROTOCOL_MIN} to {PROTOCOL_MAX}",
            hint=f"Upgrade the {older}, or use an older {newer}",
        )
    return chosen


def check_features(
    offered: dict[str, handshake_pb2.VersionRange], finalised: dict[str, int], software: str
) -> None:
    """Refuses a client that does not understand a level the cluster has settled on."""
    for name, level in finalised.items():
        known = offered.get(name)
        if known is not None and not known.min <= level <= known.max:
            raise UnsupportedVersion(
                f"Feature {name!r} of this cluster stands at level {level},"
                f" {software} understands {known.min} to {known.max}",
                hint="Use a client that was released with or after the cluster's version",
            )


async def handshake(
    broker: Broker, caller: Caller, request: handshake_pb2.HandshakeRequest
) -> handshake_pb2.HandshakeResponse:
    """Who this broker is, what both can, and what one caller may ask for."""
    software = f"{request.software_name or 'The client'} {request.software_version}".strip()
    finalised = broker.features
    response = handshake_pb2.HandshakeResponse(
        cluster_id=broker.cluster_id,
        broker_id=broker.broker_id,
        software_version=__version__,
        protocol=handshake_pb2.VersionRange(min=PROTOCOL_MIN, max=PROTOCOL_MAX),
        features=finalised,
        limits=broker.limits.to_wire(),
        principal=str(caller.principal),
    )
    try:
        response.protocol_version = check_protocol(
            request.protocol.min, request.protocol.max, software
        )
        check_features(dict(request.features), finalised, software)
    except UnsupportedVersion as error:
        response.error.CopyFrom(to_wire(error))
    return response
