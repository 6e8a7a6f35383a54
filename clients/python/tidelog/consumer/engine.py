"""The consumer behind both faces of it: assignment, seeks, questions. Runs on one event loop.

`AsyncConsumer` calls it directly, `Consumer` from its own thread through a loop thread. Reading
itself is not here but in `Reading`, so that records never cross a thread one by one. Invariant:
whoever calls this has settled the reading before, and positions are changed nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tidelog.channel import ChannelFactory
from tidelog.consumer.assigning import check_ends, check_said_once, partition_number, partitions_of
from tidelog.consumer.fetched import Delivery
from tidelog.consumer.fetcher import Fetcher
from tidelog.consumer.fetching import Fetching, PartitionState
from tidelog.consumer.offsets import OffsetLookup
from tidelog.consumer.settings import ConsumerSettings
from tidelog.engine.cluster import Cluster
from tidelog.engine.large_messages import expect_large_messages
from tidelog.engine.offsets import Found, OffsetQuestions
from tidelog.engine.partition_names import partition_named, topic_or_partition
from tidelog.engine.places import (
    Place,
    Start,
    Time,
    is_end,
    place_of,
    question_for,
    reset_policy,
    timestamp_of,
)
from tidelog.errors import InvalidPartitions, InvalidRequest, OffsetOutOfRange
from tidelog.model import LATEST_TIMESTAMP, TopicId, TopicPartition

#: A topic, or one partition of it. Not a union, so that type checkers see through a dict's display.
TopicName = TypeVar("TopicName", str, TopicPartition)

#: What can be assigned: topics by name, or topics or single partitions with a place for each.
Assignable = str | Sequence[str] | Mapping[TopicName, Start]

logger = logging.getLogger(__name__)


class ConsumerEngine:
    """See the module."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        settings: ConsumerSettings,
        channel_factory: ChannelFactory,
        on_delivery: Callable[[], None],
        random_source: random.Random | None = None,
    ) -> None:
        chance = random_source or random.Random()
        self.settings = settings
        self.deliveries: deque[Delivery] = deque()
        self.cluster = Cluster(
            bootstrap,
            channel_factory,
            client_id=settings.client_id,
            request_timeout_s=settings.request_timeout_ms / 1000,
            random_source=chance,
        )
        self.fetching = Fetching(
            self.deliveries,
            reset_policy(settings.auto_offset_reset),
            lambda: chance.uniform(0.8, 1.2),
        )
        self._questions = OffsetQuestions(self.cluster, settings.isolation_level)
        self.lookup = OffsetLookup(
            self._questions, _now_ms, timeout_s=settings.default_api_timeout_ms / 1000
        )
        self.fetcher = Fetcher(self.cluster, self.fetching, self.lookup, settings, on_delivery)
        self._started = False

    async def close(self) -> None:
        """Ends every stream and connection."""
        await self.fetcher.close()
        await self.cluster.close()

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.settings.default_api_timeout_ms / 1000

    # ------------------------------------------------------------------ assignment

    async def assign(
        self,
        wanted: Assignable[Any],
        start: Start | None,
        partitions: Iterable[int] | None,
        until: Start | None,
    ) -> None:
        """Reads these partitions from these places on, instead of what was read before."""
        places = await self._places(wanted, start, partitions)
        pinned = {
            topic: (await self.cluster.topic(topic, deadline=self._deadline())).topic_id
            for topic in dict.fromkeys(partition.topic for partition in places)
        }
        check_ends(until, places)
        positions = await self.lookup.resolve(places, pinned)
        ends: dict[TopicPartition, int] = {}
        if until is not None:
            ending = {partition: place_of(until, partition) for partition in places}
            ends = await self.lookup.resolve(
                {partition: place for partition, place in ending.items() if place is not None},
                pinned,
            )
            positions |= await self._reset_beyond(positions, ends, ending, pinned)
        self.fetching.assign(
            PartitionState(name, pinned[name.topic], position, ends.get(name))
            for name, position in positions.items()
        )
        self._begin()

    async def _reset_beyond(
        self,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        ending: Mapping[TopicPartition, Place | None],
        pinned: Mapping[str, TopicId],
    ) -> dict[TopicPartition, int]:
        """What the reset policy makes of positions behind the end of the log.

        No leader would be asked for them, and so none would say that they are out of range.
        """
        policy = self.fetching.reset_policy
        beyond: dict[TopicPartition, Place] = {}
        for name, end in ends.items():
            if positions[name] <= end or not is_end(ending[name]):
                continue
            said = f"Offset {positions[name]} of {name} is out of range: the log ends at {end}"
            if policy.place is None:
                hint = "start='earliest' reads what is there; auto_offset_reset can do so by itself"
                raise OffsetOutOfRange(said, hint=hint)
            logger.warning("%s; auto_offset_reset=%s", said, policy)
            beyond[name] = policy.place
        return await self.lookup.resolve(beyond, pinned)

    def _begin(self) -> None:
        if not self._started:
            self._started = True
            expect_large_messages()
            self.fetcher.start()
        self.fetcher.changed()

    async def _places(
        self,
        wanted: Assignable[Any] | Mapping[Any, Start | None],
        start: Start | None,
        partitions: Iterable[int] | None,
    ) -> dict[TopicPartition, Place]:
        """Every partition that is wanted, with its place."""
        places: dict[TopicPartition, Place] = {}
        if isinstance(partitions, int):
            raise InvalidRequest(
                f"partitions={partitions} is no list", hint=f"Give partitions=[{partitions}]"
            )
        only = None if partitions is None else [partition_number(one) for one in partitions]
        if isinstance(wanted, bytes) or not isinstance(wanted, Iterable):
            raise InvalidRequest(
                f"{wanted!r:.80} names no topic", hint="Give a name, several, or a mapping"
            )
        if isinstance(wanted, Mapping):
            check_said_once(wanted, start, partitions)
        else:
            given = [wanted] if isinstance(wanted, str) else wanted
            wanted = dict.fromkeys(map(topic_or_partition, given), start)
        for name, place in wanted.items():
            if isinstance(topic_or_partition(name), TopicPartition):
                places |= await self._places_of(name.topic, place, [name.partition])
            else:
                places |= await self._places_of(name, place, only)
        for name in places:
            view = await self.cluster.topic(
                name.topic, deadline=self._deadline(), partition=name.partition
            )
            self.cluster.leader(view, name.partition)
        return places

    async def _places_of(
        self, topic: str, start: Start | None, only: list[int] | None
    ) -> dict[TopicPartition, Place]:
        if start is None:
            raise InvalidRequest(
                f"Where to begin reading {topic!r} is not said",
                hint="Give start='earliest', 'latest', an offset, a datetime or a timedelta",
            )
        if isinstance(start, Mapping):
            only = partitions_of(start, only)
        if only is None:
            only = await self._all_of(topic)
        places = {}
        for partition in only:
            name = TopicPartition(topic, partition)
            place = place_of(start, name)
            if place is None:
                raise InvalidPartitions(f"start says no place for partition {partition}")
            places[name] = place
        return places

    async def _all_of(self, topic: str) -> list[int]:
        """The partitions that a topic has now: a broker is asked, since there may be more."""
        known = self.cluster.view.topic(topic)
        beyond = 0 if known is None else known.partition_count
        view = await self.cluster.topic(topic, deadline=self._deadline(), partition=beyond)
        return list(range(view.partition_count))

    async def unassign(self) -> None:
        """Reads nothing any more."""
        self.fetching.assign(())
        self.fetcher.changed()

    def states_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """The assigned partitions of these names; all without any."""
        states = self.fetching.states
        named = list(partitions)
        for partition in named:
            if not isinstance(partition, TopicPartition):
                topic = partition if isinstance(partition, str) else "orders"
                raise InvalidRequest(
                    f"{partition!r:.80} names no partition",
                    hint=f"Give TopicPartition({topic!r:.80}, 0)",
                )
            if partition_named(partition) not in states:
                assigned = ", ".join(map(str, states)) or "nothing"
                raise InvalidRequest(f"{partition} is not assigned", hint=f"Assigned is {assigned}")
        return [states[partition] for partition in named] if named else list(states.values())

    # ------------------------------------------------------------------ moving about

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Goes on at an offset."""
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise InvalidRequest(
                f"{offset!r:.80} is no offset",
                hint="seek_to_beginning, seek_to_end and seek_to_time go to other places",
            )
        (state,) = self.states_of([partition])
        question_for(offset, 0)  # refuses what no offset can be
        self.fetching.seek(state, offset)
        self.fetcher.changed()

    async def seek_to(self, partitions: Iterable[TopicPartition], place: Place) -> None:
        """Goes on at a place, in some or all partitions."""
        states = self.states_of(partitions)
        places = {state.name: place for state in states}
        offsets = await self.lookup.resolve(places, self._pinned(states))
        for state in states:
            self.fetching.seek(state, offsets[state.name])
        self.fetcher.changed()

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hands out nothing of some or all partitions."""
        for state in self.states_of(partitions):
            self.fetching.pause(state)
        self.fetcher.changed()

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hands out again."""
        for state in self.states_of(partitions):
            self.fetching.resume(state)
        self.fetcher.changed()

    @staticmethod
    def _pinned(states: Iterable[PartitionState]) -> dict[str, TopicId]:
        return {state.name.topic: state.topic_id for state in states}

    # ------------------------------------------------------------------ questions

    async def named(
        self, wanted: Iterable[TopicPartition | str], default: bool = True
    ) -> list[TopicPartition]:
        """Partitions, also all of a topic by its name; what is assigned without any."""
        names: list[TopicPartition] = []
        for name in map(topic_or_partition, wanted):
            if isinstance(name, TopicPartition):
                names.append(name)
            else:
                names += [TopicPartition(name, number) for number in await self._all_of(name)]
        return names or list(self.fetching.states)

    async def offsets(
        self, wanted: Iterable[TopicPartition | str], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """Begin or end of logs."""
        names = await self.named(wanted)
        found = await self._ask(dict.fromkeys(names, timestamp_ms))
        return {name: place.offset for name, place in found.items() if place is not None}

    async def offsets_for_times(self, times: Mapping[TopicPartition, Time]) -> Found:
        """The first record at or after each time."""
        now_ms = _now_ms()
        if not isinstance(times, Mapping):
            raise InvalidRequest(
                f"{times!r:.80} has no times", hint="Give {TopicPartition('orders', 0): time}"
            )
        return await self._ask(
            {partition_named(name): timestamp_of(time, now_ms) for name, time in times.items()}
        )

    async def lag(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """How far each position is from the end of its log."""
        ends = await self._ask(dict.fromkeys(positions, LATEST_TIMESTAMP))
        return {
            name: max(0, end.offset - positions[name])
            for name, end in ends.items()
            if end is not None
        }

    async def _ask(self, timestamps: Mapping[TopicPartition, int]) -> Found:
        states = self.fetching.states
        pinned = self._pinned(states[name] for name in timestamps if name in states)
        return await self._questions.ask(timestamps, deadline=self._deadline(), pinned=pinned)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
