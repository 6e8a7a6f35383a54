"""What a producer has to ask the cluster: who leads a partition, and for an identity.

`pipeline` calls it; at most one question of each kind is under way. Invariant: a topic that was
deleted and created again is another topic, and what was meant for the old one is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from tidelog.engine.wire_errors import error_of
from tidelog.errors import (
    DeliveryExpired,
    InvalidTopic,
    Refused,
    TidelogError,
    TopicAuthorizationFailed,
    UnknownTopic,
)
from tidelog.model import TopicId
from tidelog.producer.accumulator import TopicRoute
from tidelog.producer.partition_queue import Identity, PartitionKey
from tidelog.wire.v1 import producer_ids_pb2

if TYPE_CHECKING:
    from tidelog.engine.cluster import Cluster
    from tidelog.engine.cluster_view import Leader, TopicView
    from tidelog.engine.connections import Connection
    from tidelog.producer.accumulator import Accumulator
    from tidelog.producer.core import ProducerCore

PAUSE_S: Final = 0.05
PAUSE_MAX_S: Final = 1.0


class ClusterQuestions:
    """See the module; `on_news` is called when an answer changed something."""

    def __init__(
        self,
        cluster: Cluster,
        core: ProducerCore,
        accumulator: Accumulator,
        on_news: Callable[[], None],
        *,
        metadata_max_age_s: float,
    ) -> None:
        self._cluster = cluster
        self._core = core
        self._accumulator = accumulator
        self._on_news = on_news
        self._leaders: dict[PartitionKey, Leader] = {}
        self._identity_task: asyncio.Task[None] | None = None
        self._metadata_task: asyncio.Task[None] | None = None
        self._metadata_max_age_s = metadata_max_age_s
        self._aging = self._age_later()

    def _age_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._metadata_max_age_s, self._age)

    def _age(self) -> None:
        """What is known may be out of date though nothing failed: partitions may be new."""
        self._core.stale_topics.update(self._accumulator.routes)
        self._aging = self._age_later()
        self._on_news()

    async def close(self) -> None:
        """Ends every question."""
        self._aging.cancel()
        tasks = [task for task in (self._identity_task, self._metadata_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def leader_of(self, key: PartitionKey) -> str | None:
        """The address of the partition's leader; None while there is none that we know."""
        leader = self._leaders.get(key)
        return None if leader is None else leader.address

    def leader_epoch_of(self, key: PartitionKey) -> int:
        """The epoch of that leader."""
        return self._leaders[key].epoch

    def ask_what_is_needed(self) -> None:
        """Starts the questions that the core waits for, unless they are under way."""
        if self._core.needs_identity() and self._identity_task is None:
            self._identity_task = self._start(self._ask_identity(), "identity")
            self._identity_task.add_done_callback(self._on_identity_end)
        if self._core.stale_topics and self._metadata_task is None:
            self._metadata_task = self._start(self._ask_metadata(), "metadata")
            self._metadata_task.add_done_callback(self._on_metadata_end)

    def _start(self, question: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(question, name=f"tidelog-producer-{what}")

    # ------------------------------------------------------------------ identity

    async def _ask_identity(self) -> None:
        pause_s = PAUSE_S
        while self._core.needs_identity():
            try:
                self._core.on_identity(await self._next_identity())
            except TidelogError as failure:
                if not failure.retriable and not failure.outcome_unknown:
                    self._core.end(failure)
                    return
                await asyncio.sleep(pause_s * self._cluster.chance.uniform(0.8, 1.2))
                pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _next_identity(self) -> Identity:
        """A new id, or the next epoch of ours. To ask twice does no harm: ids are plenty."""
        held = self._core.identity
        request = producer_ids_pb2.InitProducerIdRequest()
        if held is not None:
            request.producer_id, request.producer_epoch = held

        async def ask(connection: Connection) -> producer_ids_pb2.InitProducerIdResponse:
            return await connection.ask(
                connection.broker.InitProducerId, request, self._cluster.request_timeout_s
            )

        answer = await self._cluster.call(ask)
        if answer.HasField("error"):
            raise error_of(answer.error)
        return Identity(answer.producer_id, answer.producer_epoch)

    def _on_identity_end(self, task: asyncio.Task[None]) -> None:
        self._identity_task = None
        if not task.cancelled():
            task.result()
        self._on_news()  # also where somebody has cancelled it: it is asked anew

    # ------------------------------------------------------------------ topics

    async def route(self, topic: str, deadline: float, partition: int = 0) -> TopicRoute:
        """The route of a topic, asked for if need be; raises what the cluster says of it.

        One that lacks `partition` may have grown: a broker is asked, and it lacks it still if not.
        """
        route = self._accumulator.routes.get(topic)
        if route is not None and partition < len(route.slots):
            return route
        while True:
            self._take_over(await self._view(topic, deadline, partition))
            route = self._accumulator.routes.get(topic)
            if route is not None:
                return route

    async def _view(self, topic: str, deadline: float, partition: int) -> TopicView:
        """The topic; why nobody could tell of it is, for a record, a refusal: it was not sent."""
        try:
            return await self._cluster.topic(
                topic, deadline=deadline, create_for_produce=True, partition=partition
            )
        except TidelogError as failure:
            if isinstance(failure, Refused):
                raise
            raise DeliveryExpired(
                f"Nothing was sent to topic {topic!r}: no broker could say where it is",
                cause=str(failure),
                hint="Send again when the cluster is there; max_block_ms says how long to wait",
            ) from failure

    def _take_over(self, view: TopicView) -> None:
        route = self._accumulator.routes.get(view.name)
        if route is not None and route.topic_id != view.topic_id:
            self._drop(
                route,
                UnknownTopic(
                    f"Topic {view.name!r} was deleted and created anew",
                    hint="The record was meant for the old one; send again to write to the new",
                ),
            )
            route = None
        if route is None:
            turn = self._cluster.chance.randrange(max(1, view.partition_count))
            route = TopicRoute(view.name, view.topic_id, view.partition_count, turn)
            self._accumulator.routes[view.name] = route
        route.grow(view.partition_count)
        for number, leader in enumerate(view.leaders):
            self._leaders[PartitionKey(view.name, view.topic_id, number)] = leader
            if leader.address is None:
                self._core.stale_topics.add(view.name)

    def _drop(self, route: TopicRoute, error: TidelogError) -> None:
        """The topic of this route is gone; what it holds is refused, then or now."""
        self._accumulator.seal_open(route.slots)
        self._on_news()
        self._accumulator.routes.pop(route.topic, None)
        self._core.on_topic_gone(route.topic, TopicId(route.topic_id), error)
        for number in range(len(route.slots)):
            self._leaders.pop(PartitionKey(route.topic, route.topic_id, number), None)

    async def _ask_metadata(self) -> None:
        pause_s = PAUSE_S
        while self._core.stale_topics:
            names = sorted(self._core.stale_topics)
            self._core.stale_topics.clear()
            try:
                await self._refresh(names)
            except TidelogError:
                # Nobody could be asked; the batches that wait for it have their deadlines.
                self._core.stale_topics.update(names)
            except asyncio.CancelledError:
                self._core.stale_topics.update(names)
                raise
            self._on_news()
            await asyncio.sleep(pause_s * self._cluster.chance.uniform(0.8, 1.2))
            pause_s = min(pause_s * 2, PAUSE_MAX_S)
            self._forget_what_nobody_needs()

    def _forget_what_nobody_needs(self) -> None:
        waiting = {queue.key.topic for queue in self._core.active}
        self._core.stale_topics &= waiting

    async def _refresh(self, names: list[str]) -> None:
        for name in names:
            self._cluster.view.mark_stale(name)
        errors = await self._cluster.refresh(names)
        for name in names:
            view = self._cluster.view.topic(name)
            if view is not None:
                self._take_over(view)
                continue
            error, route = errors.get(name), self._accumulator.routes.get(name)
            gone = isinstance(error, UnknownTopic | InvalidTopic | TopicAuthorizationFailed)
            if gone and error is not None and route is not None:
                self._drop(route, error)
            else:
                self._core.stale_topics.add(name)

    def _on_metadata_end(self, task: asyncio.Task[None]) -> None:
        self._metadata_task = None
        if not task.cancelled():
            task.result()
        self._on_news()
