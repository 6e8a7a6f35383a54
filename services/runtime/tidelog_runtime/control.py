"""The port to the active controller: what brokers ask of it for their clients and themselves.

Brokers hold a `Controller` and forward admin calls with the caller's principal. In a one-process
cluster it is the controller itself. Answers are one outcome a topic: some may fail while others
succeed; what concerns the whole call is raised.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.errors import TidelogError
from tidelog.model import NO_TOPIC_ID, TopicId
from tidelog_runtime.principal import Principal


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. 0 partitions or replicas: the cluster's default.

    `assignment` gives the brokers of each partition, the preferred leader first, instead of both.
    """

    name: str
    partitions: int = 0
    replication_factor: int = 0
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionIncrease:
    """A topic that is to have more partitions. `assignment` is that of the added ones."""

    name: str
    total_partitions: int
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)


class AlterOperation(enum.Enum):
    """What to do with one config key."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """One change of one key. DELETE goes back to the default; APPEND and SUBTRACT are for lists."""

    key: str
    operation: AlterOperation
    value: str = ""


@dataclass(frozen=True, slots=True)
class TopicAlteration:
    """Changes to the configuration of one topic; all of them happen or none."""

    name: str
    alterations: Sequence[ConfigAlteration]


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic; `error` is None on success.

    `configs` holds what is set for the topic, without what it inherits.
    """

    name: str
    error: TidelogError | None = None
    topic_id: TopicId = NO_TOPIC_ID
    partitions: int = 0
    replication_factor: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)


class Controller(Protocol):
    """The active controller. Every method raises NotController where it is not that any more."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, principal: Principal, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """Create topics; with `validate_only` only say what would happen."""

    async def delete_topics(
        self,
        names: Sequence[str],
        topic_ids: Sequence[TopicId] = (),
        *,
        principal: Principal,
    ) -> list[TopicOutcome]:
        """Delete topics, by name or by identity: first the outcomes of the names, each once."""

    async def create_partitions(
        self,
        increases: Sequence[PartitionIncrease],
        *,
        principal: Principal,
        validate_only: bool = False,
    ) -> list[TopicOutcome]:
        """Add partitions to topics."""

    async def alter_configs(
        self,
        alterations: Sequence[TopicAlteration],
        *,
        principal: Principal,
        validate_only: bool = False,
    ) -> list[TopicOutcome]:
        """Change the configuration of topics."""

    async def allocate_producer_ids(self, count: int) -> int:
        """The first of `count` consecutive producer ids that nobody else will ever get."""
