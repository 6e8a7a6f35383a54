"""The wires of the simulation: hosts, connections in order like TCP's, cuts, loss and delay.

Channels and servers of `transport_client` and `transport_server` move their frames over it. Loss
is what TCP makes of it: a delay of everything behind the lost segment. While a direction is cut
its frames wait; they arrive when it heals, unless a keepalive gave the connection up before. The
invariant: what one side sent arrives at the other in order, at most once, or never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from simulation.loop import SimulationLoop
from simulation.process import CURRENT_PROCESS, Process, ProcessState, neutral_context

if TYPE_CHECKING:
    from simulation.calls import ClientCall, Opening
    from simulation.server_calls import ServerCall
    from simulation.transport_client import SimulatedChannel
    from simulation.transport_server import SimulatedServer

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "[::]", "[::1]", ""})
FIRST_FREE_PORT = 40_000


@dataclass(frozen=True, slots=True)
class Weather:
    """How good the network is; scenarios vary it from seed to seed."""

    latency_s: tuple[float, float] = (0.0002, 0.002)
    slow_chance: float = 0.01
    slow_latency_s: float = 0.3
    loss_chance: float = 0.0
    retransmit_s: float = 0.2
    keepalive_s: float = 10.0
    keepalive_timeout_s: float = 3.0
    connect_timeout_s: float = 0.5
    backoff_s: tuple[float, float] = (0.1, 2.0)
    #: Bytes of one stream and direction that may be on the way before `write` waits.
    window_bytes: int = 256 * 1024
    max_message_bytes: int = 64 * 1024 * 1024
    #: Chance that an error status overtakes messages that were sent before it, as gRPC allows.
    discard_on_error_chance: float = 0.5


class Network:
    """All hosts and every connection between them."""

    def __init__(self, loop: SimulationLoop, random: Random, weather: Weather | None = None):
        self.loop = loop
        self.random = random
        self.weather = weather or Weather()
        #: Handlers that raised something unexpected; a scenario decides whether it may be so.
        self.handler_errors: list[str] = []
        self.messages_sent = 0
        self._listeners: dict[tuple[str, int], SimulatedServer] = {}
        self._connections: dict[Connection, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._dark: dict[str, None] = {}
        self._next_port = FIRST_FREE_PORT

    def host(self, name: str) -> Host:
        """A machine by its name; its name is also its address."""
        return Host(self, name)

    # ---- faults

    def cut(self, group: Iterable[str], others: Iterable[str], *, one_way: bool = False) -> None:
        """Nothing passes from `group` to `others`, nor back unless `one_way`."""
        others = list(others)
        for host in group:
            for other in others:
                self._cuts[host, other] = None
                if not one_way:
                    self._cuts[other, host] = None
                self.loop.trace.record(f"cut {host} {'->' if one_way else '--'} {other}")
        self._watch_impaired()

    def heal(self) -> None:
        """Every cut is mended; hosts without power stay dark."""
        self.loop.trace.record("heal")
        self._cuts.clear()
        self._resume_pipes()

    def darken(self, host: str) -> None:
        """The host loses power: it says no goodbye, its peers must find out."""
        self.loop.trace.record(f"{host} is dark")
        self._dark[host] = None
        self._watch_impaired()

    def relight(self, host: str) -> None:
        """Power is back. Connections of before are unknown to the host."""
        self._dark.pop(host, None)
        self._resume_pipes()

    def is_cut(self, source: str, target: str) -> bool:
        """Whether packets from one host to the other are lost at this moment."""
        return (source, target) in self._cuts or source in self._dark or target in self._dark

    # ---- for channels and servers

    def latency(self) -> float:
        """How long the next segment takes, with the retransmissions it needs."""
        weather, random = self.weather, self.random
        seconds = random.uniform(*weather.latency_s)
        if weather.slow_chance and random.random() < weather.slow_chance:
            seconds += random.uniform(0, weather.slow_latency_s)
        wait = weather.retransmit_s
        while weather.loss_chance and random.random() < weather.loss_chance:
            seconds += wait
            wait *= 2
        return seconds

    def listen(self, host: str, port: int, server: SimulatedServer) -> int:
        """Bind a port, or the next free one; as on a real host, a port has one owner."""
        if port == 0:
            self._next_port += 1
            port = self._next_port
        if (host, port) in self._listeners:
            raise RuntimeError(f"Failed to bind to {host}:{port}: it is taken")
        self._listeners[host, port] = server
        return port

    def stop_listening(self, server: SimulatedServer) -> None:
        """Connections to this server's ports are refused from now on."""
        self._listeners = {at: one for at, one in self._listeners.items() if one is not server}

    def listener(self, host: str, port: int) -> SimulatedServer | None:
        """Who accepts connections there."""
        return self._listeners.get((host, port))

    def register(self, connection: Connection) -> None:
        """A connection was made; cuts and pauses concern it until it is forgotten."""
        self._connections[connection] = None
        self._watch_impaired()

    def forget(self, connection: Connection) -> None:
        """Both ends of the connection are gone."""
        self._connections.pop(connection, None)

    def process_changed(self) -> None:
        """A process was paused, resumed or killed: keepalives may notice."""
        self._watch_impaired()

    def _resume_pipes(self) -> None:
        for connection in list(self._connections):
            connection.to_server.resume()
            connection.to_client.resume()

    def _watch_impaired(self) -> None:
        for connection in list(self._connections):
            connection.watch_if_impaired()


