"""What became of a copied topic: every record there, and each one that is there twice explained.

Every record that the traced connector writes names the attempt that wrote it. Copies of one record
are explained when different attempts at one batch wrote them: a task or a batch that was run again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spark_kit.traced import MARK
from tidelog.records.record import Record


@dataclass(frozen=True, slots=True)
class Copies:
    """What was found."""

    records: int
    missing: int
    #: Values that nobody had written into the source.
    strange: int
    #: Records beyond the first of each value.
    duplicates: int
    #: Attempts that wrote what another attempt had written, by batch.
    replayed: Mapping[int, int] = field(default_factory=dict)
    #: Duplicates that no replay explains, in words.
    unexplained: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Nothing lost, nothing invented, and whatever is there twice is explained."""
        return not (self.missing or self.strange or self.unexplained)

    def summary(self) -> str:
        """One line."""
        attempts, batches = sum(self.replayed.values()), len(self.replayed)
        return (
            f"{self.records:,} records written, {self.missing:,} missing, {self.strange:,} strange,"
            f" {self.duplicates:,} there again, from {attempts} repeated attempts at {batches}"
            f" batches, {len(self.unexplained)} unexplained"
        )


def examine(written: Iterable[Record], expected: Iterable[str]) -> Copies:
    """Compares what stands in the target with what the source was given."""
    attempts: defaultdict[str, list[str]] = defaultdict(list)
    for record in written:
        attempts[(record.value or b"").decode()].append(mark_of(record))
    wanted = set(expected)
    repeated: defaultdict[int, set[str]] = defaultdict(set)
    unexplained = []
    for value, marks in attempts.items():
        if len(marks) == 1:
            continue
        batches = {mark.split("/")[0] for mark in marks}
        if len(set(marks)) < len(marks) or len(batches) > 1:
            unexplained.append(f"{value} was written by {', '.join(marks)}")
        repeated[int(marks[0].split("/")[0])].update(marks[1:])
    count = sum(map(len, attempts.values()))
    return Copies(
        records=count,
        missing=len(wanted - attempts.keys()),
        strange=len(attempts.keys() - wanted),
        duplicates=count - len(attempts),
        replayed={batch: len(marks) for batch, marks in sorted(repeated.items())},
        unexplained=tuple(unexplained),
    )


def mark_of(record: Record) -> str:
    """The attempt that wrote a record."""
    return (dict(record.headers)[MARK] or b"").decode()
