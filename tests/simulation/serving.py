"""Listeners on a simulated host: the Serving port that services are given."""

from __future__ import annotations

from collections.abc import Callable

import grpc.aio

from simulation.network import Host
from simulation.transport_server import SimulatedServer
from tidelog_runtime.adapters.grpc_serving import AddressUnavailable
from tidelog_runtime.serving import Listener


class SimulatedServing:
    """`Serving` of the simulated world: binds on one host, whatever the listener's host says."""

    def __init__(self, host: Host) -> None:
        self._host = host
        #: What is open, by the listener's name; tests look here whether it is ready.
        self.running: dict[str, SimulatedRunningServer] = {}

    async def __call__(
        self,
        listener: Listener,
        register: Callable[[grpc.aio.Server], None],
        services: tuple[str, ...],
    ) -> SimulatedRunningServer:
        """Registers the servicers and begins to serve; AddressUnavailable for a taken port."""
        server = self._host.server_factory()
        register(server)
        try:
            port = server.add_insecure_port(f"0.0.0.0:{listener.port}")
        except RuntimeError as error:
            raise AddressUnavailable(
                f"The {listener.name} listener can't be opened at port {listener.port}",
                cause=str(error),
            ) from error
        await server.start()
        running = self.running[listener.name] = SimulatedRunningServer(server, port)
        return running


class SimulatedRunningServer:
    """One open listener."""

    def __init__(self, server: SimulatedServer, port: int) -> None:
        self._server = server
        self._port = port
        self.ready = False

    @property
    def port(self) -> int:
        """The port it serves at."""
        return self._port

    @property
    def running_calls(self) -> int:
        """Nobody asks here."""
        return 0

    @property
    def refused_calls(self) -> int:
        """All find room here."""
        return 0

    async def set_ready(self, ready: bool) -> None:
        """What health probes would be told."""
        self.ready = ready

    async def stop(self, grace_s: float) -> None:
        """Takes no new calls, lets running ones end within the grace, then cuts them."""
        self.ready = False
        await self._server.stop(grace_s)