@dataclass(frozen=True, slots=True)
class Host:
    """One machine's view of the network: what a service gets as its transport ports."""

    network: Network
    name: str

    def channel_factory(self, address: str) -> SimulatedChannel:
        """A channel from this host to "host:port"; the process that asks owns it."""
        from simulation.transport_client import SimulatedChannel

        return SimulatedChannel(self, address)

    def server_factory(self) -> SimulatedServer:
        """A server on this host; the process that asks owns it."""
        from simulation.transport_server import SimulatedServer

        return SimulatedServer(self)

    def resolve(self, address: str) -> tuple[str, int]:
        """Host and port of an address; loopback and wildcard names mean this host."""
        name, _, port = address.rpartition(":")
        return (self.name if name in LOOPBACK_NAMES else name), int(port)


class Pipe:
    """One direction of a connection: delivers in order, waits out cuts."""

    def __init__(self, network: Network, source: str, target: str) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._frames: deque[tuple[float, Callable[[], None]]] = deque()
        self._last_due = 0.0
        self._armed = False
        self._closed = False

    def send(self, deliver: Callable[[], None]) -> None:
        """Hand a frame to the kernel; it arrives after everything sent before it."""
        if self._closed:
            return
        loop = self._network.loop
        self._last_due = max(self._last_due, loop.time() + self._network.latency())
        self._frames.append((self._last_due, deliver))
        self._network.messages_sent += 1
        self._arm(self._last_due)

    def resume(self) -> None:
        """The cut healed: TCP tries again soon, what waited arrives."""
        if self._frames and not self._armed:
            self._arm(self._network.loop.time() + self._network.latency())

    def drop_tail(self) -> None:
        """The sender's kernel died with frames not yet sent: only the first ones arrive."""
        keep = self._network.random.randint(0, len(self._frames))
        while len(self._frames) > keep:
            self._frames.pop()

    def close(self) -> None:
        """Nothing more arrives at the other end."""
        self._closed = True
        self._frames.clear()

    @property
    def cut(self) -> bool:
        """Whether frames wait for a cut to heal."""
        return self._network.is_cut(self._source, self._target)

    def _arm(self, due: float) -> None:
        if not self._armed:
            self._armed = True
            self._network.loop.call_at(due, self._deliver_due, context=neutral_context())

    def _deliver_due(self) -> None:
        self._armed = False
        if self.cut:
            return
        now = self._network.loop.time()
        while self._frames and self._frames[0][0] <= now:
            _, deliver = self._frames.popleft()
            deliver()
        if self._frames:
            self._arm(self._frames[0][0])


