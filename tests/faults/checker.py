"""Holds what producers were promised against what a partition holds.

The promises: every acknowledged record stands at its offset, none stands twice, each lane's
records stand in the order in which they were sent without one missing, and offsets are gap-free.
What retention has dropped lies below the log start, where nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from faults.producers import Lane
from harness.client import Client
from tidelog.records.decoder import decode_records
from tidelog.records.record import Record


@dataclass(slots=True)
class Findings:
    """What was wrong, in words and by kind."""

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    gaps: int = 0
    records_checked: int = 0
    words: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """True when every promise was kept."""
        return not self.words

    def add(self, kind: str, words: str) -> None:
        """One more broken promise."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.words.append(words)

    def take(self, other: Findings) -> None:
        """Adds what another check has found."""
        for kind in ("lost", "duplicated", "reordered", "gaps", "records_checked"):
            setattr(self, kind, getattr(self, kind) + getattr(other, kind))
        self.words += other.words


def author_of(record: Record) -> tuple[int, int]:
    """The producer of a record and its number."""
    producer, number, _ = (record.value or b"").split(b" ", 2)
    return int(producer), int(number)


def judge(
    name: str, start: int, records: Sequence[Record], lanes: Sequence[tuple[Lane, int]]
) -> Findings:
    """The verdict on one partition, read from offset `start` to its end.

    Each lane comes with how many of its records were acknowledged before the reading began.
    """
    findings = Findings(records_checked=len(records))
    for expected, record in enumerate(records, start):
        if record.offset != expected:
            findings.add("gaps", f"{name} goes on with {record.offset} where {expected} follows")
            break
    by_offset: dict[int, tuple[int, int]] = {}
    last_number: dict[int, int] = {}
    for record in records:
        producer, number = by_offset[record.offset] = author_of(record)
        last = last_number.get(producer, number - 1)
        where = f"record {number} of producer {producer} at {record.offset} of {name}"
        if number <= last:
            findings.add("duplicated", f"{where} comes after record {last}")
        elif number > last + 1:
            findings.add("reordered", f"{where} comes right after record {last}")
        last_number[producer] = number
    for lane, acknowledged in lanes:
        for number, offset in enumerate(lane.offsets[:acknowledged]):
            if offset >= start and by_offset.get(offset) != (lane.producer, number):
                what = by_offset.get(offset, "nothing")
                findings.add(
                    "lost",
                    f"record {number} of producer {lane.producer} was acknowledged at {offset}"
                    f" of {name}, where there is {what}",
                )
    return findings


async def check_partition(
    client: Client, topic: str, partition: int, lanes: Sequence[Lane], *, tail: int | None = None
) -> Findings:
    """Reads a partition, or only its last `tail` offsets, and judges it."""
    promised = [(lane, len(lane.offsets)) for lane in lanes]
    end = (await client.list_offset(topic, -1, partition)).offset
    low = (await client.list_offset(topic, -2, partition)).offset
    if tail is not None:
        low = max(low, end - tail)
    records: list[Record] = []
    offset = low
    while offset < end:
        answer = await client.fetch(topic, offset, partition=partition, max_bytes=8 << 20)
        if answer.HasField("error") and answer.log_start_offset == 0:
            # Retention overtook the reading: it begins again where the log does now.
            return await check_partition(client, topic, partition, lanes, tail=tail)
        found = decode_records(answer.records, topic, partition, start_offset=offset)
        records += found
        offset = found[-1].offset + 1 if found else end
    return judge(f"{topic}-{partition}", low, records, promised)
