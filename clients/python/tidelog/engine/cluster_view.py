"""What a client knows of the cluster: where brokers are, which topics there are, who leads what.

A cache and no more: everything in it may be out of date, and whoever is told so by a broker marks
it stale. Pure; `cluster.py` fills it. An answer older than what is known is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.engine.wire_errors import error_of
from tidelog.errors import TidelogError
from tidelog.model import TopicId
from tidelog.wire.v1 import common_pb2, metadata_pb2


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, since which epoch; address None while nobody does."""

    address: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as it was last seen."""

    name: str
    topic_id: TopicId
    internal: bool
    leaders: tuple[Leader, ...]

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""
        return len(self.leaders)


class ClientClusterView:
    """The cache."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.controller_id = -1
        self.revision = -1
        self.addresses: dict[int, str] = {}
        self._topics: dict[str, TopicView] = {}
        self._stale: set[str] = set()

    @property
    def topic_names(self) -> Iterable[str]:
        """The names of the topics that are known here."""
        return self._topics.keys()

    def topic(self, name: str) -> TopicView | None:
        """The topic as last seen; None when it must be asked for."""
        return None if name in self._stale else self._topics.get(name)

    def last_seen(self, name: str) -> TopicView | None:
        """The topic as last seen, stale or not."""
        return self._topics.get(name)

    def mark_stale(self, name: str) -> None:
        """A broker has said that what is known of this topic isn't so any more."""
        self._stale.add(name)

    def forget(self, name: str) -> None:
        """The topic is gone."""
        self._topics.pop(name, None)
        self._stale.discard(name)

    def apply(self, answer: metadata_pb2.MetadataResponse) -> dict[str, TidelogError]:
        """Takes over an answer; what it says of topics that could not be described, by name."""
        if answer.cluster_id == self.cluster_id and answer.revision < self.revision:
            return {}
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        self.revision = answer.revision
        self.addresses = {broker.broker_id: _address(broker) for broker in answer.brokers}
        errors = {}
        for described in answer.topics:
            if described.HasField("error"):
                errors[described.name] = error_of(described.error)
                self.forget(described.name)
            else:
                self._topics[described.name] = self._topic(described)
                self._stale.discard(described.name)
        return errors

    def _topic(self, described: metadata_pb2.TopicMetadata) -> TopicView:
        ordered = sorted(described.partitions, key=lambda partition: partition.partition)
        return TopicView(
            name=described.name,
            topic_id=TopicId(described.topic_id),
            internal=described.internal,
            leaders=tuple(
                Leader(self.addresses.get(partition.leader_id), partition.leader_epoch)
                for partition in ordered
            ),
        )


def _address(broker: common_pb2.BrokerEndpoint) -> str:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return f"{host}:{broker.port}"
