"""The SDK under faults: its producers and consumers beside a real broker, and a nemesis.

As the broker's scenario, with `AsyncProducer` and `AsyncConsumer` in the place of raw clients;
their programs may be frozen too. In the end everything is read once more by the SDK, and the log
has to agree with each verdict and each reading.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from simulation.cluster import ErrorLog, storage_changed
from simulation.history import History
from simulation.process import ProcessState
from simulation.scenario import Scenario
from simulation.scenarios.broker import ALL_FAULTS as FAULTS_OF_NODES
from simulation.scenarios.broker import BrokerRun
from simulation.workload.client_plan import ClientPlan, draw_client_plan
from simulation.workload.client_ports import ClientPorts
from simulation.workload.sdk_producer import SdkProducer
from simulation.workload.sdk_reader import SdkReader
from simulation.workload.verdict_book import find_places
from simulation.world import World

ALL_FAULTS = (*FAULTS_OF_NODES, "freeze")


class ClientRun(BrokerRun):
    """One run of the scenario."""

    def __init__(self, world: World, plan: ClientPlan) -> None:
        super().__init__(world, plan.base)
        self.ports = ClientPorts(world)
        self._topic_ids: dict[str, bytes] = {}
        history, ids = self.history, self._topic_ids
        producers = [SdkProducer(world, one, history, self.ports, ids) for one in plan.producers]
        for producer in producers:
            producer.is_punctual = not {"freeze", "pause"} & set(plan.base.faults)
        readers = [SdkReader(world, one, history, self.ports, ids) for one in plan.readers]
        self.producers, self.readers = producers, readers
        self._processes = [one.process for one in producers] + [one.process for one in readers]
        auditor = replace(plan.readers[0], name="auditor")
        self._auditor = SdkReader(world, auditor, history, self.ports, ids)
        self.nemesis.faults["freeze"] = self._freeze

    async def _prepare(self) -> None:
        await super()._prepare()
        for name, topic_id, _ in await self.admin.topics():
            self._topic_ids[name] = topic_id

    async def _freeze(self) -> None:
        """SIGSTOP to a program, for longer than some of its time limits."""
        random = self.world.stream("freeze")
        process = random.choice(self._processes)
        process.pause()
        await asyncio.sleep(random.choice((0.1, 2.0, 12.0)))
        if process.state is ProcessState.PAUSED:
            process.resume()

    async def _end(self) -> None:
        await super()._end()
        find_places(self.history)
        await self._auditor.read_all()


async def client_under_faults(world: World, faults: tuple[str, ...] = ALL_FAULTS) -> History:
    """One seed."""
    plan = draw_client_plan(world.stream("plan"), faults)
    run = ClientRun(world, plan)
    with (
        ErrorLog().listening() as errors,
        storage_changed(run.small_files),
        run.ports.ported(),
    ):
        await run.run()
        run.judge(errors)
        run.cluster.kill()
    return run.history


CLIENT = Scenario("simulation.scenarios.client:CLIENT", client_under_faults)
