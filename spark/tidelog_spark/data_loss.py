"""Data that was to be read and is gone: each way in which that happens has its own words.

Planning and reading report here. Invariant: with failOnDataLoss=true, the default, nothing is
passed over in silence: the query fails and says what is missing and what to do; with false the
same words are a warning and reading goes on at the nearest record there is.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.errors import OffsetOutOfRange
from tidelog.model import TopicPartition
from tidelog_spark.offsets import Offsets
from tidelog_spark.topics import Logs

logger = logging.getLogger(__name__)

_GO_ON: Final = "failOnDataLoss=false goes on with what is there"


class DataLoss(OffsetOutOfRange):
    """Records that were to be read are not there any more."""


class DataLossPolicy:
    """Raises or warns, as failOnDataLoss says; counts what it warned about."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self.warnings = 0

    def _report(self, message: str, hint: str) -> None:
        error = DataLoss(message, hint=f"{hint}; {_GO_ON}" if hint else _GO_ON)
        if self._fails:
            raise error
        self.warnings += 1
        logger.warning("%s. Reading goes on (failOnDataLoss=false)", message)

    def deleted_by_retention(self, partition: TopicPartition, start: int, log_start: int) -> None:
        """The log begins behind where reading was to go on."""
        self._report(
            f"{partition} begins at offset {log_start}: the records from {start} up to there were"
            " deleted before they were read, by retention or by a user",
            "Keep records longer (retention.ms, retention.bytes) than a query may stand still",
        )

    def cut_away(
        self, partition: TopicPartition, position: int, log_end: int, *, option: str = ""
    ) -> None:
        """The log ends before where reading stands, or before what an option names."""
        why = f", which {option} names" if option else " where reading stands"
        self._report(
            f"{partition} ends at offset {log_end}, before {position}{why}: the end of its log"
            " was lost, or the offset never existed",
            "Look into the brokers' logs for an unclean start, or correct the offsets",
        )

    def recreated(self, topic: str, old_id: str, new_id: str) -> None:
        """Another topic has taken the name."""
        self._report(
            f"Topic {topic!r} was deleted and created anew (it was {old_id}, now it is {new_id}):"
            " the offsets of the old one mean other records now",
            "Start the query with a new checkpointLocation to read the new topic",
        )

    def topic_left_out(self, topic: str) -> None:
        """The topic that was read is not wanted any more, though it may well be there."""
        self._report(
            f"Topic {topic!r}, which this query has read, is not among the topics to read any more",
            "Put it back into the subscription, or start with a new checkpoint",
        )

    def topic_deleted(self, topic: str) -> None:
        """The topic that was read is gone."""
        self._report(
            f"Topic {topic!r}, which this query has read, does not exist any more",
            "Create it again, or take it out of the subscription and start with a new checkpoint",
        )

    def partition_gone(self, partition: TopicPartition) -> None:
        """The partition that was read is not among those to read."""
        self._report(
            f"{partition}, which this query has read, is not among the partitions to read any more",
            "Put it back into the subscription, or start with a new checkpoint",
        )

    def added_late(self, partition: TopicPartition, log_start: int) -> None:
        """A partition that is new to the query has lost its first records already."""
        self._report(
            f"{partition} is new to this query and begins at offset {log_start} instead of 0:"
            " records in it were deleted before they were read",
            "Keep records longer (retention.ms, retention.bytes) than a query may stand still",
        )


def kept_to_logs(start: Offsets, logs: Logs, policy: DataLossPolicy) -> Offsets:
    """Where to begin, of offsets that a user named: none before its log begins or after it ends."""
    partitions = list(start)
    starts, ends = logs.starts(partitions), logs.ends(partitions)
    for one, offset in start.items():
        if offset < starts[one]:
            policy.deleted_by_retention(one, offset, starts[one])
        elif offset > ends[one]:
            policy.cut_away(one, offset, ends[one], option="startingOffsets")
    return {one: min(max(offset, starts[one]), ends[one]) for one, offset in start.items()}
