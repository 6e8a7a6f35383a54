"""The smallest scenario that uses everything: clients count on a server that keeps its count.

The server answers an increment once it is durable; it is killed, paused, cut off and loses power.
What was acknowledged must never be lost, and no answer may be higher than what was asked for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import StringValue

from simulation.disk import SimulatedDisk
from simulation.echo import EchoServicer, EchoStub, add_EchoServicer_to_server
from simulation.process import Process, ProcessState
from simulation.scenario import Scenario
from simulation.world import World

ADDRESS = "counter:9092"
CLIENTS = 3
FAULTS = 8
#: How long a client thinks before it counts again.
PAUSE_S = 0.2


class Counter(EchoServicer):
    """Appends a byte for each increment; the count is the size of the file."""

    def __init__(self, disk: SimulatedDisk, *, sync: bool = True) -> None:
        self._file = disk.open("count", create=True)
        disk.sync_directory("")
        self._sync = sync

    async def Unary(self, request: StringValue, context: Any) -> StringValue:
        """One more."""
        count = self._file.append([b"+"]) + 1
        if self._sync:
            await asyncio.get_running_loop().run_in_executor(None, self._file.sync)
        return StringValue(value=str(count))


class Counting:
    """The scenario's actors and what they know."""

    def __init__(self, world: World, *, sync: bool) -> None:
        self.world = world
        self.sync = sync
        self.highest_acknowledged = 0
        self.asked = 0
        self.calm = False
        self.disk = world.disk("counter")
        self.process: Process | None = None

    async def serve(self) -> None:
        """What the server's process runs."""
        server = self.world.network.host("counter").server_factory()
        add_EchoServicer_to_server(Counter(self.disk, sync=self.sync), server)
        server.add_insecure_port("0.0.0.0:9092")
        await server.start()
        await server.wait_for_termination()

    async def count(self, name: str) -> None:
        """What a client's process runs."""
        stub: Any = EchoStub(self.world.network.host(name).channel_factory(ADDRESS))
        random = self.world.stream(name)
        while not self.calm:
            await asyncio.sleep(random.uniform(0, PAUSE_S))
            self.asked += 1
            try:
                answer = await stub.Unary(StringValue(value=name), timeout=2.0)
            except grpc.aio.AioRpcError as error:
                self.world.trace.record(f"{name} failed with {error.code().name}")
                continue
            self.world.trace.record(f"{name} heard {answer.value}")
            self.highest_acknowledged = max(self.highest_acknowledged, int(answer.value))

    def start(self) -> None:
        """Start the server on what its disk holds."""
        self.process = self.world.process("counter")
        self.process.spawn(self.serve())
        held = len(self.disk.read_bytes("count")) if self.disk.exists("count") else 0
        assert held >= self.highest_acknowledged, (
            f"{self.highest_acknowledged} increments were acknowledged, the disk has {held}"
        )

    async def nemesis(self) -> None:
        """One fault after the other."""
        random, network = self.world.stream("nemesis"), self.world.network
        for _ in range(FAULTS):
            await asyncio.sleep(random.uniform(0.05, 1.0))
            assert self.process is not None
            fault = random.choice(("kill", "pause", "cut", "power"))
            if fault == "kill":
                self.process.kill()
                self.disk = self.disk.kill()
            elif fault == "power":
                network.darken("counter")
                self.process.kill()
                self.disk = self.disk.crash()
            elif fault == "pause":
                self.process.pause()
            else:
                network.cut(["counter"], ["client-0"], one_way=random.random() < 0.5)
            await asyncio.sleep(random.uniform(0.1, 20.0))
            network.heal()
            network.relight("counter")
            if self.process.state is ProcessState.PAUSED:
                self.process.resume()
            elif self.process.state is ProcessState.KILLED:
                self.start()
        self.calm = True


async def count_under_faults(world: World, *, sync: bool = True) -> None:
    """Clients and nemesis together; then everything must have been counted."""
    counting = Counting(world, sync=sync)
    counting.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(counting.nemesis())
        for number in range(CLIENTS):
            process = world.process(f"client-{number}")
            client = process.spawn(counting.count(f"client-{number}"))
            group.create_task(_ended(client))
    held = len(counting.disk.read_bytes("count"))
    assert counting.highest_acknowledged <= held <= counting.asked


TIDES = ("ebb", "flow", "neap", "spring", "slack")


async def _ended(task: asyncio.Task[None]) -> None:
    await task


async def _forgetful(world: World) -> None:
    await count_under_faults(world, sync=False)


async def _hash_order(world: World) -> None:
    """A planted mistake of the other kind: what happens depends on the order of a set."""
    for name in set(TIDES):
        world.trace.record(name)
        await asyncio.sleep(1)


NAME = "simulation.scenarios.pings"
PINGS = Scenario(f"{NAME}:PINGS", count_under_faults)
#: The planted mistake: acknowledges before the sync. Some seed must find it.
FORGETFUL = Scenario(f"{NAME}:FORGETFUL", _forgetful)
HASH_ORDER = Scenario(f"{NAME}:HASH_ORDER", _hash_order)
