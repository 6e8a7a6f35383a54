"""What the files of the last process tell of each log, before anybody looks into the log itself.

Three files tell it: the journal, the clean marker and the watermarks. Which of them is believed is
decided here. A journal that is whole is believed before all else. Where some of it could not be
read that was durable once, the marker of a clean stop and the watermarks stand in, and recovery
hears that the journal may lag behind: what is missing in it is never a reason to remove what lies
in a log. A torn end is no such thing: nobody acted on what it held. Where the journal is lost as a
whole, the watermarks tell what was acknowledged, and so is no torn tail.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.model import PartitionId
from tidelog_broker.storage.journal import UNKNOWN_END, Journal
from tidelog_broker.storage.log_state import CleanState
from tidelog_broker.storage.recovery import Expectation

logger = logging.getLogger(__name__)

_IN_ITS_PLACE: Final = (
    "the clean marker, the watermarks and the logs themselves are believed in its place"
)


@dataclass(slots=True)
class Evidence:
    """See the module."""

    journal: Journal
    clean_states: dict[PartitionId, CleanState]
    #: (high watermark, log start); they lag, as the journal does not.
    watermarks: Mapping[PartitionId, tuple[int, int]]

    def say_what_is_lost(self, stored: Collection[PartitionId]) -> None:
        """A torn end is what any power cut may leave; of the rest somebody has to know."""
        if stored and not self.journal.intact:
            logger.error(
                "the journal is lost, or can't be read from its beginning on: %s. Look after the"
                " disk",
                _IN_ITS_PLACE,
            )
        elif self.journal.is_damaged:
            logger.error("the journal is damaged: %s. Look after the disk", _IN_ITS_PLACE)

    def marks(self, partition_id: PartitionId) -> tuple[int, int]:
        """(log start, high watermark); those of a deleted namesake do not count."""
        state = self.journal.state
        high_watermark, log_start = self.watermarks.get(partition_id, (0, 0))
        if not self.journal.intact or state.ends.get(partition_id) == UNKNOWN_END:
            return log_start, high_watermark
        if state.has_lost_lines:
            start = max(log_start, state.starts.get(partition_id, 0))
            closed = self.clean_states.get(partition_id)
            return (start if closed is None else min(start, closed.log_end)), high_watermark
        if partition_id not in state.ends:
            return 0, 0
        return state.starts.get(partition_id, 0), high_watermark

    def of_clean_stop(self, partition_id: PartitionId) -> CleanState | None:
        """What the last stop vouches for; None where it vouches for nothing.

        The journal was synced before the marker was written. If it is whole and tells of another
        end, somebody has put an older marker back, or copied one of the files without the other.
        """
        found = self.clean_states.get(partition_id)
        state = self.journal.state
        if found is None or not self.journal.intact or state.has_lost_lines:
            return found
        return found if state.ends.get(partition_id) == found.log_end else None

    def vouched(self) -> dict[PartitionId, tuple[int, int]]:
        """End and start of each log that was closed cleanly."""
        return {
            key: (state.log_end, self.marks(key)[0])
            for key in self.clean_states
            if (state := self.of_clean_stop(key)) is not None
        }

    def without_proof(self, stored: Iterable[PartitionId]) -> set[PartitionId]:
        """The logs, there or missing, that this start has to recover.

        A start that ended before it had opened them closes the directory and knows no more of them
        than it found: its marker tells of the others alone.
        """
        state = self.journal.state
        durable = {key for key, end in state.ends.items() if end > 0}
        if state.has_lost_lines and not self.journal.is_damaged:
            # The start that found the damage has asked for them. That they were deleted may be
            # among what is lost, and nobody will ever open them then.
            durable.clear()
        return {key for key in (*stored, *durable) if self.of_clean_stop(key) is None}

    def deleted(self) -> set[PartitionId]:
        """What was announced to be deleted, and not made again since, as far as that is known."""
        state = self.journal.state
        return set() if state.has_lost_lines else state.deleted - self.clean_states.keys()

    def known(self, stored: Iterable[PartitionId]) -> set[PartitionId]:
        """The logs that are there, and those of which the watermarks say that they were."""
        return {*stored, *(key for key, (end, _) in self.watermarks.items() if end > 0)}

    def expectation(self, partition_id: PartitionId) -> Expectation:
        """What recovery of a log is to find."""
        state = self.journal.state
        # A journal that is whole and does not know the partition says that nothing was durable.
        end = state.ends.get(partition_id, 0 if self.journal.intact else UNKNOWN_END)
        return Expectation(
            None if end == UNKNOWN_END else end,
            self.marks(partition_id)[0],
            # Where lines are lost, that it was done may be among them.
            None if state.has_lost_lines else state.cuts.get(partition_id),
            may_lag=state.has_lost_lines,
            acknowledged_end=self._acknowledged_end(partition_id, end),
        )

    def _acknowledged_end(self, partition_id: PartitionId, journalled_end: int) -> int:
        """What the high watermark says of the log's end, where the journal is lost.

        Not where only its last lines may be: the watermark is older than those, and a log that was
        cut or emptied since ends below it.
        """
        if journalled_end != UNKNOWN_END:
            return 0
        return self.watermarks.get(partition_id, (0, 0))[0]
