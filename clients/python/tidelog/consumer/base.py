"""What both consumers are made of, and what needs no event loop to be answered.

`AsyncConsumer` and `Consumer` derive from this and add how they wait. Invariant: a consumer that is
closed, failed or has nothing assigned says so, in words, before it would wait for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, Generic

from tidelog.channel import ChannelFactory
from tidelog.consumer.decoding import ALL_COLUMNS, Decoding, UnreadableBatch
from tidelog.consumer.engine import ConsumerEngine
from tidelog.consumer.reading import GiveBack, Reading
from tidelog.consumer.record_types import Deserializers, Key, Value
from tidelog.consumer.settings import ConsumerSettings
from tidelog.engine.places import reset_policy
from tidelog.errors import ClientClosed, InvalidRequest, LogCorrupt, UnknownServerError
from tidelog.model import TopicPartition
from tidelog.nearest import did_you_mean
from tidelog.serializers import Serializer, reader_of
from tidelog.settings import addresses, read

Deserializer = Serializer[Key] | Callable[[bytes | None], Key | None]
#: Rows of a table unless the caller says otherwise.
DEFAULT_ROWS: Final = 100_000

Timeout = float | timedelta | None


class ConsumerBase(Generic[Key, Value]):
    """See the module."""

    _engine: ConsumerEngine
    _reading: Reading[Key, Value]

    def __init__(
        self,
        bootstrap: str | list[str] | tuple[str, ...],
        *,
        key: Deserializer[Key] | None,
        value: Deserializer[Value] | None,
        group: str | None,
        settings: Mapping[str, object],
    ) -> None:
        if group is not None:
            raise InvalidRequest(
                f"group={group!r}: this Tidelog has no consumer groups yet",
                hint="Leave it out and assign() the partitions to read",
            )
        self._bootstrap = addresses(bootstrap)
        self._settings = read(ConsumerSettings, settings, "A consumer")
        reset_policy(self._settings.auto_offset_reset)  # a wrong one is refused here
        self._decoding: Decoding[Key, Value] = Decoding(
            Deserializers(reader_of(key, "key"), reader_of(value, "value")),
            check_crc=self._settings.check_crcs,
            limit_bytes=self._settings.max_decompressed_bytes,
        )
        self._closed = False

    def _open(
        self,
        channel_factory: ChannelFactory | None,
        on_delivery: Callable[[], None],
        give_back: GiveBack | None,
    ) -> None:
        """Makes engine and reading; on the event loop that will run the engine."""
        if channel_factory is None:
            from tidelog.channel_grpc import grpc_channel_factory  # noqa: PLC0415 - imports grpc

            channel_factory = grpc_channel_factory()
        self._engine = ConsumerEngine(self._bootstrap, self._settings, channel_factory, on_delivery)
        self._reading = Reading(
            self._engine.deliveries, self._decoding, give_back or self._engine.fetcher.give_back
        )

    # ------------------------------------------------------------------ what is known here

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read."""
        return tuple(self._engine.fetching.states)

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions that are paused."""
        states = self._engine.fetching.states.values()
        return tuple(state.name for state in states if state.paused)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record of the partition that will be handed out."""
        (state,) = self._engine.states_of([partition])
        return self._reading.position(state)

    def positions(self) -> dict[TopicPartition, int]:
        """The position of each assigned partition."""
        states = self._engine.fetching.states.values()
        return {state.name: self._reading.position(state) for state in states}

    def _positions_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        states = self._engine.states_of(partitions)
        return {state.name: self._reading.position(state) for state in states}

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"{type(self).__name__}({', '.join(self._bootstrap)!r}{state})"

    # ------------------------------------------------------------------ before waiting

    def _check(self) -> None:
        if self._closed:
            raise ClientClosed("The consumer is closed", hint="Make a new one")

    def _may_wait(self) -> bool:
        """Whether more can come; raises why not, unless all has been read that was asked for."""
        self._check()
        crash = self._engine.fetcher.crash
        if crash is not None:
            raise UnknownServerError(
                "The consumer failed in a way it did not expect",
                cause=f"{type(crash).__name__}: {crash}",
                hint="This is a fault of Tidelog's client: please report it",
            ) from crash
        states = self._engine.fetching.states
        if not states:
            raise InvalidRequest(
                "Nothing is assigned to the consumer",
                hint="Call assign('topic', start='earliest') first",
            )
        for state in states.values():
            if state.failed is not None:
                raise state.failed
        return not all(state.is_done for state in states.values())

    def _place_after(self, error: UnreadableBatch | LogCorrupt) -> tuple[TopicPartition, int]:
        is_known = isinstance(error, UnreadableBatch | LogCorrupt) and error.topic
        if not is_known or error.next_offset is None:
            raise InvalidRequest(
                f"{type(error).__name__} names no batch that could be skipped",
                hint="seek() to where reading shall go on",
            )
        return TopicPartition(error.topic, error.partition), error.next_offset


def at_least_one(name: str, number: int) -> int:
    """How many are wanted, checked: of none there would be nothing to wait for."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidRequest(f"{name}={number!r:.80} is no number of 1 or more")
    return min(number, sys.maxsize)


def known_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The names of columns, checked."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidRequest(
            f"columns={columns!r:.80} is no list of columns",
            hint=f"Give several of {', '.join(ALL_COLUMNS)}, as in columns=['value']",
        )
    names = tuple(columns)
    for name in names:
        if name not in ALL_COLUMNS or names.count(name) > 1:
            near = did_you_mean(name, ALL_COLUMNS) if isinstance(name, str) else ""
            hint = near or f"There are {', '.join(ALL_COLUMNS)}"
            raise InvalidRequest(f"The column {name!r} is not possible", hint=hint)
    if not names:
        raise InvalidRequest("No columns are asked for", hint=f"There are {', '.join(ALL_COLUMNS)}")
    return names
