"""Long runs of records of one layout, read by slices with a step instead of one by one.

Most topics hold runs of records as long as each other. Where the codec is not compiled, `decoder`
reads such runs here, four times as fast as record by record; `column_numbers` uses the same slices.
Invariant: a run is taken only when every byte that is a number is what it must be; anything else
is left to the general way, which also has the words for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final

from tidelog.records.batch import LOG_APPEND_TIME_BIT
from tidelog.records.chain import PROBED_RECORDS, equal_records
from tidelog.records.record import NO_HEADERS, Record
from tidelog.records.varint import read_varint

if TYPE_CHECKING:
    from tidelog.records.source import BatchBody

AppendRecords = Callable[[list[Record], "BatchBody", int], None]

#: Records that are read one by one before the next run is looked for.
_ONE_BY_ONE: Final = 256

#: The bytes of the varints of consecutive numbers, as columns: the first byte repeats after 64
#: numbers, the second changes every 64 and, where a third one follows, repeats after 8192.
_LOWEST: Final = bytes(128 | (number << 1 & 127) for number in range(64))
_SECOND: Final = b"".join(bytes((number,)) * 64 for number in range(128))
_SECOND_OF_THREE: Final = b"".join(bytes((128 | number,)) * 64 for number in range(128))
_ONE_BYTE_END: Final = 64
_TWO_BYTE_END: Final = 8192
_THREE_BYTE_END: Final = 1 << 20


def append_by_runs(records: list[Record], body: BatchBody, append_records: AppendRecords) -> None:
    """Append the records of a batch: runs here, all others by `append_records`."""
    left = body.header.record_count
    while left:
        count, size = equal_records(body.data, body.start, body.end, left)
        run = range(body.start, body.start + count * size, size)
        if count < PROBED_RECORDS or not _append_run(records, body, run):
            count = min(left, max(count, _ONE_BY_ONE))
            append_records(records, body, count)
        left -= count


def column(data: bytes, run: range, place: int) -> bytes:
    """The byte at one place of each record of a run."""
    return data[run.start + place : run.stop : run.step]


def equal_lengths(data: bytes, run: range, place: int) -> tuple[int, int, int, int] | None:
    """Where key and value lie in each record of a run, and how long they are.

    None where that is not the same everywhere, or where a record has headers.
    """
    spans: list[int] = []
    for _ in ("key", "value"):
        length, after = read_varint(data, run.start + place)
        after -= run.start
        for at in range(place, after):
            octets = column(data, run, at)
            if octets.count(octets[:1]) != len(run):
                return None
        place = after + max(length, 0)
        if place >= run.step:
            return None
        spans += [after, length]
    if place + 1 != run.step or column(data, run, place).count(0) != len(run):
        return None
    return spans[0], spans[1], spans[2], spans[3]


def _append_run(records: list[Record], body: BatchBody, run: range) -> bool:
    """Append the records of a run; False, and nothing done, where they do not have one layout."""
    header, data = body.header, body.data
    _, after = read_varint(data, run.start)
    place = after - run.start + 1
    stamps = _stamps(data, run, place, header.base_timestamp)
    if stamps is None:
        return False
    timestamps, place = stamps
    first_delta, after = read_varint(data, run.start + place)
    offset = header.base_offset + first_delta
    last_delta = first_delta + len(run) - 1
    if (
        not body.previous_delta < first_delta <= last_delta <= header.last_offset_delta
        or offset < body.wanted_offset
        or not counts_on(data, run, place, first_delta)
    ):
        return False
    layout = equal_lengths(data, run, after - run.start)
    if layout is None:
        return False
    key_start, key_bytes, value_start, value_bytes = layout
    if header.attributes & LOG_APPEND_TIME_BIT:
        timestamps = repeat(header.max_timestamp)
    records.extend(
        map(
            Record,
            repeat(body.origin),
            range(offset, offset + len(run)),
            timestamps,
            _payloads(data, run, key_start, key_bytes),
            _payloads(data, run, value_start, value_bytes),
            repeat(NO_HEADERS),
        )
    )
    body.start, body.previous_delta = run.stop, last_delta
    return True


def _stamps(data: bytes, run: range, place: int, base: int) -> tuple[Iterable[int], int] | None:
    """The timestamps of a run and the place after them; None where a delta takes three bytes."""
    first = column(data, run, place)
    if first.isascii():
        return _each(first, 0, base), place + 1
    second = column(data, run, place + 1)
    # At a record's last byte there is no second one of the last record: it is malformed.
    if len(second) != len(first) or not second.isascii() or min(first) < 128:
        return None
    if second.count(second[:1]) == len(run):
        return _each(first, (second[0] << 7) - 128, base), place + 2
    numbers = [low + (high << 7) - 128 for low, high in zip(first, second, strict=True)]
    return _each(numbers, 0, base), place + 2


def _each(numbers: Sequence[int], above: int, base: int) -> Iterable[int]:
    """Numbers with their zigzag, `above` added, as distances from a base."""
    known = {
        number: base + (((number + above) >> 1) ^ -((number + above) & 1))
        for number in set(numbers)
    }
    return map(known.__getitem__, numbers)


def _payloads(data: bytes, run: range, place: int, size: int) -> Iterable[bytes | None]:
    if size < 0:
        return repeat(None)
    return [data[at : at + size] for at in range(run.start + place, run.stop, run.step)]


def counts_on(data: bytes, run: range, place: int, first: int) -> bool:
    """Whether the varints at one place of each record are `first`, `first` + 1 and so on."""
    count = len(run)
    end = first + count
    lowest = column(data, run, place)
    if end <= _ONE_BYTE_END:
        return lowest == bytes(range(first << 1, end << 1, 2))
    phase = first % len(_LOWEST)
    if lowest != (_LOWEST * (count // len(_LOWEST) + 2))[phase : phase + count]:
        return False
    second = column(data, run, place + 1)
    if first >= _ONE_BYTE_END and end <= _TWO_BYTE_END:
        return second == _SECOND[first:end]
    third = column(data, run, place + 2)
    phase = first % len(_SECOND)
    return (
        first >= _TWO_BYTE_END
        and end <= _THREE_BYTE_END
        and second == (_SECOND_OF_THREE * (count // len(_SECOND) + 2))[phase : phase + count]
        and first >> 13 == (end - 1) >> 13
        and third.count(first >> 13) == count
    )
