"""WatchMetadata: what `Metadata` answers, then every change of it, pushed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tidelog.wire.v1 import metadata_pb2
from tidelog_broker.api.metadata import describe_all, describe_named, describe_topic
from tidelog_runtime.cluster_state import TopicState

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker


class MetadataWatch:
    """One client's view of the cluster: what it was told last."""

    def __init__(self, broker: Broker, request: metadata_pb2.WatchMetadataRequest) -> None:
        self._broker = broker
        self._request = request
        self._revision = 0
        self._told: dict[bytes, str] = {}

    @property
    def revision(self) -> int:
        """Up to where the client was told."""
        return self._revision

    async def snapshot(self) -> metadata_pb2.MetadataUpdate:
        """Everything the client asked for, as it is now."""
        view = self._broker.view
        update = self._update(snapshot=True)
        if self._request.all_topics:
            include_internal = self._request.include_internal
            update.topics.extend(await describe_all(view, include_internal=include_internal))
        else:
            update.topics.extend(await describe_named(view, self._request.topics))
        self._told = {topic.topic_id: topic.name for topic in update.topics if topic.topic_id}
        return update

    async def changes(self) -> metadata_pb2.MetadataUpdate | None:
        """What has changed since the last update; None when nothing of it concerns the client."""
        view = self._broker.view
        changes = view.changes_since(self._revision)
        if changes is None:
            return await self.snapshot()
        update = self._update(snapshot=False)
        for topic_id in changes.topics:
            topic = view.topic_by_id(topic_id)
            if topic is not None and self._concerns(topic):
                update.topics.append(describe_topic(view, topic))
                self._told[topic_id] = topic.name
        for topic_id in changes.deleted_topics:
            name = self._told.pop(topic_id, None)
            if name is not None and view.topic(name) is None:
                update.deleted_topics.append(name)
        if changes.brokers or update.topics or update.deleted_topics:
            return update
        return None

    def _concerns(self, topic: TopicState) -> bool:
        if self._request.all_topics:
            return self._request.include_internal or not topic.internal
        return topic.name in self._request.topics

    def _update(self, *, snapshot: bool) -> metadata_pb2.MetadataUpdate:
        self._revision = self._broker.view.revision
        return metadata_pb2.MetadataUpdate(
            snapshot=snapshot,
            revision=self._revision,
            cluster_id=self._broker.cluster_id,
            controller_id=self._broker.controller_id,
            brokers=self._broker.endpoints(self._request.dialled_address),
        )


async def watch_metadata(
    broker: Broker, caller: Caller, request: metadata_pb2.WatchMetadataRequest
) -> AsyncIterator[metadata_pb2.MetadataUpdate]:
    """A snapshot, then each change; ends when the broker stops."""
    watch = MetadataWatch(broker, request)
    yield await watch.snapshot()
    while await broker.assignments.wait_beyond(watch.revision):
        update = await watch.changes()
        if update is not None:
            yield update
