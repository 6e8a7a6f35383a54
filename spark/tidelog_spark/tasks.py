"""What Spark hands to a task: a range of one partition's records.

Planning makes these on the driver, `reader` reads them on executors. They are pickled, and hold
nothing but what the task needs.
"""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from tidelog.model import TopicPartition
from tidelog_spark.planning import OffsetRange


class RangePartition(InputPartition):
    """The records of one task; `end` None means where the log ends when the task reads it."""

    def __init__(
        self, partition: TopicPartition, topic_id: str, start: int, end: int | None
    ) -> None:
        super().__init__(None)
        self.partition = partition
        self.topic_id = topic_id
        self.start = start
        self.end = end

    @classmethod
    def of(cls, planned: OffsetRange) -> RangePartition:
        """The task of a planned range."""
        return cls(planned.partition, planned.topic_id, planned.start, planned.end)

    def __repr__(self) -> str:
        return f"RangePartition({self.partition}, {self.start} to {self.end})"
