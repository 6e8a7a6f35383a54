"""What the controller answers when the store cannot say what happened, or cannot write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from simulation.disk import SimulatedDisk
from simulation.loop import SimulationLoop
from simulation.trace import Trace
from tidelog.errors import RequestTimedOut, StorageError
from tidelog_controller import Controller
from tidelog_runtime.broker_registration import register_broker
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_state import BrokerRegistration
from tidelog_runtime.configs.broker import default_broker_config
from tidelog_runtime.control import NewTopic, TopicOutcome
from tidelog_runtime.metadata_store import (
    Committed,
    Compare,
    Conflict,
    Operation,
    StoreOutcomeUnknown,
)
from tidelog_runtime.metadata_store.embedded import EmbeddedMetadataStore
from tidelog_runtime.principal import ANONYMOUS


class UnsureStore(EmbeddedMetadataStore):
    """Loses the next answers on their way back, or the next requests on their way in."""

    lose_answers = 0
    lose_requests = 0

    async def commit(
        self, compares: Sequence[Compare], operations: Sequence[Operation]
    ) -> Committed | Conflict:
        if self.lose_requests:
            self.lose_requests -= 1
            raise StoreOutcomeUnknown("no answer")
        outcome = await super().commit(compares, operations)
        if self.lose_answers:
            self.lose_answers -= 1
            raise StoreOutcomeUnknown("no answer")
        return outcome


Create = Callable[..., Awaitable[TopicOutcome]]
Scenario = Callable[[UnsureStore, SimulatedDisk, Create, ClusterMirror], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def main() -> None:
        disk = SimulatedDisk(Random(1))
        store = UnsureStore(disk)
        await store.open()
        mirror = ClusterMirror(store)
        await mirror.start()
        registration = BrokerRegistration(1, "h", 1, "h", 1, "commit", b"x" * 16)
        await register_broker(store, registration, await store.grant_lease(10**9))
        controller = Controller(store, mirror, default_broker_config(), Random(2), address="h:1")
        await controller.start()
        await controller.wait_until_active()

        async def create(name: str, partitions: int = 1) -> TopicOutcome:
            (outcome,) = await controller.create_topics(
                [NewTopic(name, partitions)], principal=ANONYMOUS
            )
            return outcome

        try:
            await scenario(store, disk, create, mirror)
        finally:
            await controller.stop()
            await mirror.stop()
            await store.close()

    with asyncio.Runner(loop_factory=lambda: SimulationLoop(Random(0), Trace())) as runner:
        runner.run(main())


def test_an_answer_that_is_lost_is_read_back() -> None:
    async def scenario(
        store: UnsureStore, disk: SimulatedDisk, create: Create, mirror: ClusterMirror
    ) -> None:
        store.lose_answers = 3
        outcome = await create("a", 300)
        assert outcome.error is None
        topic = mirror.view.topic("a")
        assert topic is not None
        assert topic.topic_id == outcome.topic_id
        assert len(list(mirror.view.partitions(topic.topic_id))) == 300

    run(scenario)


def test_a_request_that_may_still_arrive_is_not_repeated() -> None:
    async def scenario(
        store: UnsureStore, disk: SimulatedDisk, create: Create, mirror: ClusterMirror
    ) -> None:
        before = await store.range("")
        store.lose_requests = 1
        outcome = await create("a")
        assert isinstance(outcome.error, RequestTimedOut)
        assert outcome.error.outcome_unknown
        assert await store.range("") == before
        assert (await create("a")).error is None

    run(scenario)


def test_a_full_disk_is_a_passing_refusal() -> None:
    async def scenario(
        store: UnsureStore, disk: SimulatedDisk, create: Create, mirror: ClusterMirror
    ) -> None:
        disk.set_capacity(0)
        outcome = await create("a")
        assert isinstance(outcome.error, StorageError)
        assert outcome.error.retriable
        assert "nothing was changed" in str(outcome.error)
        disk.set_capacity(1 << 20)
        assert (await create("a")).error is None

    run(scenario)
