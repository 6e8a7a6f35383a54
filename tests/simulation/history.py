"""What clients did and saw in one run: the only thing that the checkers look at.

Producers, readers and the admin of `simulation.workload` write it; nothing in it comes from inside
the broker. A batch ends with exactly one verdict. Times are virtual seconds since the run began.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class LogKey(NamedTuple):
    """One partition of one incarnation of a topic."""

    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id.hex()[:6]}-{self.partition}"


class Verdict(enum.Enum):
    """What a producer may believe of a batch."""

    OPEN = "open"
    OK = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Acks(enum.Enum):
    """How much an acknowledgement was to promise."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


@dataclass(slots=True)
class Batch:
    """Some records that a producer handed over together, and what became of them."""

    log: LogKey
    #: Who sent it; batches of one producer to one log are ordered by `number`.
    producer: str
    number: int
    values: tuple[bytes, ...]
    acks: Acks
    begun_s: float
    verdict: Verdict = Verdict.OPEN
    #: Where the acknowledgement says it stands.
    base_offset: int = -1

    def __str__(self) -> str:
        return f"batch {self.number} of {self.producer} to {self.log}"


class Read(NamedTuple):
    """One record as a reader got it."""

    log: LogKey
    reader: str
    #: Begins anew with each seek; within one, offsets follow each other.
    session: int
    offset: int
    value: bytes
    #: What the same answer said of the partition.
    high_watermark: int
    begun_s: float


@dataclass(slots=True)
class Span:
    """What one session of a reader was to read: every offset, from the first one on."""

    log: LogKey
    reader: str
    session: int
    first_offset: int
    #: Where the reading ended because it was to end there; None when it was broken off.
    end_offset: int | None = None


@dataclass(slots=True)
class Trim:
    """A request to delete the records below an offset."""

    log: LogKey
    before_offset: int
    begun_s: float
    #: What it was answered with, and when; -1 while nobody knows.
    low_watermark: int = -1
    ended_s: float = -1.0


@dataclass(slots=True)
class FinalLog:
    """A partition as it is read to its end when all faults are over."""

    log_start: int
    high_watermark: int
    records: dict[int, bytes]


@dataclass(slots=True)
class History:
    """Everything that the checkers know of a run."""

    batches: list[Batch] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    trims: list[Trim] = field(default_factory=list)
    #: Topic ids whose deletion was asked for.
    deleted: dict[bytes, None] = field(default_factory=dict)
    #: Topic ids whose records may go by retention.
    retained: dict[bytes, None] = field(default_factory=dict)
    #: When what was not synced may have gone: the power was cut, or a sync had failed.
    losses_s: list[float] = field(default_factory=list)
    final: dict[LogKey, FinalLog] = field(default_factory=dict)
    #: How long the node took to serve again after the faults, and how long it might.
    recoveries_s: list[tuple[float, float]] = field(default_factory=list)
    #: Answers that no correct broker gives, in words.
    anomalies: list[str] = field(default_factory=list)

    def is_promised(self, batch: Batch) -> bool:
        """Whether the batch must be where its acknowledgement says.

        acks=1 promises no more than the page cache: a power cut may take it, or a failed sync.
        """
        if batch.verdict is not Verdict.OK:
            return False
        return batch.acks is Acks.ALL or all(loss < batch.begun_s for loss in self.losses_s)

    def placed(self) -> Iterator[tuple[LogKey, int, bytes]]:
        """Every record that was seen, with its offset: read on the way, or at the end."""
        for read in self.reads:
            yield read.log, read.offset, read.value
        for log, final in self.final.items():
            for offset, value in final.records.items():
                yield log, offset, value
