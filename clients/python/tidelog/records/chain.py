"""Where the records of a batch begin: the only step of a columnar read that must go one by one.

`column_decoder` decodes all other numbers of all records at once, and the pure `decoder` whole
runs of them. Invariant: only length varints are read here, and whatever they say, every position
handed out lies inside the batch. Compiled by mypyc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptMessage
from tidelog.records.varint import TWO_BYTES, finish_varint, read_varint

#: So many are looked at before a whole batch is sliced.
PROBED_RECORDS: Final = 16

if TYPE_CHECKING:
    from mypy_extensions import i64


def walk_records(buffer: bytes, position: i64, end: i64, count: i64, starts: list[int]) -> i64:
    """Append where each of `count` records begins; return the position behind the last one.

    Raises `CorruptMessage` or, for a read behind the buffer, `IndexError`.
    """
    for _ in range(count):
        starts.append(position)
        number: i64 = buffer[position]
        position += 1
        if number > 127:
            number += (buffer[position] << 7) - 128
            position += 1
            if number >= TWO_BYTES:
                number, position = finish_varint(buffer, position, number)
        position += number >> 1
        if position > end or number & 1:
            raise CorruptMessage("its length is not possible")
    return position


def equal_records(buffer: bytes, position: i64, end: i64, count: i64) -> tuple[i64, i64]:
    """How many of `count` records from `position` on have one size, and that size in bytes.

    A record that is as long as the one before it begins as far behind it: so the same length
    bytes at equal distances are the length bytes of records, and slices with a step find them
    without a loop.
    """
    length, body = read_varint(buffer, position)
    size = body - position + length
    if length < 0 or position + size > end:
        raise CorruptMessage("its length is not possible")
    run = min(count, (end - position) // size)
    if (
        run > PROBED_RECORDS
        and _equal(buffer, position, body, PROBED_RECORDS, size) < PROBED_RECORDS
    ):
        run = PROBED_RECORDS
    return _equal(buffer, position, body, run, size), size


def _equal(buffer: bytes, position: i64, body: i64, run: i64, size: i64) -> i64:
    for column in range(position, body):
        seen = buffer[column : column + (run - 1) * size + 1 : size]
        run = len(seen) - len(seen.lstrip(seen[:1]))
    return run
