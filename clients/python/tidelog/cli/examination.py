"""The steps of `tidelog doctor`, each with what it found and what to do when it failed.

Later steps need what earlier ones found, so the first failure ends the examination; only brokers
are looked at one by one, since each may be out of reach for a reason of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Final

import grpc

from tidelog.channel_grpc import grpc_channel_factory
from tidelog.engine.calls import error_of_call
from tidelog.engine.connections import PROTOCOL_MAX, PROTOCOL_MIN, SOFTWARE
from tidelog.engine.wire_errors import error_of
from tidelog.errors import InvalidConfig, TidelogError, TooManyCalls, UnsupportedVersion
from tidelog.settings import addresses
from tidelog.version import __version__
from tidelog.wire.v1 import broker_pb2_grpc, common_pb2, handshake_pb2, metadata_pb2
from tidelog.wording import counted

CLIENT_ID: Final = "tidelog-doctor"
PROXY_VARIABLES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
SHOWN_PARTITIONS: Final = 5
#: Whom a broker takes for one of the cluster's own.
INTERNAL_PRINCIPALS: Final = "Service:"

_REFUSED: Final = (
    "Nothing listens there. Is the broker running (`tidelog up` starts one), and is this its port?"
    " A broker that listens at 127.0.0.1 can only be reached from its own machine: start it with"
    " --host 0.0.0.0"
)
_SILENT: Final = (
    "Nothing answers, not even a refusal: a firewall may drop the packets, or no machine has this"
    " address"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one step found; `advice` is what to do when it failed."""

    step: str
    is_well: bool
    words: str
    advice: str = ""

    def line(self) -> str:
        """For a person."""
        shown = f"{'ok' if self.is_well else 'FAILED':8}{self.step:12}{self.words}"
        end = "" if self.advice.endswith((".", "?")) else "."
        return f"{shown}\n{'':20}{self.advice}{end}" if self.advice else shown

    def as_json(self) -> dict[str, object]:
        """For a program."""
        return asdict(self)


class Failure(Exception):
    """A step failed; carries its finding."""

    def __init__(self, step: str, words: str, advice: str) -> None:
        super().__init__(words)
        self.finding = Finding(step, False, words, advice)


