"""What a consumer reads, from where, and what follows when a broker says no: decisions alone.

The fetcher (the asyncio shell) asks `plan` what to start, stop, refresh and look up, and reports
what brokers pushed; what is for the reader is appended to `deliveries`. Pure: `now` is an
argument. The invariants: pushed data of a session that was ended is never delivered; offsets of a
partition are delivered in order and once; a partition never continues in another topic that took
its name, and never after data was cut away beneath it unless the reset policy says so.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from tidelog.consumer.fetched import Delivery, Fault, Moved, Pushed, walk
from tidelog.engine.places import ResetPolicy
from tidelog.engine.topic_identity import deleted, recreated
from tidelog.errors import (
    CorruptMessage,
    InvalidPartitions,
    LogCorrupt,
    OffsetOutOfRange,
    Refused,
    TidelogError,
    UnknownTopic,
)
from tidelog.model import TopicId, TopicPartition

if TYPE_CHECKING:
    from tidelog.engine.cluster_view import TopicView

logger = logging.getLogger(__name__)

BACKOFF_S: Final = 0.05
BACKOFF_MAX_S: Final = 1.0


class Phase(Enum):
    """What happens to a partition at the moment."""

    WAITING = "waits to be started on its leader"
    LOST = "its position is out of range: the reset policy's offset has to be looked up"
    LOOKING_UP = "that offset is being looked up"
    FETCHING = "its leader pushes"
    RESTING = "paused, read to its end, or failed"


class PartitionState:
    """One assigned partition.

    `position` is the offset of the next record to hand out and belongs to the reader;
    `fetched_to` is the offset after everything that was pushed, `generation` changes whenever
    pushed data that waits for the reader is void (a seek, a pause).
    """

    __slots__ = (
        "address",
        "end_offset",
        "failed",
        "failures",
        "fetched_epoch",
        "fetched_to",
        "generation",
        "high_watermark",
        "log_start",
        "must_refresh",
        "name",
        "paused",
        "phase",
        "position",
        "position_epoch",
        "retry_at",
        "session",
        "topic_id",
    )

    def __init__(
        self, name: TopicPartition, topic_id: TopicId, position: int, end_offset: int | None = None
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.position = position
        self.position_epoch = -1
        self.fetched_to = position
        self.fetched_epoch = -1
        self.end_offset = end_offset
        self.generation = 0
        self.session = 0
        self.address = ""
        self.phase = Phase.WAITING
        self.paused = False
        self.failed: TidelogError | None = None
        self.failures = 0
        self.retry_at = 0.0
        self.must_refresh = False
        self.high_watermark = -1
        self.log_start = -1

    @property
    def is_done(self) -> bool:
        """Whether everything up to the end that was asked for has been handed out."""
        return self.end_offset is not None and self.position >= self.end_offset


@dataclass(slots=True)
class Plan:
    """What to do now; `wake_at` is when to ask again although nothing has happened."""

    start: dict[str, list[PartitionState]] = field(default_factory=dict)
    stop: dict[str, list[int]] = field(default_factory=dict)
    refresh: list[str] = field(default_factory=list)
    reset: list[PartitionState] = field(default_factory=list)
    wake_at: float | None = None


class Fetching:
    """See the module. `jitter` spreads retries: it gives a factor around 1."""

    def __init__(
        self,
        deliveries: deque[Delivery],
        reset_policy: ResetPolicy,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.deliveries = deliveries
        self.reset_policy = reset_policy
        self.states: dict[TopicPartition, PartitionState] = {}
        self._jitter = jitter
        self._session = 0
        self._by_session: dict[int, PartitionState] = {}
        self._waiting: dict[PartitionState, None] = {}
        self._stops: dict[str, list[int]] = {}

    # ------------------------------------------------------------------ what the user wants

    def assign(self, states: Iterable[PartitionState]) -> None:
        """Reads these partitions from now on, and no others."""
        for state in self.states.values():
            self._rest(state)
            state.generation += 1
        self.states = {state.name: state for state in states}
        for state in self.states.values():
            self._wait(state)

    def seek(self, state: PartitionState, offset: int) -> None:
        """Reads the partition from this offset on; what it was failed by is forgotten."""
        self._rest(state)
        state.generation += 1
        state.position = state.fetched_to = offset
        state.position_epoch = state.fetched_epoch = -1
        state.failed, state.failures, state.retry_at = None, 0, 0.0
        self._wait(state)

    def pause(self, state: PartitionState) -> None:
        """Hands out nothing more of the partition; its position stays."""
        if not state.paused:
            state.paused = True
            self._rest(state)
            state.generation += 1

    def resume(self, state: PartitionState) -> None:
        """Goes on where `pause` stopped."""
        if state.paused:
            state.paused = False
            state.fetched_to, state.fetched_epoch = state.position, state.position_epoch
            self._wait(state)

    def _wait(self, state: PartitionState) -> None:
        reached = state.end_offset is not None and state.fetched_to >= state.end_offset
        if state.paused or state.failed is not None or reached:
            state.phase = Phase.RESTING
        else:
            state.phase = Phase.WAITING
            self._waiting[state] = None

    def _rest(self, state: PartitionState) -> None:
        """Ends what is under way for the partition, on its leader too."""
        if state.phase is Phase.FETCHING:
            self._by_session.pop(state.session, None)
            self._stops.setdefault(state.address, []).append(state.session)
        self._waiting.pop(state, None)
        state.phase = Phase.RESTING

    # ------------------------------------------------------------------ what to do

    @property
    def has_stops(self) -> bool:
        """Whether a leader has to be told that a session has ended."""
        return bool(self._stops)

    def plan(self, now: float, topic: Callable[[str], TopicView | None]) -> Plan:
        """What to do now; `topic` gives what is known of a topic, None where that is stale."""
        plan = Plan(stop=self._stops)
        self._stops = {}
        refresh: dict[str, None] = {}
        for state in list(self._waiting):
            if state.retry_at > now:
                early = plan.wake_at is None or state.retry_at < plan.wake_at
                plan.wake_at = state.retry_at if early else plan.wake_at
                continue
            view = None if state.must_refresh else topic(state.name.topic)
            if view is None:
                refresh[state.name.topic] = None
            elif (wrong := self._what_is_wrong(state, view)) is not None:
                self._fail(state, wrong)
            else:
                self._begin(state, view.leaders[state.name.partition].address, plan, now)
        plan.refresh = list(refresh)
        return plan

    @staticmethod
    def _what_is_wrong(state: PartitionState, view: TopicView) -> TidelogError | None:
        if view.topic_id != state.topic_id:
            return recreated(state.name.topic)
        if state.name.partition >= view.partition_count:
            return InvalidPartitions(f"Topic {view.name!r} has no partition {state.name.partition}")
        return None

    def _begin(self, state: PartitionState, address: str | None, plan: Plan, now: float) -> None:
        """Starts the partition on its leader, or has its offset looked up there."""
        if address is None:
            self._retry(state, now)
            plan.wake_at = min(plan.wake_at or state.retry_at, state.retry_at)
            return
        del self._waiting[state]
        if state.phase is Phase.LOST:
            state.phase = Phase.LOOKING_UP
            plan.reset.append(state)
            return
        self._session += 1
        state.phase, state.session, state.address = Phase.FETCHING, self._session, address
        self._by_session[state.session] = state
        plan.start.setdefault(address, []).append(state)

    def _retry(self, state: PartitionState, now: float) -> None:
        """Tries again a little later, with fresh knowledge of who leads."""
        backoff_s = min(BACKOFF_S * 2.0 ** min(state.failures, 10), BACKOFF_MAX_S)
        state.failures += 1
        state.retry_at = now + backoff_s * self._jitter()
        state.must_refresh = True
        self._waiting[state] = None

    def _fail(self, state: PartitionState, error: TidelogError) -> None:
        self._waiting.pop(state, None)
        state.phase = Phase.RESTING
        self.deliveries.append(Fault(state, state.generation, error))

    # ------------------------------------------------------------------ what was asked

    def on_refreshed(
        self, topics: Sequence[str], errors: dict[str, TidelogError], now: float
    ) -> None:
        """The topics were asked for; `errors` has those that could not be described."""
        for state in [state for state in self._waiting if state.name.topic in topics]:
            error = errors.get(state.name.topic)
            if error is None:
                state.must_refresh = False
            elif isinstance(error, UnknownTopic):
                self._fail(state, deleted(state.name.topic))
            elif error.retriable:
                self._retry(state, now)
            else:
                self._fail(state, error)

    def on_refresh_failed(self, topics: Sequence[str], now: float) -> None:
        """Nobody could be asked."""
        for state in [state for state in self._waiting if state.name.topic in topics]:
            self._retry(state, now)

    def on_reset(self, state: PartitionState, offset: int) -> None:
        """The reset policy's offset was found."""
        if state.phase is Phase.LOOKING_UP:
            self._move(state, offset, -1)

    def on_reset_failed(self, state: PartitionState, error: TidelogError, now: float) -> None:
        """The reset policy's offset could not be found."""
        if state.phase is not Phase.LOOKING_UP:
            return
        if error.retriable:
            state.phase = Phase.LOST
            self._retry(state, now)
        else:
            self._fail(state, error)

    def _move(self, state: PartitionState, offset: int, epoch: int) -> None:
        logger.warning("%s: reading goes on at offset %d", state.name, offset)
        state.fetched_to, state.fetched_epoch = offset, epoch
        self.deliveries.append(Moved(state, state.generation, offset))
        self._wait(state)

    # ------------------------------------------------------------------ what leaders say

    def on_records(
        self,
        session: int,
        records: bytes,
        marks: tuple[int, int],
        span: tuple[int, int] | None = None,
    ) -> int:
        """Records were pushed, with high watermark and log start; how many bytes nobody wants.

        They lie in a `span` of the bytes, or are all of these.
        """
        begin, end = span or (0, len(records))
        state = self._by_session.get(session)
        if state is None:
            return end - begin
        kept = 0
        state.failures = 0
        state.high_watermark, state.log_start = marks
        found = walk(records, (begin, end), state.end_offset)
        if found.next_offset > state.fetched_to:
            start = max(state.fetched_to, found.base_offset)
            offsets = start, found.next_offset
            wanted = begin, found.end
            self.deliveries.append(Pushed(state, records, wanted, offsets, found.leader_epoch))
            kept = found.end - begin
            state.fetched_to, state.fetched_epoch = found.next_offset, found.leader_epoch
        if found.is_broken:
            self._rest(state)
            self._fail(state, _broken(state))
        elif state.end_offset is not None and state.fetched_to >= state.end_offset:
            self._rest(state)
        return end - begin - kept

    def on_error(self, session: int, error: TidelogError, now: float) -> None:
        """The leader has ended the session."""
        state = self._by_session.pop(session, None)
        if state is None:
            return
        if isinstance(error, OffsetOutOfRange):
            self._lose(state, error)
        elif isinstance(error, LogCorrupt):
            # The same bytes would be refused for ever, and the reader would wait without a word.
            error.topic, error.partition = state.name.topic, state.name.partition
            self._fail(state, error)
        elif error.retriable or error.refresh_metadata:
            logger.info("%s: %s", state.name, str(error))
            state.phase = Phase.WAITING
            self._retry(state, now)
        else:
            self._fail(state, error)

    def _lose(self, state: PartitionState, error: OffsetOutOfRange) -> None:
        if self.reset_policy.is_none:
            self._fail(state, _out_of_range(state, error))
            return
        logger.warning("%s; auto_offset_reset=%s", error.message, self.reset_policy)
        state.phase = Phase.LOST
        self._waiting[state] = None

    def on_diverging(self, session: int, epoch: int, end_offset: int) -> None:
        """The leader's log was cut below what was read: it goes on from `end_offset` elsewhere."""
        state = self._by_session.pop(session, None)
        if state is None:
            return
        error = _truncated(state, end_offset)
        if self.reset_policy.is_none:
            self._fail(state, error)
        else:
            logger.warning("%s", str(error))
            self._move(state, max(end_offset, 0), epoch)

    def on_stream_lost(self, address: str, error: TidelogError, now: float) -> None:
        """The stream to a leader is gone: what was read there is started anew, unless refused."""
        self._stops.pop(address, None)
        for state in [state for state in self._by_session.values() if state.address == address]:
            del self._by_session[state.session]
            if isinstance(error, Refused):
                self._fail(state, error)
            else:
                state.phase = Phase.WAITING
                self._retry(state, now)


def _out_of_range(state: PartitionState, error: OffsetOutOfRange) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        error.message,
        cause=error.cause,
        hint=(
            f"seek_to_beginning({state.name!r}) reads what is left; auto_offset_reset="
            "'earliest' does so by itself from then on"
        ),
    )


def _truncated(state: PartitionState, end_offset: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"The log of {state.name} was cut at offset {end_offset}, below {state.fetched_to}, up to"
        " which it was read: other records stand there now",
        hint=f"Seek to {end_offset} to read them",
    )


def _broken(state: PartitionState) -> CorruptMessage:
    return CorruptMessage(
        f"What the leader of {state.name} sent from offset {state.fetched_to} on is no whole batch",
        hint="Seek to a later offset to read on",
    )
