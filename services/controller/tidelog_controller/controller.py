"""The controller's shell: answers the `Controller` port while it leads.

The composition root starts one on every node that may control; the store's election makes one of
them active. Each request is decided by `core` on the mirrored view and written under the fence of
the present term (`fenced_writer`); one request at a time, one topic after the other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from tidelog.errors import InvalidRequest, NotController, TidelogError, UnknownTopic
from tidelog.model import TopicId
from tidelog_controller.core.cluster import plan_cluster_id
from tidelog_controller.core.configs import plan_alteration
from tidelog_controller.core.ids import plan_id_block
from tidelog_controller.core.names import existing_topic, nearest_topic
from tidelog_controller.core.orphans import plan_sweep
from tidelog_controller.core.placement import RandomSource
from tidelog_controller.core.plan import Plan, Transaction
from tidelog_controller.core.topics import (
    plan_creation,
    plan_deletion,
    plan_increase,
    topic_of_id,
)
from tidelog_controller.fenced_writer import FencedWriter
from tidelog_controller.terms import LEASE_TTL_MS, Terms
from tidelog_runtime.cluster_mirror import ClusterMirror
from tidelog_runtime.cluster_view import ClusterView
from tidelog_runtime.configs.broker import BrokerConfig
from tidelog_runtime.control import NewTopic, PartitionIncrease, TopicAlteration, TopicOutcome
from tidelog_runtime.metadata_store import MetadataStore
from tidelog_runtime.principal import Principal

_Request = TypeVar("_Request")
_Decision = Callable[[ClusterView], Plan]
#: So many unknown names of one request are told what is near: finding that takes milliseconds.
HINTS_MAX: Final = 10
#: Requests that are decided without waiting for the store, before others have their turn.
DECIDED_A_TURN: Final = 100


def _tell_nobody(_failure: BaseException) -> None:
    """For who owns no process: the log has it."""


class Controller:
    """One candidate; the active controller while it leads. `mirror` must have been started.

    `address` is what the election key tells the others: where the active controller is reached.
    `on_failure` is called when it ends by itself, which nothing restarts.
    """

    def __init__(
        self,
        store: MetadataStore,
        mirror: ClusterMirror,
        config: BrokerConfig,
        random: RandomSource,
        *,
        address: str,
        lease_ttl_ms: int = LEASE_TTL_MS,
        on_failure: Callable[[BaseException], None] = _tell_nobody,
    ) -> None:
        self._config = config
        self._mirror = mirror
        self._random = random
        self._terms = Terms(
            store,
            mirror,
            self._take_over,
            address=address,
            lease_ttl_ms=lease_ttl_ms,
            on_failure=on_failure,
        )

    @property
    def is_active(self) -> bool:
        """Whether this controller believes that it leads. Only the fence knows."""
        return self._terms.is_active

    async def start(self) -> None:
        """Begin to campaign; returns at once."""
        self._terms.start()

    async def wait_until_active(self) -> None:
        """Returns once this controller leads and serves; NotController when it never will."""
        await self._terms.wait_until_active()

    async def stop(self) -> None:
        """Give the office up, so that another takes over at once."""
        await self._terms.stop()

    async def create_topics(
        self, topics: Sequence[NewTopic], *, principal: Principal, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """See `tidelog_runtime.control.Controller`."""

        def plan(request: NewTopic, view: ClusterView) -> Plan:
            return plan_creation(request, view, self._config, self._random, principal)

        decisions = [(topic.name, _bound(plan, topic)) for topic in topics]
        return await self._each(decisions, validate_only=validate_only)

    async def delete_topics(
        self,
        names: Sequence[str],
        topic_ids: Sequence[TopicId] = (),
        *,
        principal: Principal,
    ) -> list[TopicOutcome]:
        """See `tidelog_runtime.control.Controller`."""

        def by_name(name: str, view: ClusterView) -> Plan:
            return plan_deletion(existing_topic(name, view), view, self._config, principal)

        def by_id(topic_id: TopicId, view: ClusterView) -> Plan:
            return plan_deletion(topic_of_id(topic_id, view), view, self._config, principal)

        named = await self._each([(name, _bound(by_name, name)) for name in dict.fromkeys(names)])
        return named + await self._each(
            [(topic_id.hex(), _bound(by_id, topic_id)) for topic_id in dict.fromkeys(topic_ids)]
        )

    async def create_partitions(
        self,
        increases: Sequence[PartitionIncrease],
        *,
        principal: Principal,
        validate_only: bool = False,
    ) -> list[TopicOutcome]:
        """See `tidelog_runtime.control.Controller`."""

        def plan(request: PartitionIncrease, view: ClusterView) -> Plan:
            return plan_increase(request, view, self._random, principal)

        decisions = [(increase.name, _bound(plan, increase)) for increase in increases]
        return await self._each(decisions, validate_only=validate_only)

    async def alter_configs(
        self,
        alterations: Sequence[TopicAlteration],
        *,
        principal: Principal,
        validate_only: bool = False,
    ) -> list[TopicOutcome]:
        """See `tidelog_runtime.control.Controller`."""

        def plan(request: TopicAlteration, view: ClusterView) -> Plan:
            return plan_alteration(request, view, self._config, principal)

        decisions = [(alteration.name, _bound(plan, alteration)) for alteration in alterations]
        return await self._each(decisions, validate_only=validate_only)

    async def allocate_producer_ids(self, count: int) -> int:
        """See `tidelog_runtime.control.Controller`."""

        def decide(view: ClusterView) -> tuple[int, Sequence[Transaction]]:
            first, transaction = plan_id_block(count, view)
            return first, (transaction,)

        return await self._terms.writer.perform(decide)

    async def _take_over(self, writer: FencedWriter) -> None:
        """What every term begins with, before any request is served."""

        def decide(view: ClusterView) -> tuple[None, Sequence[Transaction]]:
            return None, (*plan_cluster_id(view, self._random), *plan_sweep(view))

        await writer.perform(decide)

    async def _each(
        self,
        decisions: Sequence[tuple[str, _Decision]],
        *,
        validate_only: bool = False,
    ) -> list[TopicOutcome]:
        named = Counter(name for name, _ in decisions)
        outcomes = []
        hints_left = HINTS_MAX
        for index, (name, decide) in enumerate(decisions, start=1):
            if named[name] > 1:
                error = InvalidRequest(f"Topic '{name}' is named more than once in the request")
                outcomes.append(TopicOutcome(name, error))
            else:
                outcomes.append(await self._one(name, decide, validate_only=validate_only))
            refusal = outcomes[-1].error
            if isinstance(refusal, UnknownTopic) and hints_left > 0:
                refusal.hint = nearest_topic(name, self._mirror.view)
                hints_left -= 1
            if index % DECIDED_A_TURN == 0:
                await asyncio.sleep(0)
        return outcomes

    async def _one(self, name: str, decide: _Decision, *, validate_only: bool) -> TopicOutcome:
        def decided(view: ClusterView) -> tuple[TopicOutcome, Sequence[Transaction]]:
            plan = decide(view)
            return plan.outcome, () if validate_only else plan.transactions

        try:
            return await self._terms.writer.perform(decided)
        except NotController:
            raise
        except TidelogError as refusal:
            return TopicOutcome(name, refusal)


def _bound(plan: Callable[[_Request, ClusterView], Plan], request: _Request) -> _Decision:
    return lambda view: plan(request, view)
