"""Topics that come into being because somebody writes to them (`auto.create.topics.enable`).

Only a produce creates a topic by itself: reading or administering an unknown name is an error
that names the nearest one.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.errors import TidelogError, TopicAlreadyExists
from tidelog_broker.partition.assignments import Assignments
from tidelog_runtime.control import Controller, NewTopic
from tidelog_runtime.principal import Principal


class AutoCreate:
    """Asks the controller for what producers miss."""

    def __init__(self, controller: Controller, assignments: Assignments, *, enabled: bool) -> None:
        self._controller = controller
        self._assignments = assignments
        self._enabled = enabled

    async def create(self, names: Iterable[str], principal: Principal) -> dict[str, TidelogError]:
        """Creates those that don't exist; the refusals by name."""
        known = self._assignments.view.topic
        missing = [name for name in dict.fromkeys(names) if known(name) is None]
        if not missing or not self._enabled:
            return {}
        outcomes = await self._controller.create_topics(
            [NewTopic(name) for name in missing], principal=principal
        )
        await self._assignments.wait_current()
        return {
            outcome.name: outcome.error
            for outcome in outcomes
            if outcome.error is not None and not isinstance(outcome.error, TopicAlreadyExists)
        }
