"""What a log may look like after a crash: the plain model that crash-point tests compare with.

A `Version` is one legal story of a partition: its batches, how far they were acknowledged, where
the log may start. While an operation runs two stories are legal, the one before it and the one
after it; when it has returned, only the latter is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from storage_kit.batches import headers
from tidelog.records.batch import BatchHeader, read_header
from tidelog_broker.storage import Log, names
from tidelog_broker.storage.producer_state import ProducerStates


@dataclass(slots=True)
class Version:
    """One legal story of a log."""

    #: The stored bytes by base offset.
    batches: dict[int, bytes] = field(default_factory=dict)
    #: Everything below must be there.
    acked_end: int = 0
    start_min: int = 0
    start_max: int = 0

    def copy(self) -> Version:
        """The same story, to be told on differently."""
        return replace(self, batches=dict(self.batches))

    def cut(self, end: int) -> None:
        """Nothing at or above `end` is in the log any more."""
        self.batches = {base: content for base, content in self.batches.items() if base < end}
        self.acked_end = min(self.acked_end, end)

    def mismatch(self, log: Log, found: list[bytes]) -> str | None:
        """Why this is not the story of the log; None when it is."""
        if not self.start_min <= log.log_start <= self.start_max:
            return f"starts at {log.log_start}, not in {self.start_min} to {self.start_max}"
        if log.log_end < self.acked_end:
            return f"ends at {log.log_end}, acknowledged up to {self.acked_end}"
        for content in found:
            base = read_header(content).base_offset
            if self.batches.get(base) != content:
                return f"holds another batch than was appended at {base}"
        return None


@dataclass(slots=True)
class PartitionModel:
    """The legal stories of one partition at this moment."""

    versions: list[Version] = field(default_factory=lambda: [Version()])

    @property
    def now(self) -> Version:
        """The story of the running process."""
        return self.versions[-1]

    def begin(self, change: Version) -> None:
        """An operation has begun: it may have happened, or not yet."""
        self.versions.append(change)

    def settle(self) -> None:
        """The operation has returned: it happened."""
        del self.versions[:-1]

    def check(self, log: Log) -> None:
        """The recovered log is one of the legal ones, whole, and consistent in itself."""
        assert not log.damaged_ranges, log.damaged_ranges
        assert log.evidence_intact or is_set_aside(log)
        assert log.log_start <= log.high_watermark <= log.log_end
        assert log.durable_end == log.log_end
        found = stored_batches(log)
        reasons = [version.mismatch(log, found) for version in self.versions]
        assert None in reasons, f"{log}: {reasons}"
        check_gap_free(log, found)
        check_derived_state(log, found)


def is_set_aside(log: Log) -> bool:
    """Whether a power cut has lost the beginning of the log, so that nothing proves the rest."""
    body = log.body()
    return any(name.endswith(names.ASIDE) for name in body.volume.disk.list_directory(body.folder))


def stored_batches(log: Log) -> list[bytes]:
    """The bytes of every batch in the log, from the one that holds the log start."""
    found = []
    offset = log.log_start
    while offset < log.log_end:
        content = log.read(offset, 400, end=log.log_end)
        assert content, f"{log} returned nothing at {offset}"
        position = 0
        for header in headers(content):
            found.append(content[position : position + header.size])
            position += header.size
            offset = header.next_offset
    return found


def check_gap_free(log: Log, found: list[bytes]) -> None:
    """Offsets follow each other from the log start to the log end."""
    expected = log.log_start
    for content in found:
        header = read_header(content)
        assert header.base_offset <= expected < header.next_offset, (header, expected)
        expected = header.next_offset
    assert expected == log.log_end


def check_derived_state(log: Log, found: list[bytes]) -> None:
    """Epochs, producers, times and size are what a replay of the log gives."""
    held = [read_header(content) for content in found]
    _check_epochs(log, held)
    _check_producers(log, held)
    if held:
        highest = max(header.max_timestamp for header in held)
        latest = log.max_timestamp(log.log_end)
        assert latest is not None
        assert latest.timestamp == highest
        first = next(header for header in held if header.max_timestamp >= highest)
        at = log.offset_for_timestamp(highest)
        assert at is not None
        assert at.offset == max(first.base_offset, log.log_start)
    assert log.size_bytes == sum(segment.size for segment in log.body().segments)


def _check_epochs(log: Log, held: list[BatchHeader]) -> None:
    lines: list[tuple[int, int]] = []
    for header in held:
        if not lines or header.leader_epoch > lines[-1][0]:
            lines.append((header.leader_epoch, max(header.base_offset, log.log_start)))
    known = [line for line in log.body().epochs.lines() if log.log_start <= line[1] < log.log_end]
    older = [line for line in log.body().epochs.lines() if line[1] < log.log_start]
    if lines and older and (not known or known[0][1] > log.log_start):
        known.insert(0, (older[-1][0], log.log_start))
    assert known == lines, (known, lines)


def _check_producers(log: Log, held: list[BatchHeader]) -> None:
    replay = ProducerStates(len(held) + 1)
    for header in held:
        if header.base_sequence >= 0:
            replay.record(header, header.base_offset, 0)
    producers = log.body().load_producers(log.log_end, 0)
    begin = held[0].base_offset if held else log.log_end
    recovered = {
        producer_id: (epoch, recent)
        for producer_id, (epoch, batches) in producers.summary().items()
        if (recent := [batch for batch in batches if batch[2] >= begin])
    }
    assert recovered == replay.summary()
