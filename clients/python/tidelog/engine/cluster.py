"""The client's way to the cluster: bootstrap, metadata on demand, retries with a deadline.

Producer, consumer and admin hold one `Cluster` each. It asks any broker it can reach, the last
good one first, and shares one question among all who wait for the same answer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from tidelog.channel import ChannelFactory
from tidelog.engine.calls import is_being_cancelled
from tidelog.engine.cluster_view import ClientClusterView, Leader, TopicView
from tidelog.engine.connections import Connection, Connections
from tidelog.errors import (
    BrokerUnreachable,
    ClientClosed,
    InvalidPartitions,
    InvalidTopic,
    LeaderNotAvailable,
    TidelogError,
)
from tidelog.wire.v1 import metadata_pb2

Answer = TypeVar("Answer")

RETRY_BACKOFF_S: Final = 0.1
RETRY_BACKOFF_MAX_S: Final = 1.0
DEFAULT_BOOTSTRAP: Final = "localhost:9094"


class Cluster:
    """See the module. `random_source` spreads retries; the simulator seeds it."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        channel_factory: ChannelFactory,
        *,
        client_id: str,
        request_timeout_s: float,
        random_source: random.Random | None = None,
    ) -> None:
        self.view = ClientClusterView()
        self.connections = Connections(channel_factory, client_id, request_timeout_s)
        self.request_timeout_s = request_timeout_s
        self._bootstrap = list(bootstrap)
        self._last_good: str | None = None
        #: Spreads what many clients would do at one moment.
        self.chance = random_source or random.Random()
        self._asking: dict[tuple[str, bool], asyncio.Task[TopicView]] = {}

    async def close(self) -> None:
        """Ends every question and closes every connection."""
        asking, self._asking = self._asking, {}
        for task in asking.values():
            task.cancel()
        await asyncio.gather(*asking.values(), return_exceptions=True)
        await self.connections.close()

    # ------------------------------------------------------------------ brokers

    def _candidates(self) -> list[str]:
        known = list(self.view.addresses.values())
        self.chance.shuffle(known)
        first = [self._last_good] if self._last_good is not None else []
        return list(dict.fromkeys([*first, *known, *self._bootstrap]))

    async def any_broker(self) -> Connection:
        """A connection to whichever broker answers; BrokerUnreachable names all that did not."""
        failures: list[str] = []
        error: TidelogError | None = None
        for address in self._candidates():
            try:
                connection = await self.connections.get(address)
            except TidelogError as failure:
                error = failure
                failures.append(f"{address}: {failure.cause or failure.message}")
                continue
            self._last_good = address
            return connection
        try:
            if error is not None and not isinstance(error, BrokerUnreachable):
                raise error
            raise BrokerUnreachable(
                f"None of the brokers could be reached ({', '.join(self._candidates())})",
                cause="; ".join(failures),
                hint="Is one running there? `tidelog up` starts one; `tidelog doctor` tells more",
            )
        finally:
            del error  # as in `Connections.get`

    async def call(self, ask: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """One question to any broker."""
        connection = await self.any_broker()
        try:
            return await ask(connection)
        except BrokerUnreachable:
            self._last_good = None
            raise

    async def retrying(self, attempt: Callable[[], Awaitable[Answer]], deadline: float) -> Answer:
        """Repeats an idempotent question while it fails for passing reasons, until the deadline."""
        loop = asyncio.get_running_loop()
        backoff_s = RETRY_BACKOFF_S
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except TidelogError as failure:
                if not failure.retriable or loop.time() + backoff_s >= deadline:
                    raise
            except TimeoutError as timeout:
                raise BrokerUnreachable(
                    f"No broker of {', '.join(self._bootstrap)} answered in time",
                    hint="`tidelog doctor` finds out which step fails",
                ) from timeout
            await asyncio.sleep(backoff_s * self.chance.uniform(0.8, 1.2))
            backoff_s = min(backoff_s * 2, RETRY_BACKOFF_MAX_S)

    # ------------------------------------------------------------------ topics

    async def topic(
        self,
        name: str,
        *,
        deadline: float,
        create_for_produce: bool = False,
        partition: int = 0,
    ) -> TopicView:
        """The topic, from the cache or from a broker; UnknownTopic has the nearest name.

        One that lacks `partition` as it is cached may have grown since: a broker is asked.
        """
        check_topic_name(name)
        known = self.view.topic(name)
        if known is not None and partition < known.partition_count:
            return known
        key = (name, create_for_produce)
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(
                self._ask_for_topic(name, deadline, create_for_produce=create_for_produce),
                name=f"tidelog-metadata-{name}",
            )
            self._asking[key] = asking
            asking.add_done_callback(lambda done: self._answered(key, done))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            raise ClientClosed("The client was closed", hint="Make a new one") from None
        finally:
            del asking  # as in `Connections.get`

    def _answered(self, key: tuple[str, bool], asking: asyncio.Task[TopicView]) -> None:
        self._asking.pop(key, None)
        if not asking.cancelled():
            asking.exception()  # looked at: whoever asked may have been cancelled meanwhile

    async def _ask_for_topic(
        self, name: str, deadline: float, *, create_for_produce: bool
    ) -> TopicView:
        async def attempt() -> TopicView:
            errors = await self.refresh([name], create_for_produce=create_for_produce)
            if name in errors:
                raise errors[name]
            found = self.view.topic(name)
            if found is None:
                raise LeaderNotAvailable(f"The broker that was asked about {name!r} lags behind")
            return found

        return await self.retrying(attempt, deadline)

    async def refresh(
        self, names: Sequence[str], *, create_for_produce: bool = False
    ) -> dict[str, TidelogError]:
        """Asks for these topics anew; the errors by name."""
        return self.view.apply(
            await self.ask_metadata(
                metadata_pb2.MetadataRequest(topics=names, create_for_produce=create_for_produce)
            )
        )

    async def ask_metadata(
        self, request: metadata_pb2.MetadataRequest
    ) -> metadata_pb2.MetadataResponse:
        """One metadata question to any broker."""

        async def ask(connection: Connection) -> metadata_pb2.MetadataResponse:
            request.dialled_address = connection.address
            return await connection.ask(connection.broker.Metadata, request, self.request_timeout_s)

        return await self.call(ask)

    def leader(self, topic: TopicView, partition: int) -> Leader:
        """Who leads the partition; InvalidPartitions when the topic has no such one."""
        if not 0 <= partition < topic.partition_count:
            raise InvalidPartitions(
                f"Topic {topic.name!r} has no partition {partition}: it has"
                f" {topic.partition_count}, from 0 on"
            )
        return topic.leaders[partition]


def check_topic_name(name: object) -> None:
    """Refuses what no message could carry as a name; what a name may be, the brokers know."""
    if not isinstance(name, str):
        raise InvalidTopic(
            f"{name!r:.80} is no name of a topic, but of type {type(name).__name__}",
            hint="Give a str",
        )
    if not name.isascii():
        raise InvalidTopic(
            f"The topic name {name!r:.80} has characters that are not allowed",
            hint="Allowed are ASCII letters, digits, '.', '_' and '-'",
        )
