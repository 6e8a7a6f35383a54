"""The admin client for asyncio; `Admin` is the same without `await`.

    async with AsyncAdmin("localhost:9094") as admin:
        await admin.create_topic("orders", partitions=6)

Invariant: a call either did what it says or raises; where an answer was lost on the way, the error
says that it may have been done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar, Unpack

from tidelog.admin import messages
from tidelog.admin.descriptions import (
    Assignment,
    ClusterDescription,
    ConfigEntry,
    ConfigValue,
    CreatedTopic,
    NewTopic,
    TopicDescription,
)
from tidelog.admin.offsets import OffsetListing
from tidelog.admin.record_deletion import RecordDeletion
from tidelog.admin.settings import AdminKeywords, AdminSettings
from tidelog.channel import ChannelFactory
from tidelog.engine.closing import AsyncClosing
from tidelog.engine.cluster import DEFAULT_BOOTSTRAP, Cluster
from tidelog.engine.connections import Connection
from tidelog.engine.offsets import Found
from tidelog.engine.one_loop import OneLoop
from tidelog.engine.places import Place
from tidelog.engine.wire_errors import error_of
from tidelog.errors import (
    BrokerUnreachable,
    ClientClosed,
    InvalidRequest,
    TidelogError,
    TopicAlreadyExists,
    UnknownTopic,
)
from tidelog.model import TopicPartition
from tidelog.settings import addresses, read
from tidelog.wire.v1 import admin_pb2, metadata_pb2

Answer = TypeVar("Answer")

LOST_ANSWER: Final = "The answer to an earlier attempt was lost: it may have done this"


class AsyncAdmin(AsyncClosing):
    """Creates, changes and describes topics, configs and the cluster."""

    def __init__(
        self,
        bootstrap: str | list[str] | tuple[str, ...] = DEFAULT_BOOTSTRAP,
        *,
        channel_factory: ChannelFactory | None = None,
        **settings: Unpack[AdminKeywords],
    ) -> None:
        self._settings = read(AdminSettings, settings, "An admin client")
        self._bootstrap = addresses(bootstrap)
        self._closed = False
        self._one_loop = OneLoop("admin client")
        if channel_factory is None:
            from tidelog.channel_grpc import grpc_channel_factory  # noqa: PLC0415 - imports grpc

            channel_factory = grpc_channel_factory()
        self._cluster = Cluster(
            self._bootstrap,
            channel_factory,
            client_id=self._settings.client_id,
            request_timeout_s=self._settings.request_timeout_ms / 1000,
        )

    async def close(self) -> None:
        """Closes every connection."""
        if not self._closed:
            self._one_loop.check()
        self._closed = True
        await self._cluster.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._bootstrap)!r})"

    # ------------------------------------------------------------------ topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        assignment: Assignment | None = None,
        validate_only: bool = False,
        if_not_exists: bool = False,
    ) -> CreatedTopic | None:
        """Creates a topic; None if it exists already and `if_not_exists` allows that.

        Without `partitions` and `replication_factor` the cluster's defaults hold.
        """
        topic = NewTopic(
            name, partitions, replication_factor, {} if config is None else config, assignment
        )
        created = (await self.create_topics([topic], validate_only=validate_only))[name]
        if isinstance(created, TopicAlreadyExists) and if_not_exists:
            return None
        return _or_raise(created)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | TidelogError]:
        """Creates topics; each becomes a `CreatedTopic` or the error it was refused with."""
        request = admin_pb2.CreateTopicsRequest(
            topics=messages.new_topics(topics), validate_only=validate_only
        )

        async def ask(connection: Connection, timeout_s: float) -> list[admin_pb2.TopicResult]:
            request.timeout_ms = int(timeout_s * 1000)
            answer = await connection.ask(connection.admin.CreateTopics, request, timeout_s)
            return list(answer.topics)

        results, answer_was_lost = await self._change(ask)
        return {
            result.name: _refusal(result, TopicAlreadyExists if answer_was_lost else None)
            or messages.created_topic(result)
            for result in results
        }

    async def delete_topic(self, name: str, *, if_exists: bool = False) -> bool:
        """Deletes a topic and its records; False if there is none and `if_exists` allows that."""
        error = (await self.delete_topics([name]))[name]
        if isinstance(error, UnknownTopic) and if_exists:
            return False
        if error is not None:
            raise error
        return True

    async def delete_topics(self, names: Iterable[str]) -> dict[str, TidelogError | None]:
        """Deletes topics; each becomes None or the error it was refused with."""
        request = admin_pb2.DeleteTopicsRequest(names=messages.topic_names(names))

        async def ask(connection: Connection, timeout_s: float) -> list[admin_pb2.TopicResult]:
            request.timeout_ms = int(timeout_s * 1000)
            answer = await connection.ask(connection.admin.DeleteTopics, request, timeout_s)
            return list(answer.topics)

        results, answer_was_lost = await self._change(ask)
        for result in results:
            self._cluster.view.forget(result.name)
        lost = UnknownTopic if answer_was_lost else None
        return {result.name: _refusal(result, lost) for result in results}

    async def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignment: Assignment | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Gives a topic more partitions, `total` together. Keys may move to other partitions."""
        request = admin_pb2.CreatePartitionsRequest(
            topics=[messages.increase(name, total, assignment)], validate_only=validate_only
        )

        async def ask(connection: Connection, timeout_s: float) -> list[admin_pb2.TopicResult]:
            request.timeout_ms = int(timeout_s * 1000)
            answer = await connection.ask(connection.admin.CreatePartitions, request, timeout_s)
            return list(answer.topics)

        (result,), _ = await self._change(ask)
        self._cluster.view.mark_stale(name)
        return _or_raise(_refusal(result) or messages.created_topic(result))

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """The names of all topics, in order."""
        described = await self.describe_topics(include_internal=include_internal)
        return sorted(described)

    async def describe_topic(self, name: str) -> TopicDescription:
        """A topic with its partitions; `UnknownTopic` has the nearest name."""
        return (await self.describe_topics([name]))[name]

    async def describe_topics(
        self, names: Iterable[str] | None = None, *, include_internal: bool = False
    ) -> dict[str, TopicDescription]:
        """These topics, or all; raises for the first that can't be described."""
        asked = None if names is None else messages.topic_names(names)
        request = metadata_pb2.MetadataRequest(
            all_topics=asked is None, topics=asked or (), include_internal=include_internal
        )
        answer = await self._ask(lambda: self._cluster.ask_metadata(request))
        described = [messages.topic_description(topic) for topic in answer.topics]
        return {topic.name: topic for topic in described}

    # ------------------------------------------------------------------ configs

    async def describe_config(
        self,
        *,
        topic: str | None = None,
        broker: int | None = None,
        keys: Sequence[str] = (),
    ) -> dict[str, ConfigEntry]:
        """The configs of a topic or of a broker by key; all of them unless `keys` says which."""
        resource = messages.resource(topic, broker)
        request = admin_pb2.DescribeConfigsRequest()
        request.resources.add(resource=resource, keys=keys)

        async def ask(connection: Connection) -> admin_pb2.DescribeConfigsResponse:
            return await connection.ask(
                connection.admin.DescribeConfigs, request, self._cluster.request_timeout_s
            )

        if broker is None:
            answer = await self._ask(lambda: self._cluster.call(ask))
        else:
            answer = await self._ask(lambda: self._call_broker(broker, ask))
        return messages.config_entries(answer.resources[0])

    async def alter_config(
        self,
        topic: str,
        config: Mapping[str, ConfigValue] | None = None,
        *,
        delete: Iterable[str] = (),
        append: Mapping[str, ConfigValue] | None = None,
        subtract: Mapping[str, ConfigValue] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Changes configs of a topic, all together or not at all.

        `config` sets, `delete` goes back to the default, `append` and `subtract` change lists.
        """
        request = admin_pb2.AlterConfigsRequest(validate_only=validate_only)
        request.resources.add(
            resource=messages.resource(topic, None),
            alterations=messages.alterations(
                {} if config is None else config,
                delete,
                {} if append is None else append,
                {} if subtract is None else subtract,
            ),
        )

        async def ask(connection: Connection, timeout_s: float) -> admin_pb2.AlterConfigsResponse:
            return await connection.ask(connection.admin.AlterConfigs, request, timeout_s)

        answer, _ = await self._change(ask)
        messages.config_entries(answer.resources[0])

    # ------------------------------------------------------------------ offsets and records

    async def list_offsets(
        self,
        partitions: str | TopicPartition | Iterable[str | TopicPartition],
        at: Place = "latest",
    ) -> Found:
        """Offsets of partitions (of all of a topic by its name) at a place.

        A place is "earliest", "latest", "max_timestamp" (the record with the largest one), a
        `datetime` or a `timedelta` back from now; None where no record is as late as that.
        """
        self._check()
        return await OffsetListing(self._cluster).find(partitions, at, self._deadline())

    async def delete_records(
        self, before: Mapping[TopicPartition, int | str]
    ) -> dict[TopicPartition, int]:
        """Deletes the records before offsets ("latest": all); the first offsets that are left."""
        self._check()
        return await RecordDeletion(self._cluster, before).run(self._deadline())

    # ------------------------------------------------------------------ the cluster

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller, brokers and features."""

        async def ask(connection: Connection) -> admin_pb2.DescribeClusterResponse:
            return await connection.ask(
                connection.admin.DescribeCluster,
                admin_pb2.DescribeClusterRequest(dialled_address=connection.address),
                self._cluster.request_timeout_s,
            )

        answer = await self._ask(lambda: self._cluster.call(ask))
        if answer.HasField("error"):
            raise error_of(answer.error)
        return messages.cluster_description(answer)

    # ------------------------------------------------------------------ asking

    def _check(self) -> None:
        if self._closed:
            raise ClientClosed("The admin client is closed", hint="Make a new one")
        self._one_loop.check()

    def _deadline(self) -> float:
        limit_s = self._settings.default_api_timeout_ms / 1000
        return asyncio.get_running_loop().time() + limit_s

    async def _ask(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """A question: repeated while it fails for passing reasons."""
        self._check()
        return await self._cluster.retrying(attempt, self._deadline())

    async def _call_broker(
        self, broker_id: int, ask: Callable[[Connection], Awaitable[Answer]]
    ) -> Answer:
        """A question that only one broker can answer."""
        await self._cluster.refresh([])
        known = self._cluster.view.addresses
        if broker_id not in known:
            alive = ", ".join(map(str, sorted(known))) or "none"
            raise InvalidRequest(
                f"There is no broker {broker_id}", hint=f"The brokers that live are {alive}"
            )
        connection = await self._cluster.connections.get(known[broker_id])
        return await ask(connection)

    async def _change(
        self, ask: Callable[[Connection, float], Awaitable[Answer]]
    ) -> tuple[Answer, bool]:
        """A change, repeated while no broker could be reached; was an answer lost on the way?"""
        self._check()
        deadline = self._deadline()
        loop = asyncio.get_running_loop()
        lost = False

        async def attempt() -> Answer:
            nonlocal lost
            connection = await self._cluster.any_broker()
            limit_s = min(self._cluster.request_timeout_s, max(0.001, deadline - loop.time()))
            try:
                return await ask(connection, limit_s)
            except TidelogError as error:
                lost = lost or isinstance(error, BrokerUnreachable) or error.outcome_unknown
                self._cluster.connections.drop(connection)
                raise

        answer = await self._cluster.retrying(attempt, deadline)
        return answer, lost


def _or_raise(outcome: CreatedTopic | TidelogError) -> CreatedTopic:
    if isinstance(outcome, TidelogError):
        raise outcome
    return outcome


def _refusal(
    result: admin_pb2.TopicResult, lost: type[TidelogError] | None = None
) -> TidelogError | None:
    """What a topic was refused with; `lost` is the refusal that a lost success looks like."""
    if not result.HasField("error"):
        return None
    error = error_of(result.error)
    if lost is not None and isinstance(error, lost):
        error.cause = error.cause or LOST_ANSWER
    return error
