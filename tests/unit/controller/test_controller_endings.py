"""What those hear who wait for a controller that ends, of a failure or because it was told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from simulation.disk import SimulatedDisk
from simulation.loop import SimulationLoop
from simulation.trace import Trace
from tidelog.errors import NotController
from tidelog_controller import Controller
from tidelog_controller.terms import LEASE_TTL_MS
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.metadata_store import LeaseId
from tidelog_runtime.metadata_store.embedded import EmbeddedMetadataStore

Scenario = Callable[["FailingStore", Controller, list[BaseException]], Awaitable[None]]


class FailingStore(EmbeddedMetadataStore):
    """Fails of something that nobody has foreseen."""

    fails = False

    async def grant_lease(self, ttl_ms: int) -> LeaseId:
        if self.fails:
            raise ZeroDivisionError("unforeseen")
        return await super().grant_lease(ttl_ms)


@asynccontextmanager
async def _parts(failures: list[BaseException]) -> AsyncIterator[tuple[FailingStore, Controller]]:
    store = FailingStore(SimulatedDisk(Random(1)))
    await store.open()
    mirror = ClusterMirror(store)
    await mirror.start()
    config = default_broker_config()
    controller = Controller(
        store, mirror, config, Random(2), address="h:1", on_failure=failures.append
    )
    try:
        yield store, controller
    finally:
        await controller.stop()
        await mirror.stop()
        await store.close()


def run(scenario: Scenario) -> None:
    async def main() -> None:
        failures: list[BaseException] = []
        async with _parts(failures) as (store, controller):
            await scenario(store, controller, failures)

    with asyncio.Runner(loop_factory=lambda: SimulationLoop(Random(0), Trace())) as runner:
        runner.run(main())


def test_who_waits_for_a_controller_that_failed_hears_of_what() -> None:
    async def scenario(
        store: FailingStore, controller: Controller, failures: list[BaseException]
    ) -> None:
        store.fails = True
        await controller.start()
        with pytest.raises(NotController, match=r"will not become active.*unforeseen") as raised:
            await controller.wait_until_active()
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert failures == [raised.value.__cause__]

    run(scenario)


def test_a_controller_that_fails_later_tells_its_owner() -> None:
    async def scenario(
        store: FailingStore, controller: Controller, failures: list[BaseException]
    ) -> None:
        await controller.start()
        await controller.wait_until_active()
        store.fails = True
        # Its term ends, and the next one can't begin.
        for lease_id in {item.lease_id for item in (await store.range("")).items}:
            await store.revoke_lease(lease_id)
        await asyncio.sleep(LEASE_TTL_MS / 1000)
        with pytest.raises(NotController, match="unforeseen"):
            await controller.wait_until_active()
        assert [str(failure) for failure in failures] == ["unforeseen"]

    run(scenario)


def test_who_waits_for_a_controller_that_is_stopped_waits_no_longer() -> None:
    async def scenario(
        store: FailingStore, controller: Controller, failures: list[BaseException]
    ) -> None:
        await controller.start()
        waiting = asyncio.create_task(controller.wait_until_active())
        await controller.stop()
        with pytest.raises(NotController, match="it was stopped"):
            await waiting
        assert failures == []

    run(scenario)
