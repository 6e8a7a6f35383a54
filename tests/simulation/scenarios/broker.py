"""The broker under faults: a node, its clients, a nemesis; then peace, and the promises checked.

Safety first: faults strike while everybody works. Then all is healed, producers must get their
answers and the node must serve within a bound (liveness). Where the flush policy promises it, the
power goes one last time, before everything is read and the history is judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from simulation.checkers import CHECKS
from simulation.cluster import Cluster, ErrorLog, storage_changed
from simulation.history import History
from simulation.nemesis import Nemesis
from simulation.scenario import Scenario
from simulation.workload.admin import Admin
from simulation.workload.plan import Plan, draw_plan
from simulation.workload.producer import Producer
from simulation.workload.reader import Reader
from simulation.world import World
from tidelog_broker.storage.config import StorageConfig

ALL_FAULTS = (
    "kill",
    "power",
    "restart",
    "pause",
    "cut",
    "slow_disk",
    "full_disk",
    "failed_sync",
    "failed_write",
    "no_descriptors",
    "clock",
)
#: Peace is made, and within so long everything has to be well again.
SERVES_AGAIN_S = 15.0
ANSWERED_S = 60.0


class Worker(Protocol):
    """A client that works until it is told to be calm, and then ends what it began."""

    calm: bool

    async def run(self) -> None:
        """Work."""


class BrokerRun:
    """One run of the scenario."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.history = History()
        self.cluster = Cluster(world, whole_volume=plan.whole_volume, **dict(plan.node))
        self.nemesis = Nemesis(world, self.cluster, plan, self.history)
        self.admin = Admin(world, plan, self.history)
        self.producers: Sequence[Worker] = [
            Producer(world, one, self.history) for one in plan.producers
        ]
        self.readers: Sequence[Worker] = [Reader(world, one, self.history) for one in plan.readers]

    def small_files(self, config: StorageConfig) -> StorageConfig:
        """Files as small as the plan has them."""
        return replace(
            config,
            journal_bytes=self.plan.journal_bytes,
            snapshot_interval_bytes=self.plan.snapshot_interval_bytes,
        )

    async def run(self) -> None:
        """Safety, peace, liveness, the end."""
        await self._prepare()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run()) for one in self.producers]
            for reader in self.readers:
                group.create_task(reader.run())
            group.create_task(self.admin.run())
            await self.nemesis.run()
            await self._make_peace()
            await self._drain(tasks)
            self.admin.calm = True
            for reader in self.readers:
                reader.calm = True
        await self._end()
        await self.admin.close()

    async def _prepare(self) -> None:
        self.cluster.start()
        await self.admin.create_topics()

    async def _make_peace(self) -> None:
        await self.nemesis.heal()
        begun_s = self.world.now()
        try:
            async with asyncio.timeout(SERVES_AGAIN_S):
                await self.admin.wait_until_all_serve()
            took_s = self.world.now() - begun_s
        except TimeoutError:
            took_s = float("inf")
        self.history.recoveries_s.append((took_s, SERVES_AGAIN_S))

    async def _drain(self, producers: list[asyncio.Task[None]]) -> None:
        for producer in self.producers:
            producer.calm = True
        _, late = await asyncio.wait(producers, timeout=ANSWERED_S)
        for task in late:
            task.cancel()

    async def _end(self) -> None:
        if self.plan.flush_policy == "commit":
            self.nemesis.cut_power_now()
            await self.nemesis.heal()
        else:
            self.cluster.kill()
            await self.nemesis.heal()
        await self._make_peace()
        await self.admin.read_everything()

    def judge(self, errors: ErrorLog) -> None:
        """Raise with everything that is wrong."""
        wrong = []
        for promise, check in CHECKS.items():
            broken = check(self.history)
            wrong += [f"{promise}: {text}" for text in broken[:4]]
        wrong += [f"a handler raised: {text}" for text in self.world.network.handler_errors]
        wrong += [line for line in errors.lines if "unexpected failure" in line]
        if not {"failed_sync", "failed_write"} & set(self.plan.faults):
            wrong += [f"the node failed: {text}" for text in self.cluster.failures]
        if not self.nemesis.disk_failed:
            wrong += [f"the node did not start: {text}" for text in self.cluster.failed_starts]
            wrong += [f"logged as an error: {line}" for line in errors.lines]
        assert not wrong, "\n  ".join(["broken promises:", *wrong[:20], f"{self.plan}"])


async def broker_under_faults(world: World, faults: tuple[str, ...] = ALL_FAULTS) -> History:
    """One seed."""
    plan = draw_plan(world.stream("plan"), faults)
    run = BrokerRun(world, plan)
    with ErrorLog().listening() as errors, storage_changed(run.small_files):
        await run.run()
        run.judge(errors)
        run.cluster.kill()
    return run.history


async def _crashes(world: World) -> History:
    return await broker_under_faults(world, ("kill", "power", "slow_disk"))


NAME = "simulation.scenarios.broker"
BROKER = Scenario(f"{NAME}:BROKER", broker_under_faults)
#: Crashes alone, where most planted bugs show.
CRASHES = Scenario(f"{NAME}:CRASHES", _crashes)
