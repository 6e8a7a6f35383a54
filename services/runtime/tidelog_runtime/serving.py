"""Where a service meets its callers: listeners, as a port.

A service says at which listeners it serves and registers its generated servicers; whether that
happens on grpc.aio (`adapters/grpc_serving.py`) or on the simulated network the composition root
decides by the `Serving` it passes in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidelog_runtime.principal import Principal

if TYPE_CHECKING:
    from grpc.aio import Server


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to serve at and whom its callers are taken for; port 0 takes any free one.

    `setting` is the key of the configuration that says which port it is, for messages.
    """

    name: str
    host: str
    port: int
    principal: Principal
    setting: str


class RunningServer(Protocol):
    """A listener that is open."""

    @property
    def port(self) -> int:
        """The port it serves at."""

    @property
    def running_calls(self) -> int:
        """The calls and streams it serves now."""

    @property
    def refused_calls(self) -> int:
        """How many found no room, since it began."""

    async def set_ready(self, ready: bool) -> None:
        """Tells health probes whether the service behind it takes calls."""

    async def stop(self, grace_s: float) -> None:
        """Takes no new calls, lets running ones end within the grace, then cuts them."""


class Serving(Protocol):
    """Opens listeners."""

    async def __call__(
        self, listener: Listener, register: Callable[[Server], None], services: tuple[str, ...]
    ) -> RunningServer:
        """Registers the servicers (by their full `services` names) and begins to serve."""