class Examination:
    """One way to one cluster."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s

    async def findings(self) -> AsyncIterator[Finding]:
        """Step by step."""
        try:
            host, port = self._parse()
            yield Finding("address", True, f"host {host}, port {port}")
            found = await self._resolve("resolve", host, port)
            yield Finding("resolve", True, ", ".join(found))
            yield Finding("connect", True, await self._connect("connect", found, port))
            channel = grpc_channel_factory()(self._address)
            try:
                async for finding in self._ask(channel):
                    yield finding
            finally:
                await channel.close()
        except Failure as failure:
            yield failure.finding

    async def _ask(self, channel: grpc.aio.Channel) -> AsyncIterator[Finding]:
        yield Finding(
            "handshake", True, await self._shake_hands("handshake", channel, self._address)
        )
        metadata = await self._metadata(channel)
        partitions = sum(len(topic.partitions) for topic in metadata.topics)
        yield Finding(
            "metadata",
            True,
            f"{counted(len(metadata.brokers), 'broker')},"
            f" {counted(len(metadata.topics), 'topic')}, {counted(partitions, 'partition')}",
        )
        for broker in metadata.brokers:
            yield await self._visit(broker)
        yield leaders(metadata)

    # ------------------------------------------------------------------ on the way

    def _parse(self) -> tuple[str, int]:
        try:
            (only, *others) = addresses(self._address)
        except InvalidConfig as error:
            raise Failure("address", error.message, error.hint) from error
        if others:
            raise Failure("address", f"{self._address!r} names several", "Give one at a time")
        host, _, port = only.rpartition(":")
        return host.removeprefix("[").removesuffix("]"), int(port)

    async def _resolve(self, step: str, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise Failure(
                step,
                f"the name server did not say in time what {host} is",
                "Is the network up, and does the name server answer others?",
            ) from error
        except (OSError, UnicodeError) as error:
            raise Failure(
                step,
                f"the name {host!r} is not known ({error})",
                "Is it spelt right? A name of a container or a Kubernetes service is known inside"
                " its own network only",
            ) from error
        return list(dict.fromkeys(str(answer[4][0]) for answer in answers))

    async def _connect(self, step: str, ips: list[str], port: int) -> str:
        """One of the addresses must accept a connection."""
        refusals = []
        timed_out = False
        for ip in ips:
            begin = time.perf_counter()
            try:
                async with asyncio.timeout(self._timeout_s):
                    _, writer = await asyncio.open_connection(ip, port)
            except TimeoutError:
                timed_out = True
                refusals.append(f"{_joined(ip, port)}: no answer in {self._timeout_s:g} s")
            except OSError as error:
                refusals.append(f"{_joined(ip, port)}: {_reason(error)}")
            else:
                writer.close()
                await writer.wait_closed()
                taken_ms = (time.perf_counter() - begin) * 1000
                others = f" (not at {'; '.join(refusals)})" if refusals else ""
                return f"{_joined(ip, port)} accepts, in {taken_ms:.1f} ms{others}"
        raise Failure(step, "; ".join(refusals), _SILENT if timed_out else _REFUSED)

    # ------------------------------------------------------------------ talking

    async def _shake_hands(self, step: str, channel: grpc.aio.Channel, address: str) -> str:
        request = handshake_pb2.HandshakeRequest(
            client_id=CLIENT_ID,
            software_name=SOFTWARE,
            software_version=__version__,
            protocol=handshake_pb2.VersionRange(min=PROTOCOL_MIN, max=PROTOCOL_MAX),
            dialled_address=address,
        )
        stub = broker_pb2_grpc.BrokerStub(channel)
        try:
            answer = await stub.Handshake(request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as failure:
            raise self._no_handshake(step, failure, address) from failure
        if answer.HasField("error"):
            error = error_of(answer.error)
            raise Failure(step, error.message, error.hint)
        if answer.principal.startswith(INTERNAL_PRINCIPALS):
            raise Failure(
                step,
                f"the broker takes you for {answer.principal}: this is its internal listener",
                "That is for the cluster's own services: give clients the port of `listeners`",
            )
        return (
            f"tidelog {answer.software_version}, broker {answer.broker_id} of cluster"
            f" {answer.cluster_id}, protocol {answer.protocol_version}, you are {answer.principal}"
        )

    def _no_handshake(self, step: str, failure: grpc.aio.AioRpcError, address: str) -> Failure:
        error = error_of_call(failure, address)
        if isinstance(error, UnsupportedVersion):
            return Failure(
                step,
                "a gRPC server answers, but it knows no Tidelog handshake",
                "This may be another service's port, or a cluster's internal one:"
                " clients use `listeners`, 9094 by default",
            )
        if isinstance(error, TooManyCalls):
            return Failure(step, f"{error.message}: {error.cause}", error.hint)
        proxy = next((name for name in PROXY_VARIABLES if os.environ.get(name)), None)
        advice = (
            "Something listens there: is this the port for clients (`listeners`, 9094 by default),"
            " and not the one for metrics, or another program's? A broker that hangs says nothing"
            " either: its log and its machine have the reason"
        )
        if proxy is not None:
            advice = (
                f"The environment sets {proxy}, and gRPC goes through it:"
                f" add {address.rpartition(':')[0]} to no_proxy. Otherwise: {advice}"
            )
        return Failure(step, error.cause or error.message, advice)

    async def _metadata(self, channel: grpc.aio.Channel) -> metadata_pb2.MetadataResponse:
        request = metadata_pb2.MetadataRequest(
            all_topics=True, include_internal=True, dialled_address=self._address
        )
        metadata = (("tidelog-client-id", CLIENT_ID), ("tidelog-protocol", str(PROTOCOL_MAX)))
        stub = broker_pb2_grpc.BrokerStub(channel)
        try:
            answer = await stub.Metadata(request, timeout=self._timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as failure:
            error: TidelogError = error_of_call(failure, self._address)
        else:
            if not answer.HasField("error"):
                return answer
            error = error_of(answer.error)
        raise Failure(
            "metadata",
            f"the broker does not tell what there is: {error.message}",
            error.hint or "Its log has the reason",
        )

    async def _visit(self, broker: common_pb2.BrokerEndpoint) -> Finding:
        """Every broker must be reachable at the address that it gives to clients."""
        address = _joined(broker.host, broker.port)
        step = f"broker {broker.broker_id}"
        channel = grpc_channel_factory()(address)
        try:
            ips = await self._resolve(step, broker.host, broker.port)
            await self._connect(step, ips, broker.port)
            await self._shake_hands(step, channel, address)
        except Failure as failure:
            found = failure.finding
            return Finding(
                step,
                False,
                f"tells clients to come to {address}, and there: {found.words}",
                "Clients need to reach every broker at the address it advertises:"
                " set advertised.listeners to one that is known here",
            )
        finally:
            await channel.close()
        return Finding(step, True, f"answers at {address}, the address it gives to clients")


def leaders(metadata: metadata_pb2.MetadataResponse) -> Finding:
    """Whether somebody who lives leads each partition."""
    without = [
        f"{topic.name}-{partition.partition}"
        for topic in metadata.topics
        for partition in topic.partitions
        if partition.leader_id < 0 or partition.leader_id in partition.offline
    ]
    if not without:
        return Finding("leaders", True, "every partition has one")
    shown = ", ".join(without[:SHOWN_PARTITIONS])
    more = f" and {len(without) - SHOWN_PARTITIONS} more" if without[SHOWN_PARTITIONS:] else ""
    return Finding(
        "leaders",
        False,
        f"no leader for {shown}{more}",
        "Nothing can be written to or read from these until a broker that holds them is back",
    )


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
