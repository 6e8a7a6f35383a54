"""Turns places that people write into offsets, by asking the leaders.

`assign`, the seeks and the reset policy come here. Invariant: "earliest", "latest" and times mean
what they meant when the question was asked; all partitions of one question are asked together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tidelog.consumer.fetching import PartitionState
from tidelog.engine.offsets import OffsetAndTimestamp, OffsetQuestions
from tidelog.engine.places import Offset, Place, ResetPolicy, question_for
from tidelog.model import LATEST_TIMESTAMP, TopicId, TopicPartition


class OffsetLookup:
    """See the module. `now_ms` is the wall clock; `timeout_s` bounds each question."""

    def __init__(
        self, questions: OffsetQuestions, now_ms: Callable[[], int], timeout_s: float
    ) -> None:
        self._questions = questions
        self._now_ms = now_ms
        self._timeout_s = timeout_s

    async def resolve(
        self, places: Mapping[TopicPartition, Place], pinned: Mapping[str, TopicId]
    ) -> dict[TopicPartition, int]:
        """An offset for each place; a time after the last record is the end."""
        now_ms = self._now_ms()
        questions = {partition: question_for(place, now_ms) for partition, place in places.items()}
        offsets: dict[TopicPartition, int] = {}
        timestamps: dict[TopicPartition, int] = {}
        for partition, question in questions.items():
            if isinstance(question, Offset):
                offsets[partition] = question.offset
            else:
                timestamps[partition] = question.timestamp_ms
        found = await self._ask(timestamps, pinned)
        beyond = [partition for partition, place in found.items() if place is None]
        ends = await self._ask(dict.fromkeys(beyond, LATEST_TIMESTAMP), pinned)
        for partition, place in (found | ends).items():
            assert place is not None
            offsets[partition] = place.offset
        return {partition: offsets[partition] for partition in places}

    async def _ask(
        self, timestamps: Mapping[TopicPartition, int], pinned: Mapping[str, TopicId]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        if not timestamps:
            return {}
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        return await self._questions.ask(timestamps, deadline=deadline, pinned=pinned)

    async def reset_offset(self, state: PartitionState, policy: ResetPolicy) -> int:
        """Where the reset policy goes on."""
        assert policy.place is not None
        found = await self.resolve({state.name: policy.place}, {state.name.topic: state.topic_id})
        return found[state.name]