class Connection:
    """Two pipes between a channel and a server. Each end notices its loss in its own time."""

    def __init__(
        self,
        network: Network,
        *,
        client: SimulatedChannel,
        server: SimulatedServer,
    ) -> None:
        self.network = network
        self.to_server = Pipe(network, client.host.name, server.host.name)
        self.to_client = Pipe(network, server.host.name, client.host.name)
        self.client: SimulatedChannel | None = client
        self.server: SimulatedServer | None = server
        self.peer = f"sim:{client.host.name}"
        self.server_name = server.host.name
        self.client_calls: dict[int, ClientCall] = {}
        self.server_calls: dict[int, ServerCall] = {}
        self._last_stream_id = 0
        self._client_process = client.process
        self._server_process = server.process
        self._impaired_since: float | None = None
        network.register(self)

    def new_stream_id(self) -> int:
        """The number of the next call on this connection."""
        self._last_stream_id += 1
        return self._last_stream_id

    def greet(self) -> None:
        """The server's first frame arrived at the client."""
        if self.client is not None:
            self.client.connected(self)

    def open_call(self, opening: Opening, frames: Sequence[bytes | None]) -> None:
        """The first frame of a call arrived at the server."""
        if self.server is not None:
            self.server.open_call(self, opening, frames)

    def go_away(self) -> None:
        """The server's notice that it stops arrived at the client."""
        if self.client is not None:
            self.client.drain(self)

    def close_client_end(self, reason: str, *, tell_peer: bool = True) -> None:
        """The client's end is gone: by its own will, its death, a reset or its keepalive."""
        client, self.client = self.client, None
        if client is None:
            return
        self.to_client.close()
        if tell_peer:
            self.to_server.send(lambda: self.close_server_end("reset by peer", tell_peer=False))
        client.connection_lost(self, reason)
        self._forget_when_closed()

    def close_server_end(self, reason: str, *, tell_peer: bool = True) -> None:
        """The server's end is gone; its handlers of this connection are cancelled."""
        server, self.server = self.server, None
        if server is None:
            return
        self.to_server.close()
        if tell_peer:
            self.to_client.send(lambda: self.close_client_end(reason, tell_peer=False))
        server.connection_lost(self)
        self._forget_when_closed()

    def _forget_when_closed(self) -> None:
        if self.client is None and self.server is None:
            self.network.forget(self)

    # ---- keepalive

    def watch_if_impaired(self) -> None:
        """Start both ends' keepalive clocks when pings stop coming back."""
        if not self._impaired():
            self._impaired_since = None
        elif self._impaired_since is None:
            since = self._impaired_since = self.network.loop.time()
            self._suspect(self._client_process, since, self._client_gives_up)
            self._suspect(self._server_process, since, self._server_gives_up)

    def _suspect(self, owner: Process | None, since: float, give_up: Callable[[], None]) -> None:
        weather = self.network.weather
        patience = weather.keepalive_timeout_s + self.network.random.uniform(0, weather.keepalive_s)

        def check() -> None:
            self.watch_if_impaired()
            if self._impaired_since == since:
                give_up()

        context = owner.new_context() if owner is not None else neutral_context()
        self.network.loop.call_later(patience, check, context=context)

    def _client_gives_up(self) -> None:
        self.close_client_end("keepalive watchdog timeout")

    def _server_gives_up(self) -> None:
        self.close_server_end("keepalive watchdog timeout")

    def _impaired(self) -> bool:
        paused = ProcessState.PAUSED
        return (
            self.to_server.cut
            or self.to_client.cut
            or (self._client_process is not None and self._client_process.state is paused)
            or (self._server_process is not None and self._server_process.state is paused)
        )


def current_process() -> Process | None:
    """The process whose code is running now."""
    return CURRENT_PROCESS.get()
