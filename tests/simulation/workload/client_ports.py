"""The SDK's clients on the ports of a simulated world: its network, its clocks, its chance.

The workload makes its clients here. Invariant: while `ported` holds, nothing that a client does
depends on anything but the seed; and no client outlives its world in the registry of open ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from simulation.cluster import ADDRESS
from simulation.world import World
from tidelog import AsyncConsumer, AsyncProducer
from tidelog.consumer import engine as consumer_engine
from tidelog.engine import cluster as cluster_module
from tidelog.producer import lifetimes


class ClientPorts:
    """See the module."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = world.wall_clock("clients")
        self._producers: list[AsyncProducer[Any, Any]] = []

    @contextlib.contextmanager
    def ported(self) -> Iterator[None]:
        """Chance and the wall clock are the world's; they have no argument of their own."""
        chance = SimpleNamespace(Random=lambda: self._world.stream("clients' chance"))
        try:
            with (
                mock.patch.object(cluster_module, "random", chance),
                mock.patch.object(consumer_engine, "random", chance),
                mock.patch.object(consumer_engine, "_now_ms", self._clock.now_ms),
            ):
                yield
        finally:
            for producer in self._producers:
                lifetimes.closed(producer)

    def producer(self, host: str, options: dict[str, Any]) -> AsyncProducer[str, bytes]:
        """A producer on a host."""
        factory = self._world.network.host(host).channel_factory
        producer: AsyncProducer[str, bytes] = AsyncProducer(
            ADDRESS, channel_factory=factory, **options
        )
        producer._wall_clock = self._seconds
        self._producers.append(producer)
        return producer

    def consumer(self, host: str, options: dict[str, Any]) -> AsyncConsumer[bytes, bytes]:
        """A consumer on a host."""
        factory = self._world.network.host(host).channel_factory
        return AsyncConsumer(ADDRESS, channel_factory=factory, **options)

    def _seconds(self) -> float:
        return self._clock.now_ms() / 1000
